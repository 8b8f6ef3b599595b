"""The checks of a history, as data: name, meaning, SQL. Nothing is run here.

The SQL reads the tables and views of `facts.py` and selects the offences, nothing where all is
well. What is certain and what is only possible is explained there.
"""

from typing import Any, Final, Literal, NamedTuple

# What an offence depends on: all events of some messages, those of a whole group, one call.
Scope = Literal["messages", "groups", "calls"]


class Check(NamedTuple):
    """`sql` selects offences with the columns of `OFFENCE`."""

    name: str
    meaning: str
    sql: str
    # It says something only about histories that were not cut short.
    needs_end: bool = False
    scope: Scope = "messages"


class Found(NamedTuple):
    """How many offences there are, and the first few."""

    total: int
    examples: list[dict[str, Any]]


OFFENCE: Final = ("queue", "key", "message_id", "at_us", "detail")

LOST: Final = Check(
    "lost",
    "acknowledged and never delivered, or gone without a delete",
    """
SELECT i.queue, i.key, i.message_id, COALESCE(i.sent_us, i.delivered_us) AS at_us,
  CASE WHEN i.deliveries = 0 THEN 'acknowledged and never delivered'
       ELSE 'delivered ' || i.deliveries || ' times, never deleted, and gone' END AS detail
FROM ids i JOIN families f ON f.family = i.family
WHERE i.deletes = 0 AND i.is_misnamed = 0
  AND ((f.is_drained = 1 AND i.deliveries = 0) OR f.is_emptied = 1)
  AND (i.sent_us IS NULL OR i.sent_us + f.retention_us >= f.ended_us)
""",
    needs_end=True,
)

PHANTOM: Final = Check(
    "phantom",
    "delivered, but nobody sent it there",
    """
SELECT queue, key, message_id, delivered_us AS at_us, 'delivered and never sent' AS detail
FROM copies WHERE deliveries > 0 AND attempts = 0
""",
)

RESURRECTED: Final = Check(
    "resurrected",
    "delivered after its delete was acknowledged",
    """
SELECT queue, key, message_id, began_us AS at_us,
  'received ' || (began_us - gone_us) || ' us after its delete was acknowledged' AS detail
FROM (
  SELECT queue, key, message_id, began_us,
    MIN(deleted_us) OVER (PARTITION BY spread, key, family, message_id) AS gone_us
  FROM holds
) each_delivery
WHERE began_us > gone_us + :clock_us
""",
)

# In the order of answers it is enough to look at earlier deliveries that still held the message
# when they were answered: of two that overlap the earlier one does, and whichever came between
# them overlaps it too. A delete ends no lease here: most messages are deleted at once, and whoever
# else has one within its lease took it from the holder or from the dead. What certainly came after
# the delete is resurrected, and reported as that alone.
DOUBLED: Final = Check(
    "doubled_in_window",
    "delivered twice within one visibility timeout",
    """
SELECT queue, key, message_id, ended_us AS at_us,
  CASE WHEN answers > 1 THEN 'one receipt was answered ' || answers || ' times'
       ELSE 'answered ' || (earlier_leased_us - ended_us) || ' us before the last lease ended' END
    AS detail
FROM (
  SELECT queue, key, message_id, answers, began_us, ended_us, leased_us,
    MIN(deleted_us) OVER (PARTITION BY spread, key, family, message_id) AS gone_us,
    MAX(CASE WHEN leased_us > ended_us + :tolerance_us THEN leased_us END) OVER (
      PARTITION BY spread, key, family, message_id ORDER BY ended_us, began_us, receipt
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_leased_us,
    MAX(CASE WHEN leased_us > ended_us + :tolerance_us THEN ended_us END) OVER (
      PARTITION BY spread, key, family, message_id ORDER BY ended_us, began_us, receipt
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_ended_us
  FROM holds
) each_delivery
WHERE answers > 1
  OR (ended_us + :tolerance_us < earlier_leased_us AND earlier_ended_us + :tolerance_us < leased_us
    AND (gone_us IS NULL OR began_us <= gone_us + :clock_us))
""",
)

