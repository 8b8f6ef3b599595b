"""What is left out before the checks run is nothing that they would find: random histories, judged
whole and by their suspects alone, in SQLite.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_load.checks import CHECKS
from spark_load.facts import Limits
from spark_load.flat import Event, QueueFacts, flatten, queue_facts
from spark_load.small import Offence, define, offences
from spark_load.spark_marks import CHOSEN
from spark_load.suspects import KNOTS, MARKS, SUSPECT_VIEWS
from tests.spark.calls import Calls, Row, ending, header, plain

KINDS = ("send", "delivery", "delete", "extension", "plan")
Found = dict[str, list[Offence]]


def hashed(*values: str | None) -> int:
    text = "\0".join(value for value in values if value is not None)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), signed=True)


def optional(value: str | None) -> int | None:
    return None if value is None else hashed(value)


def marks_of(events: Sequence[Event], dedups: dict[str, str]) -> Iterator[dict[str, Any]]:
    fronts: dict[Any, str] = {}
    for event in events:
        answer = (event.kind, event.call, event.attempt, event.message_group)
        in_front = fronts.get(answer) if event.is_fifo else None
        if event.sequence is not None and event.outcome == "ok":
            fronts[answer] = event.sequence
        is_ordered = event.is_fifo and event.kind in ("send", "delivery")
        has_group = is_ordered or event.message_group is not None
        sequence = event.sequence
        yield {
            "kind": KINDS.index(event.kind),
            "is_ok": int(event.outcome == "ok"),
            "k": hashed(event.key),
            "m": optional(event.message_id),
            "q": hashed(event.queue),
            "r": optional(event.receipt),
            "g": hashed(event.queue, event.message_group) if has_group else None,
            "top": None if sequence is None else int(sequence[:2]),
            "s": None if sequence is None else int(sequence[2:]),
            "front": None if in_front is None else int(in_front[2:]),
            "is_turned": int(in_front is not None and in_front >= (sequence or "~")),
            "began_us": event.began_us,
            "ended_us": event.ended_us,
            "lease_us": event.lease_us,
        }
    for key, dedup in dedups.items():
        yield {"kind": 4, "is_ok": 1, "k": hashed(key), "d": hashed(dedup), "is_turned": 0}


def suspicious(
    events: Sequence[Event], dedups: dict[str, str], queues: list[QueueFacts], limits: Limits
) -> dict[str, set[Any]] | None:
    """Scope → what identifies its events; None if all are to be judged."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.create_function("xxhash64", -1, hashed, deterministic=True)
        define(database, (), (), queues, limits)
        database.execute(f"CREATE TABLE marks ({', '.join(MARKS.columns)})")
        for mark in marks_of(events, dedups):
            values = [mark.get(name) for name in MARKS.columns]
            database.execute(f"INSERT INTO marks VALUES ({', '.join('?' * len(values))})", values)
        for view in SUSPECT_VIEWS:
            sql = f"CREATE TABLE {view.name} AS {view.sql}"
            database.execute(sql, limits.parameters(view.sql))
        if database.execute(KNOTS).fetchone()[0]:
            return None
        return {
            scope: set(database.execute(f"SELECT * FROM {CHOSEN[scope][0]}")) for scope in CHOSEN
        }


def judged(
    events: Iterable[Event], queues: list[QueueFacts], limits: Limits, scopes: Iterable[str]
) -> Found:
    with closing(sqlite3.connect(":memory:")) as database:
        define(database, events, (), queues, limits)
        checks = [check for check in CHECKS if check.scope in scopes]
        return {check.name: offences(database, check, limits) for check in checks}


def both_ways(
    rows: Sequence[Row], queues: list[QueueFacts], dedups: dict[str, str]
) -> tuple[Found, Found, dict[str, set[Any]] | None]:
    limits = Limits()
    events = list(flatten(rows, queues, dedups))
    wanted = suspicious(events, dedups, queues, limits)
    whole = judged(events, queues, limits, CHOSEN)
    if wanted is None:
        return whole, whole, None
    in_scope = {
        "messages": [e for e in events if (hashed(e.key),) in wanted["messages"]],
        "groups": [
            e
            for e in events
            if (hashed(e.key), optional(e.message_id), hashed(e.queue)) in wanted["groups"]
        ],
    }
    apart: Found = {}
    for scope, chosen in in_scope.items():
        apart |= judged(chosen, queues, limits, [scope])
    return whole, apart, wanted


