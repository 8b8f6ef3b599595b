"""The facts of a history that `checks.py` judges, as tables and views. Data: nothing is run here.

One definition for Spark (`verify.py`) and for SQLite (`small.py`), so the SQL keeps to what both
understand.

Three tables are given: `events` (one row per message and attempt of a call that may have had an
effect: send, delivery, delete, extension), `receives` (one row per answered receive) and `queues`.
A family is a queue with the dead-letter queues that its messages may come to.

A call did what it did somewhere between `began_us` and `ended_us`. Only what is certainly wrong is
reported: where an outcome is unknown, or two moments could have been either way round, every
possibility is allowed. So there are two kinds of facts: what certainly happened (outcome `ok`) and
what may have happened (`ok` or `unknown`). Calls that were refused are not in the tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

SECOND_US: Final = 1_000_000
# Later than any moment that a history can name.
NEVER_US: Final = 1 << 62


class Table(NamedTuple):
    """A given table: its columns with types that both engines know."""

    name: str
    columns: Mapping[str, str]


class View(NamedTuple):
    """A derived table. A stored one is computed once, since several checks read it. Of one that is
    spread, rows with equal values of that column are brought together before anything is made of
    them: it pays where nearly all values differ, so that no task alone could sum any up.
    """

    name: str
    sql: str
    is_stored: bool = False
    spread: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The parameters of the SQL, by their names there."""

    # Nodes count in milliseconds, and their clocks may run 500 ppm apart from the clients'.
    tolerance_us: int = 50_000
    # How far the clocks of two clients may be apart after correction.
    clock_us: int = 0
    # What choosing messages may cost a receive.
    budget_us: int = 100_000
    dedup_us: int = 300 * SECOND_US
    never_us: int = NEVER_US

    def parameters(self, sql: str) -> dict[str, int]:
        """Those that occur in it: an engine may refuse the others."""
        return {name: getattr(self, name) for name in self.__slots__ if f":{name}" in sql}


EVENTS: Final = Table(
    "events",
    {
        "kind": "STRING",  # send, delivery, delete, extension
        "spread": "BIGINT",  # a hash of the key
        "family": "STRING",
        "queue": "STRING",
        "is_fifo": "INT",
        "key": "STRING",
        "message_id": "STRING",
        "receipt": "STRING",
        "sequence": "STRING",  # 20 digits, so that text order is numeric order
        "message_group": "STRING",
        "dedup": "STRING",  # of a send to a FIFO queue: within what it is the only one
        "call": "STRING",  # of a FIFO queue: elsewhere nobody asks what came together
        "attempt": "INT",
        "position": "INT",  # within the call
        "began_us": "BIGINT",
        "ended_us": "BIGINT",
        "outcome": "STRING",
        "lease_us": "BIGINT",  # of a delivery or an extension
    },
)
EVENT_ORDER: Final = ("spread", "key", "family", "message_id", "queue", "receipt")
RECEIVES: Final = Table(
    "receives",
    {
        "queue": "STRING",
        "call": "STRING",
        "endpoint": "STRING",
        "began_us": "BIGINT",
        "partitions": "INT",
        "rows_seen": "INT",
        "choose_us": "BIGINT",
    },
)
QUEUES: Final = Table(
    "queues",
    {
        "queue": "STRING",
        "family": "STRING",
        "max_receives": "INT",  # NULL: no dead-letter queue
        "retention_us": "BIGINT",
        "has_consumers": "INT",
        "remaining": "BIGINT",  # what its counters say at the end; NULL: not known
        "is_complete": "INT",  # the history was not cut short
        "began_us": "BIGINT",  # of the history, as is the next
        "ended_us": "BIGINT",
        "lost_receives": "BIGINT",  # whose answer is unknown: they may have delivered something
        "move_tasks": "BIGINT",
    },
)
TABLES: Final = (EVENTS, RECEIVES, QUEUES)

FAMILIES: Final = View(
    "families",
    """
SELECT family, queues, began_us, ended_us, retention_us, move_tasks, remaining, is_drained,
  CASE WHEN is_complete = 0 THEN 0
       WHEN remaining IS NULL THEN is_drained
       WHEN remaining = 0 THEN 1 ELSE 0 END AS is_emptied,
  is_complete
FROM (
  SELECT family, COUNT(*) AS queues, MIN(began_us) AS began_us, MAX(ended_us) AS ended_us,
    MIN(retention_us) AS retention_us, SUM(move_tasks) AS move_tasks,
    CASE WHEN COUNT(remaining) = COUNT(*) THEN SUM(remaining) END AS remaining,
    MIN(is_complete) AS is_complete,
    MIN(CASE WHEN is_complete = 1 AND has_consumers = 1 THEN 1 ELSE 0 END) AS is_drained
  FROM queues GROUP BY family
) each_family
""",
)