# `left_us` is the first moment at which a message may have left its group: a delete was begun, it
# may have become a dead letter, its retention was over. One that is lost is reported as that, not
# once more by everything behind it. A second message id by a repeated deduplication id is no place
# in the order, and a row that only repeats another's id is not one either.
FIFO_SEQUENCE: Final = Check(
    "fifo_sequence",
    "a group delivered out of sequence: turned round, or past a message that was still there",
    """
WITH places AS (
  SELECT m.queue, m.message_group, m.sequence, m.deliveries,
    CASE WHEN m.deliveries + q.lost_receives >= q.max_receives THEN 0
         WHEN m.delete_us IS NULL AND f.is_emptied = 1 THEN 0
         WHEN m.delete_us < q.began_us + q.retention_us THEN m.delete_us
         WHEN q.began_us + q.retention_us <= q.ended_us THEN q.began_us + q.retention_us
         ELSE COALESCE(m.delete_us, :never_us) END AS left_us,
    COUNT(*) OVER (PARTITION BY m.queue, m.message_id) AS bearers
  FROM messages m JOIN queues q ON q.queue = m.queue JOIN families f ON f.family = m.family
  WHERE m.is_fifo = 1 AND m.sequence IS NOT NULL
), ordered AS (
  SELECT queue, message_group, sequence,
    MAX(left_us) OVER (PARTITION BY queue, message_group ORDER BY sequence
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS all_left_us,
    LAG(sequence) OVER (PARTITION BY queue, message_group ORDER BY sequence) AS previous,
    LAG(left_us) OVER (PARTITION BY queue, message_group ORDER BY sequence) AS previous_left_us
  FROM places WHERE bearers = 1 OR deliveries > 0
), answered AS (
  SELECT queue, message_group, sequence, key, message_id, ended_us,
    LAG(sequence) OVER (PARTITION BY queue, call, message_group ORDER BY position) AS in_front,
    LAG(sequence) OVER (PARTITION BY queue, call, message_group ORDER BY sequence) AS lower
  FROM events WHERE kind = 'delivery' AND is_fifo = 1
)
SELECT a.queue, a.key, a.message_id, a.ended_us AS at_us,
  CASE WHEN a.sequence <= a.in_front THEN 'in one answer behind ' || a.in_front
       ELSE 'delivered while ' || COALESCE(a.lower, 'an earlier message') || ' to '
         || o.previous || ' had not all left' END
    || ': group ' || a.message_group || ', sequence ' || a.sequence AS detail
FROM answered a JOIN ordered o
  ON o.queue = a.queue AND o.message_group = a.message_group AND o.sequence = a.sequence
WHERE a.sequence <= a.in_front
  OR (a.lower IS NULL AND o.all_left_us >= a.ended_us + :clock_us)
  OR (a.lower < o.previous AND o.previous_left_us >= a.ended_us + :clock_us)
""",
    scope="groups",
)

# A message may have been accepted as soon as anybody tried its deduplication id. The highest
# sequence number that was acknowledged before a send began is a running maximum over all begins
# and ends in the order of time.
FIFO_SENT_ORDER: Final = Check(
    "fifo_sent_order",
    "sent after another of its group was acknowledged, but with a lower sequence number",
    """
WITH attempts AS (
  SELECT queue, message_group, key, message_id, sequence, call, attempt, position, outcome,
    began_us, ended_us, MIN(began_us) OVER (PARTITION BY queue, dedup) AS first_us
  FROM events WHERE kind = 'send' AND is_fifo = 1
), accepted AS (
  SELECT queue, message_group, sequence, MIN(key) AS key, MIN(message_id) AS message_id,
    MIN(first_us) AS first_us, MIN(ended_us) AS ended_us
  FROM attempts WHERE outcome = 'ok' GROUP BY queue, message_group, sequence
), moments AS (
  SELECT queue, message_group, sequence, key, message_id, first_us AS at_us, 0 AS is_end
  FROM accepted
  UNION ALL
  SELECT queue, message_group, sequence, key, message_id, ended_us + :clock_us AS at_us, 1 AS is_end
  FROM accepted
), ranked AS (
  SELECT queue, message_group, sequence, key, message_id, at_us, is_end,
    MAX(CASE WHEN is_end = 1 THEN sequence END) OVER (PARTITION BY queue, message_group
      ORDER BY at_us, is_end ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS highest
  FROM moments
), batched AS (
  SELECT queue, message_group, sequence, key, message_id, began_us AS at_us,
    LAG(sequence) OVER (PARTITION BY queue, call, message_group ORDER BY position) AS highest
  FROM attempts WHERE outcome = 'ok' AND attempt = 0 AND began_us = first_us
)
SELECT queue, key, message_id, at_us, 'sequence ' || sequence || ' in group ' || message_group
  || ' was sent when ' || highest || ' had been acknowledged' AS detail
FROM ranked WHERE is_end = 0 AND sequence < highest
UNION ALL
SELECT queue, key, message_id, at_us, 'sequence ' || sequence || ' in group ' || message_group
  || ' stands behind ' || highest || ' in its batch' AS detail
FROM batched WHERE sequence < highest
""",
    scope="groups",
)

