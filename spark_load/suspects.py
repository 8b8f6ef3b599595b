"""Which messages and groups of a history have to be judged at all, as SQL. Data: nothing is run.

Nearly every message of a large history is sent, delivered once and deleted in time, and none of the
checks can find anything in it. This is seen from a few sums of numbers per message, at a fraction
of what the checks cost; they then judge what is left, the suspects. The checks are the definition:
whatever they find in a whole history has to be among the suspects, and they have to find the same
in the suspects alone. Why that holds is said where a line is drawn. `tests/spark/test_suspects.py`
tries it with random histories.

One table is given, `marks`: a row for each event of `facts.py`, texts replaced by their hashes, and
one (`PLAN`) for each message to which the trace gives a deduplication id. Two texts of one hash are
taken for one, which only adds suspects: such a message has too many events to be a plain one.
"""

from typing import Final

from spark_load.facts import Table, View

SEND, DELIVERY, DELETE, EXTENSION, PLAN = range(5)
# A sequence number has 20 digits: the first two, and the others as a number.
TOP_DIGITS: Final = 2

MARKS: Final = Table(
    "marks",
    {
        "kind": "INT",  # as above
        "is_ok": "INT",  # the outcome is known
        "k": "BIGINT",  # key
        "m": "BIGINT",  # message id
        "q": "BIGINT",  # queue; NULL: a plan
        "r": "BIGINT",  # receipt
        "g": "BIGINT",  # queue and group; NULL: nothing is said of a group
        "d": "BIGINT",  # deduplication id, of a plan
        "top": "INT",  # the first digits of the sequence number; -1: it is no number
        "s": "BIGINT",  # the others
        "front": "BIGINT",  # `s` of the last message of the group before it in the same answer
        "is_turned": "INT",  # that one is not lower
        "began_us": "BIGINT",
        "ended_us": "BIGINT",
        "lease_us": "BIGINT",
    },
)


def _of(kind: int, value: str) -> str:
    return f"CASE WHEN kind = {kind} THEN {value} END"


# What became of a message in one queue, as `messages` has it. A plain life is one send, one
# delivery and one delete that was acknowledged within the lease, all told of the same id, receipt,
# group and sequence number. If nothing else is known of its key, and no other key has its id or its
# deduplication id, then it is a row of its own in every view, and:
#   lost, phantom: it was delivered, deleted and sent; resurrected, doubled: there is one delivery,
#   begun before the delete was answered; wrong_id: nothing differs; dedup: there is one id of one
#   attempt; dlq_balance: one receive is always allowed, and it was in the queue it was sent to;
#   counters: it is one of `known` and of `gone`, not one of `kept` or `possible`: no bound moves.
LIVES: Final = View(
    "lives",
    f"""
SELECT k, m, q, d, other_d, g, top, s, told, attempts, deliveries, deletes, sent_us, acked_us,
  delivered_us, delete_us, low_front, high_front, fronts, is_turned,
  CASE WHEN events = 3 AND told = 1 AND deliveries = 1 AND deletes = 1 AND m IS NOT NULL
      AND receipts = 2 AND r = other_r AND deleted_us + :tolerance_us < lease_end_us
      AND received_us <= deleted_us AND is_knotted = 0
    THEN 1 ELSE 0 END AS is_plain,
  is_knotted
FROM (
  SELECT k, m, q, MIN(d) AS d, MAX(d) AS other_d, MIN(g) AS g, MIN(top) AS top,
    MIN(s) AS s, COUNT(*) AS events,
    SUM(CASE WHEN kind = {SEND} AND is_ok = 1 THEN 1 ELSE 0 END) AS told,
    SUM(CASE WHEN kind = {SEND} THEN 1 ELSE 0 END) AS attempts,
    SUM(CASE WHEN kind = {DELIVERY} THEN 1 ELSE 0 END) AS deliveries,
    SUM(CASE WHEN kind = {DELETE} THEN 1 ELSE 0 END) AS deletes,
    COUNT(r) AS receipts, MIN(r) AS r, MAX(r) AS other_r,
    MIN({_of(SEND, "began_us")}) AS sent_us,
    MIN(CASE WHEN kind = {SEND} AND is_ok = 1 THEN ended_us END) AS acked_us,
    MIN({_of(DELIVERY, "began_us")}) AS received_us,
    MIN({_of(DELIVERY, "ended_us")}) AS delivered_us,
    MIN({_of(DELIVERY, "began_us + lease_us")}) AS lease_end_us,
    MIN({_of(DELETE, "began_us")}) AS delete_us,
    MIN(CASE WHEN kind = {DELETE} AND is_ok = 1 THEN ended_us END) AS deleted_us,
    MIN({_of(DELIVERY, "front")}) AS low_front, MAX({_of(DELIVERY, "front")}) AS high_front,
    COUNT({_of(DELIVERY, "front")}) AS fronts, MAX(is_turned) AS is_turned,
    CASE WHEN MIN(g) < MAX(g) OR MIN(s) < MAX(s) OR MIN(top) < MAX(top) OR MIN(top) < 0
      THEN 1 ELSE 0 END AS is_knotted
  FROM marks GROUP BY k, m, q
) each_life
""",
    is_stored=True,
)