# What became of a message in one queue. Sends without an answer have no message id and a row of
# their own.
#
# Here and below rows belong together by `EVENT_ORDER` or a beginning of it. Spark has the events in
# that order, so all of this is one pass without another sort.
MESSAGES: Final = View(
    "messages",
    """
SELECT spread, key, family, message_id, queue, MAX(is_fifo) AS is_fifo,
  SUM(CASE WHEN kind = 'send' AND outcome = 'ok' THEN 1 ELSE 0 END) AS told,
  SUM(CASE WHEN kind = 'send' THEN 1 ELSE 0 END) AS attempts,
  SUM(CASE WHEN kind = 'delivery' THEN 1 ELSE 0 END) AS deliveries,
  SUM(CASE WHEN kind = 'delete' THEN 1 ELSE 0 END) AS deletes,
  MIN(CASE WHEN kind = 'send' THEN began_us END) AS sent_us,
  MAX(CASE WHEN kind = 'send' THEN ended_us END) AS last_sent_us,
  MIN(CASE WHEN kind = 'delivery' THEN ended_us END) AS delivered_us,
  MAX(CASE WHEN kind = 'delivery' THEN began_us END) AS last_delivered_us,
  MIN(CASE WHEN kind = 'delete' THEN began_us END) AS delete_us,
  MIN(sequence) AS sequence, MAX(sequence) AS other_sequence,
  MIN(message_group) AS message_group, MAX(message_group) AS other_group
FROM events GROUP BY spread, key, family, message_id, queue
""",
    is_stored=True,
)

# The same for all queues of a family. `attempts` and `ids` are those of the key: more ids than
# attempts means that one of them was invented.
COPIES: Final = View(
    "copies",
    """
SELECT key, family, message_id, is_fifo, queue, told, deliveries, deletes, sent_us, delivered_us,
  delete_us, SUM(attempts) OVER (PARTITION BY spread, key, family) AS attempts,
  COUNT(message_id) OVER (PARTITION BY spread, key, family) AS ids,
  MAX(last_sent_us) OVER (PARTITION BY spread, key, family)
    - MIN(sent_us) OVER (PARTITION BY spread, key, family) AS sending_us
FROM (
  SELECT spread, key, family, message_id, MAX(is_fifo) AS is_fifo,
    COALESCE(MIN(CASE WHEN attempts > 0 THEN queue END), MIN(queue)) AS queue,
    SUM(told) AS told, SUM(attempts) AS attempts, SUM(deliveries) AS deliveries,
    SUM(deletes) AS deletes, MIN(sent_us) AS sent_us, MAX(last_sent_us) AS last_sent_us,
    MIN(delivered_us) AS delivered_us, MIN(delete_us) AS delete_us
  FROM messages GROUP BY spread, key, family, message_id
) each_copy
""",
    is_stored=True,
)

# The same by message id alone: a repeated deduplication id is answered with the first message's.
IDS: Final = View(
    "ids",
    """
SELECT message_id, family, MAX(is_fifo) AS is_fifo, MIN(queue) AS queue, MIN(key) AS key,
  MAX(key) AS other_key,
  MIN(CASE WHEN deliveries > 0 THEN key END) AS delivered_key,
  MAX(CASE WHEN deliveries > 0 THEN key END) AS other_delivered_key,
  MAX(CASE WHEN ids > attempts THEN 1 ELSE 0 END) AS is_misnamed,
  SUM(told) AS told, SUM(deliveries) AS deliveries, SUM(deletes) AS deletes,
  MIN(sent_us) AS sent_us, MIN(delivered_us) AS delivered_us, MIN(delete_us) AS delete_us
FROM copies WHERE message_id IS NOT NULL GROUP BY message_id, family
""",
    is_stored=True,
)

# One delivery each. `leased_us`: until when it certainly kept the message from everybody else: to
# the end of its lease; to that of its extensions if they were in time and are known; else to the
# earliest of them. `deleted_us` is when a delete was acknowledged that the lease covered, so the
# message is gone; later the receipt may have been void, and a delete by it changes nothing.
# `held_us` is the earlier of the two: until then the message was in flight.
HOLDS: Final = View(
    "holds",
    """
SELECT spread, key, family, message_id, queue, receipt, answers, began_us, ended_us,
  leased_us,
  CASE WHEN deleted_us + :tolerance_us < leased_us THEN deleted_us ELSE leased_us END AS held_us,
  CASE WHEN deleted_us + :tolerance_us < leased_us THEN deleted_us END AS deleted_us
FROM (
  SELECT spread, key, family, message_id, queue, receipt, answers, began_us, ended_us, deleted_us,
    CASE WHEN extended_us IS NULL THEN lease_end_us
         WHEN doubts = 0 AND last_extension_us + :tolerance_us < lease_end_us THEN extended_us
         WHEN extended_us < lease_end_us THEN extended_us
         ELSE lease_end_us END AS leased_us
  FROM (
    SELECT spread, key, family, message_id, queue, receipt,
      SUM(CASE WHEN kind = 'delivery' THEN 1 ELSE 0 END) AS answers,
      MIN(CASE WHEN kind = 'delivery' THEN began_us END) AS began_us,
      MIN(CASE WHEN kind = 'delivery' THEN ended_us END) AS ended_us,
      MIN(CASE WHEN kind = 'delivery' THEN began_us + lease_us END) AS lease_end_us,
      MIN(CASE WHEN kind = 'extension' THEN began_us + lease_us END) AS extended_us,
      MAX(CASE WHEN kind = 'extension' THEN ended_us END) AS last_extension_us,
      SUM(CASE WHEN kind = 'extension' AND outcome <> 'ok' THEN 1 ELSE 0 END) AS doubts,
      MIN(CASE WHEN kind = 'delete' AND outcome = 'ok' THEN ended_us END) AS deleted_us
    FROM events WHERE kind <> 'send' GROUP BY spread, key, family, message_id, queue, receipt
  ) each_receipt WHERE answers > 0
) each_lease
""",
    is_stored=True,
)
# What the verdict counts. Spark has it from what it sums up before.
TALLY: Final = View("tally", "SELECT told, attempts, deliveries, deletes FROM messages")
VIEWS: Final = (FAMILIES, MESSAGES, COPIES, IDS, HOLDS)