DEDUP: Final = Check(
    "dedup",
    "one deduplication id made two messages within five minutes",
    """
WITH attempts AS (
  SELECT queue, dedup, key, message_id, outcome, began_us, ended_us,
    MIN(CASE WHEN outcome <> 'ok' THEN began_us END) OVER (PARTITION BY queue, dedup) AS doubt_us
  FROM events WHERE kind = 'send' AND is_fifo = 1
), accepted AS (
  SELECT queue, dedup, message_id, MIN(key) AS key, MIN(began_us) AS began_us,
    MIN(ended_us) AS ended_us, MIN(doubt_us) AS doubt_us
  FROM attempts WHERE outcome = 'ok' GROUP BY queue, dedup, message_id
), followed AS (
  SELECT queue, dedup, message_id, key, ended_us,
    LAG(CASE WHEN doubt_us < began_us THEN doubt_us ELSE began_us END)
      OVER (PARTITION BY queue, dedup ORDER BY began_us, message_id) AS earlier_us,
    LAG(message_id) OVER (PARTITION BY queue, dedup ORDER BY began_us, message_id) AS earlier_id
  FROM accepted
)
SELECT queue, key, message_id, ended_us AS at_us,
  dedup || ' made ' || earlier_id || ' before' AS detail
FROM followed WHERE ended_us - earlier_us + :tolerance_us < :dedup_us
UNION ALL
SELECT queue, key, message_id, delivered_us AS at_us,
  'delivered beside another message of the same deduplication id' AS detail
FROM copies
WHERE is_fifo = 1 AND message_id IS NOT NULL AND told = 0 AND ids > 1 AND ids <= attempts
  AND sending_us + :tolerance_us < :dedup_us
""",
)

WRONG_ID: Final = Check(
    "wrong_id",
    "delivered with another id, sequence number or group than was answered to its sender",
    """
SELECT queue, key, message_id, delivered_us AS at_us,
  'one of ' || ids || ' ids after ' || attempts || ' attempts to send it' AS detail
FROM copies WHERE attempts > 0 AND ids > attempts AND told = 0 AND message_id IS NOT NULL
UNION ALL
SELECT queue, key, message_id, COALESCE(delivered_us, sent_us) AS at_us,
  'sequence numbers ' || COALESCE(sequence, '') || ' and ' || COALESCE(other_sequence, '')
    || ', groups ' || COALESCE(message_group, '') || ' and ' || COALESCE(other_group, '') AS detail
FROM messages WHERE sequence < other_sequence OR message_group < other_group
UNION ALL
SELECT queue, key, message_id, COALESCE(delivered_us, sent_us) AS at_us,
  'one id for ' || key || ' and ' || other_key AS detail
FROM ids WHERE (is_fifo = 0 AND key < other_key) OR delivered_key < other_delivered_key
""",
)

