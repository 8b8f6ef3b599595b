"""The events and the marks of a history in Spark, as SQL over its calls. Text only.

`calls`, `queues` and `dedups` are views of `spark_facts.py`, which runs this.
"""

from typing import Final

from spark_load.checks import Scope
from spark_load.flat import KINDS, SEQUENCE_DIGITS
from spark_load.suspects import (
    DELETE,
    DELIVERY,
    EXTENSION,
    PLAN,
    SEND,
    SUSPECT_LIVES,
    SUSPECTS,
    TOP_DIGITS,
)

_NUMBERS: Final = {"send": SEND, "delivery": DELIVERY, "delete": DELETE, "extension": EXTENSION}
_KIND: Final = " ".join(f"WHEN '{action}' THEN '{kind}'" for action, kind in KINDS.items())
_KIND_NUMBER: Final = " ".join(f"WHEN '{kind}' THEN {n}" for kind, n in _NUMBERS.items())

# One row per message of a call that may have had an effect. There are few queues, which Spark does
# not know: it would rather send the calls to everybody.
_MESSAGES: Final = f"""
SELECT /*+ BROADCAST(q) */ kind, family, c.queue, is_fifo, m.key, m.message_id, m.receipt,
  lpad(m.sequence, {SEQUENCE_DIGITS}, '0') AS sequence,
  m.`group` AS message_group, call, attempt, position, c.ended_us, m.outcome,
  CASE WHEN kind IN ('delivery', 'extension')
    THEN COALESCE(visibility * 1000000L, visibility_us) END AS lease_us,
  dedups_by_group, messages,
  IF(kind = 'delivery' AND attempt > 0, intended_us, started_us) AS began_us
FROM (
  SELECT queue, CASE action {_KIND} END AS kind, call, attempt, intended_us, started_us, ended_us,
    visibility, messages, position, m
  FROM calls LATERAL VIEW posexplode(messages) AS position, m
) c JOIN queues q ON q.queue = c.queue
WHERE kind IS NOT NULL AND (m.outcome = 'ok' OR (m.outcome = 'unknown' AND kind <> 'delivery'))
"""

# `chosen` and `planned` may keep those that are wanted.
_EVENTS: Final = """
SELECT kind, xxhash64(key) AS spread, family, queue, is_fifo, key, message_id, receipt, sequence,
  message_group,
  CASE WHEN kind = 'send' AND is_fifo = 1
    THEN concat(IF(dedups_by_group = 1, message_group || '/', ''), COALESCE(dedup_id, key))
    END AS dedup,
  IF(is_fifo = 1, call, NULL) AS call, attempt, position, began_us, ended_us, outcome, lease_us
FROM (SELECT {hint} flat.* FROM ({messages}) flat {chosen}) flat
LEFT JOIN (SELECT {hint} dedups.* FROM dedups {planned}) planned ON dedup_key = key
"""


def _hash(text: str) -> str:
    return f"IF({text} IS NULL, NULL, xxhash64({text}))"


def _tail(sequence: str) -> str:
    """All digits but the first ones."""
    return f"try_cast(substr({sequence}, {TOP_DIGITS + 1}) AS BIGINT)"


# Arrays are searched only where an answer has several messages of a FIFO queue.
_IN_FRONT: Final = f"""
IF(is_fifo = 1 AND position > 0, lpad(try_element_at(filter(slice(messages, 1, position),
  x -> x.`group` <=> message_group AND x.outcome = 'ok' AND x.sequence IS NOT NULL), -1).sequence,
  {SEQUENCE_DIGITS}, '0'), NULL)
"""
MARKS: Final = f"""
SELECT kind, is_ok, k, m, q, r, g, CAST(NULL AS BIGINT) AS d,
  IF(has_sequence, COALESCE(IF(s IS NULL, -1, top), -1), NULL) AS top, s, front,
  IF(front >= s, 1, 0) AS is_turned, began_us, ended_us, lease_us
FROM (
  SELECT CASE kind {_KIND_NUMBER} END AS kind, IF(outcome = 'ok', 1, 0) AS is_ok,
    xxhash64(key) AS k, {_hash("message_id")} AS m, xxhash64(queue) AS q, {_hash("receipt")} AS r,
    IF(message_group IS NOT NULL OR (is_fifo = 1 AND kind IN ('send', 'delivery')),
      xxhash64(queue, message_group), NULL) AS g,
    sequence IS NOT NULL AS has_sequence,
    try_cast(substr(sequence, 1, {TOP_DIGITS}) AS INT) AS top, {_tail("sequence")} AS s,
    {_tail("in_front")} AS front, began_us, ended_us, lease_us
  FROM (SELECT *, {_IN_FRONT} AS in_front FROM ({_MESSAGES}) each_message) flat
) hashed
UNION ALL
SELECT {PLAN}, 1, xxhash64(dedup_key), NULL, NULL, NULL, NULL, xxhash64(dedup_id), NULL, NULL, NULL,
  0, NULL, NULL, NULL
FROM dedups
"""


# Scope → the table of what is wanted, and when an event is.
CHOSEN: Final[dict[Scope, tuple[str, str]]] = {
    "messages": (SUSPECTS.name, "k = xxhash64(key)"),
    "groups": (
        SUSPECT_LIVES.name,
        f"k = xxhash64(key) AND q = xxhash64(queue) AND m <=> {_hash('message_id')}",
    ),
}


def events_sql() -> str:
    return _EVENTS.format(hint="", messages=_MESSAGES, chosen="", planned="")


def chosen_sql(scope: Scope, *, are_few: bool) -> str:
    """The events of the suspects. Few suspects are looked up where the calls are read; many are
    brought together with them.
    """
    table, condition = CHOSEN[scope]
    return _EVENTS.format(
        hint=f"/*+ BROADCAST({table}) */" if are_few else "",
        messages=_MESSAGES,
        chosen=f"LEFT SEMI JOIN {table} ON {condition}",
        planned=f"LEFT SEMI JOIN {table} ON k = xxhash64(dedup_key)",
    )