# A key's lives together. What the trace says of its deduplication id is a life without a queue.
KEYS: Final = View(
    "keys",
    """
SELECT k, COALESCE(MIN(d), k) AS d, MIN(g) AS g,
  CASE WHEN COUNT(q) = 1 AND MIN(CASE WHEN q IS NOT NULL THEN is_plain END) = 1
    THEN 1 ELSE 0 END AS is_plain,
  CASE WHEN MAX(is_knotted) = 1 OR MIN(d) < MAX(other_d)
      OR MIN(CASE WHEN attempts > 0 THEN g END) < MAX(CASE WHEN attempts > 0 THEN g END)
    THEN 1 ELSE 0 END AS is_knotted,
  COUNT(q) AS lives
FROM lives GROUP BY k
""",
    is_stored=True,
)

# Message ids and deduplication ids that more than one key has.
TAGS: Final = View(
    "tags",
    """
SELECT m AS tag, k, g FROM lives WHERE m IS NOT NULL
UNION ALL
SELECT d AS tag, k, g FROM keys WHERE g IS NOT NULL
""",
    spread="tag",
)
SHARED: Final = View(
    "shared",
    """
SELECT tag, CASE WHEN MIN(g) < MAX(g) THEN 1 ELSE 0 END AS is_knotted
FROM tags GROUP BY tag HAVING MIN(k) < MAX(k)
""",
    is_stored=True,
)

SUSPECTS: Final = View(
    "suspects",
    """
SELECT k FROM keys WHERE is_plain = 0 AND lives > 0
UNION
SELECT l.k FROM lives l JOIN shared s ON s.tag = l.m
UNION
SELECT keys.k FROM keys JOIN shared s ON s.tag = keys.d WHERE keys.g IS NOT NULL
""",
    is_stored=True,
)

# Groups in which the order may be wrong. With all places of a group in the order of their numbers:
#
# `fifo_sent_order` finds A, sent after a higher B was acknowledged. No life of A was sent earlier
# than `fifo_sent_order` takes it to be, and one of B's was acknowledged when B was, so there is
# `latest_sent_us` of that life, which comes after A's, later than its `acked_us`. In one batch A
# stands behind B: then some message there stands behind a higher one, and is turned.
#
# `fifo_sequence` finds a message that stands behind a higher one in its answer, which is turned; or
# one that was answered when one before it had not left, and `all_left_us` is the latest that any of
# those left (never earlier than that check takes it to be). It does not if the place before it
# (`previous`) is of a message in the same answer, so that needs no suspicion. Of two places with
# one number it takes either, unless one only repeats the other's id and was never delivered.
#
# Only the last attempt of a call has an answer, so an answer is a row of the history.
GROUPS: Final = View(
    "suspect_groups",
    """
SELECT g FROM (
  SELECT g, m, top, s, deliveries, delivered_us, acked_us, low_front, high_front, fronts, is_turned,
    LAG(top) OVER (PARTITION BY g ORDER BY s, is_delivered DESC, sent_us, k) AS previous_top,
    LAG(s) OVER (PARTITION BY g ORDER BY s, is_delivered DESC, sent_us, k) AS previous,
    LAG(m) OVER (PARTITION BY g ORDER BY s, is_delivered DESC, sent_us, k) AS previous_m,
    MAX(left_us) OVER (PARTITION BY g ORDER BY s, is_delivered DESC, sent_us, k
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS all_left_us,
    MAX(sent_us) OVER (PARTITION BY g ORDER BY s, is_delivered DESC, sent_us, k
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS latest_sent_us
  FROM (
    SELECT /*+ BROADCAST(q), BROADCAST(f) */ l.*,
      CASE WHEN deliveries > 0 THEN 1 ELSE 0 END AS is_delivered,
      CASE WHEN delete_us IS NULL AND f.is_emptied = 1 THEN 0
           ELSE COALESCE(delete_us, :never_us) END AS left_us
    FROM lives l JOIN queues q ON xxhash64(q.queue) = l.q JOIN families f ON f.family = q.family
    WHERE l.s IS NOT NULL AND l.g IS NOT NULL
  ) each_place
) ordered
WHERE is_turned = 1 OR top <> previous_top
  OR (s = previous AND (deliveries > 0 OR m <> previous_m OR m IS NULL OR previous_m IS NULL))
  OR latest_sent_us > acked_us + :clock_us
  OR (all_left_us >= delivered_us + :clock_us
    AND (fronts < deliveries OR low_front <> previous OR high_front <> previous))
GROUP BY g
""",
    is_stored=True,
)

# The lives in them. In these alone both checks find the same: they compare messages of one group,
# and attempts with one deduplication id or message id, which is of one group if nothing is knotted.
SUSPECT_LIVES: Final = View(
    "suspect_lives",
    "SELECT k, m, q FROM lives WHERE g IN (SELECT g FROM suspect_groups)",
    is_stored=True,
)

# What the numbers cannot express: a message in two groups or with two sequence numbers, one that is
# no number, an id or a deduplication id of messages of two groups. Then everything is judged.
KNOTS: Final = """
SELECT (SELECT COUNT(*) FROM keys WHERE is_knotted = 1)
  + (SELECT COUNT(*) FROM shared WHERE is_knotted = 1) AS knots
"""
SUSPECT_VIEWS: Final = (LIVES, KEYS, TAGS, SHARED, SUSPECTS, GROUPS, SUSPECT_LIVES)