# Where a move task ran messages go back and begin to count anew, so nothing is said here: the
# counters still have to add up.
DLQ_BALANCE: Final = Check(
    "dlq_balance",
    "a dead letter too early, received more often than its queue allows, or in both queues",
    """
WITH places AS (
  SELECT m.family, m.queue, m.key, m.message_id, m.deliveries, m.delivered_us, m.last_delivered_us,
    MAX(CASE WHEN m.attempts > 0 THEN m.queue END)
      OVER (PARTITION BY m.spread, m.key, m.family) AS home
  FROM messages m JOIN families f ON f.family = m.family
  WHERE f.queues > 1 AND f.move_tasks = 0
), dead AS (
  SELECT d.queue, d.key, d.message_id, d.delivered_us, q.max_receives, q.lost_receives,
    COALESCE(s.deliveries, 0) AS deliveries, s.last_delivered_us
  FROM places d JOIN queues q ON q.queue = d.home
  LEFT JOIN places s ON s.family = d.family AND s.queue = d.home AND s.key = d.key
    AND s.message_id = d.message_id
  WHERE d.queue <> d.home AND d.deliveries > 0
)
SELECT p.queue, p.key, p.message_id, p.last_delivered_us AS at_us,
  'received ' || p.deliveries || ' times, allowed: ' || q.max_receives AS detail
FROM places p JOIN queues q ON q.queue = p.queue WHERE p.deliveries > q.max_receives
UNION ALL
SELECT queue, key, message_id, delivered_us AS at_us,
  'a dead letter after ' || deliveries || ' receives, not ' || COALESCE(max_receives, 0) AS detail
FROM dead WHERE max_receives IS NULL OR deliveries + lost_receives < max_receives
UNION ALL
SELECT queue, key, message_id, last_delivered_us AS at_us,
  'received from its own queue again when it was a dead letter' AS detail
FROM dead WHERE last_delivered_us > delivered_us + :clock_us
""",
)

# At least what was acknowledged and nobody tried to delete, at most what may have been sent without
# what was certainly deleted. What an empty family lacks is reported as lost, by message.
COUNTERS: Final = Check(
    "counters",
    "counters at the end that do not add up with what was sent and deleted, dead letters included",
    """
WITH known AS (
  SELECT i.family, COUNT(*) AS known,
    SUM(CASE WHEN i.deletes = 0
      AND (i.sent_us IS NULL OR i.sent_us + f.retention_us >= f.ended_us)
      THEN 1 ELSE 0 END) AS kept
  FROM ids i JOIN families f ON f.family = i.family GROUP BY i.family
), possible AS (
  SELECT family, SUM(CASE WHEN is_fifo = 0 AND attempts > ids THEN attempts - ids
    WHEN is_fifo = 1 AND ids = 0 THEN 1 ELSE 0 END) AS possible
  FROM (SELECT DISTINCT family, key, is_fifo, attempts, ids FROM copies
    WHERE message_id IS NULL) each_key GROUP BY family
), gone AS (
  SELECT family, COUNT(*) AS gone
  FROM (SELECT DISTINCT family, message_id FROM holds WHERE deleted_us IS NOT NULL) each_message
  GROUP BY family
), bounds AS (
  SELECT f.family, f.remaining, f.is_emptied, f.ended_us, COALESCE(k.kept, 0) AS low,
    COALESCE(k.known, 0) + COALESCE(p.possible, 0) - COALESCE(g.gone, 0) AS high
  FROM families f LEFT JOIN known k ON k.family = f.family
  LEFT JOIN possible p ON p.family = f.family LEFT JOIN gone g ON g.family = f.family
  WHERE f.remaining IS NOT NULL AND f.is_complete = 1
)
SELECT family AS queue, '' AS key, '' AS message_id, ended_us AS at_us,
  'counters say ' || remaining || ', the history ' || low || ' to ' || high AS detail
FROM bounds WHERE remaining > high OR (is_emptied = 0 AND remaining < low)
""",
    needs_end=True,
)

FANOUT_BUDGET: Final = Check(
    "fanout_budget",
    "a receive that chose for longer than its budget",
    """
SELECT queue, call AS key, '' AS message_id, began_us AS at_us,
  choose_us || ' us for ' || COALESCE(rows_seen, 0) || ' rows in ' || COALESCE(partitions, 0)
    || ' partitions by ' || endpoint AS detail
FROM receives WHERE choose_us > :budget_us
""",
    scope="calls",
)

CHECKS: Final = (
    LOST,
    PHANTOM,
    RESURRECTED,
    DOUBLED,
    FIFO_SEQUENCE,
    FIFO_SENT_ORDER,
    DEDUP,
    WRONG_ID,
    DLQ_BALANCE,
    COUNTERS,
    FANOUT_BUDGET,
)