QUEUES = (
    plain("q", dead_letter="dead", max_receives=2),
    plain("dead"),
    plain("f.fifo", dead_letter="dead.fifo", max_receives=3),
    plain("dead.fifo"),
)
NUMBERS = st.integers(0, 3)
SECONDS = st.sampled_from([-0.3, 0.1, 0.5, 1.75, 2.5])
# What may be told of a message instead of the truth: that of another one, or nothing.
TOLD = {
    "key": NUMBERS.map(str),
    "message_id": st.one_of(NUMBERS.map("m{}".format), st.none()),
    "receipt": st.sampled_from(["other", None]),
    "sequence": st.one_of(NUMBERS.map(lambda n: str(100 + n)), st.just("9" * 20), st.none()),
    "group": st.sampled_from(["g", "h"]),
    "outcome": st.just("unknown"),
}
CHANGES = ("told", "told", "moved", "moved", "lost", "again", "queue", "together")


def lives(queue: str, keys: Iterable[int], is_slow: bool) -> list[Row]:
    """One after the other; or all are sent before the first is received."""
    calls = Calls(queue, "g" if queue.endswith(".fifo") else None)
    for place, number in enumerate(keys):
        if is_slow:
            at = 2.0 + place / 2
            calls.send(str(number), place / 10).receive(at, str(number))
            calls.delete(str(number), at + 0.1, of=at)
        else:
            calls.life(str(number), place / 2)
    return calls.rows


def changed(draw: st.DrawFn, rows: list[Row]) -> list[Row]:
    """With one thing that a server, a client or the network did differently."""
    index, change = draw(st.integers(0, len(rows) - 1)), draw(st.sampled_from(CHANGES))
    old, others = rows[index], rows[:index] + rows[index + 1 :]
    if change == "lost":
        return others or rows
    if change == "told":
        name = draw(st.sampled_from(sorted(TOLD)))
        told = [each | {name: draw(TOLD[name])} for each in old["messages"]]
        return [*others, old | {"messages": told}]
    if change == "queue":
        return [*others, old | {"queue": draw(st.sampled_from([q.name for q in QUEUES]))}]
    if change == "together":
        same = [each for each in others if each["action"] == old["action"]]
        joined = [m for each in [old, *same[:2]] for m in each["messages"]]
        return [*(each for each in others if each not in same[:2]), old | {"messages": joined}]
    shift = round(draw(SECONDS) * 1e6)
    moved = old | {name: old[name] + shift for name in ("intended_us", "started_us", "ended_us")}
    return [*others, moved, *([old] if change == "again" else [])]


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    """Plain lives, and at most three things that are different."""
    queue = draw(st.sampled_from(["q", "f.fifo", "f.fifo"]))
    keys = draw(st.lists(NUMBERS, min_size=1, max_size=3, unique=True).map(sorted))
    rows = lives(queue, keys, draw(st.booleans()))
    for _ in range(draw(st.integers(0, 3))):
        rows = changed(draw, rows)
    return [each | {"call": f"c{index}"} for index, each in enumerate(rows)]


@settings(max_examples=300, deadline=None)
@given(
    histories(),
    st.dictionaries(NUMBERS.map(str), st.sampled_from(["d0", "d1"]), max_size=2),
    st.tuples(*(st.integers(0, 1) for _ in QUEUES)),
)
def test_the_checks_find_the_same_in_the_suspects_alone(
    rows: list[Row], dedups: dict[str, str], left: tuple[int, ...]
) -> None:
    counters = {queue.name: count for queue, count in zip(QUEUES, left, strict=True)}
    queues = queue_facts(header(*QUEUES), ending(left=counters))
    whole, apart, _ = both_ways(rows, queues, dedups)
    assert apart == whole


@pytest.mark.parametrize("queue", ["q", "f.fifo"])
def test_plain_lives_are_not_suspicious(queue: str) -> None:
    lives = Calls(queue, "g" if queue.endswith(".fifo") else None)
    for number in range(5):
        lives.life(str(number), number)
    queues = queue_facts(header(plain(queue)), ending(left={queue: 0}))
    _, _, wanted = both_ways(lives.rows, queues, {})
    assert wanted == {"messages": set(), "groups": set()}


def test_messages_of_one_answer_are_not_suspicious_for_their_order() -> None:
    group = Calls("f.fifo", "g")
    for number in range(3):
        group.send(str(number), number / 10)
    group.receive(1.0, "0", "1", "2")
    for number in range(3):
        group.delete(str(number), 1.2 + number / 10, of=1.0)
    _, _, wanted = both_ways(
        group.rows, queue_facts(header(plain("f.fifo")), ending(left={"f.fifo": 0})), {}
    )
    assert wanted == {"messages": set(), "groups": set()}
