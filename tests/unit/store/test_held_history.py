"""Random histories of messages on an engine that holds rows back, beside one that does not.

Messages come, are received, change their places in indexes, go, and come back, as queues write
them; whole queues are purged. Meanwhile the engine below stalls, is flushed, crashes, is closed and
opened again, or gets another state. Whatever is read must be what the plain engine says, and a
crash must leave the state after some batch.
"""

from copy import deepcopy
from pathlib import Path
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fastnode import config
from fastnode.native import (
    FAMILY_COUNTER,
    FAMILY_DATA,
    FAMILY_GROUP,
    FAMILY_READY,
    FAMILY_STATE,
    FAMILY_TIMER,
)
from fastnode.store.engine import Engine, WriteStalled
from fastnode.store.held_engine import HeldEngine
from fastnode.store.memory_engine import MemoryEngine
from tests.stored import StoredRows
from tests.unit.store.held_rows import APPLIED, all_rows

FAMILIES = (FAMILY_DATA, FAMILY_STATE, FAMILY_TIMER, FAMILY_GROUP, FAMILY_READY)
# What a batch is told: by which method, with which key, and the value or where a range ends.
Operation = tuple[str, bytes, bytes]
ACTIONS = st.tuples(
    st.sampled_from(
        ["send"] * 3 + ["receive"] * 3 + ["delete"] * 3 + ["forget", "restore", "place", "count"]
    ),
    st.integers(0, 9),
)
KEYS = st.builds(
    lambda family, name, rest: family + b"%d" % name + rest,
    st.sampled_from([*FAMILIES, FAMILY_COUNTER, b""]),
    st.integers(0, 9),
    st.sampled_from([b"", b"\x00", b"|1"]),
)


class Messages:
    """Which there are, with the rows that each has besides its record; and those that are gone."""

    def __init__(self) -> None:
        self.rows: dict[bytes, dict[bytes, bytes]] = {}
        self.gone: list[bytes] = []
        self.count = 0

    def act(self, action: str, which: int) -> list[Operation]:
        self.count += 1
        if action == "count":
            return [("put", FAMILY_COUNTER, b"%d" % self.count)]
        if action == "send":
            return self._come(b"%d" % (self.count % 10) + b"|%d" % self.count)
        names = self.gone if action == "restore" else sorted(self.rows)
        if not names:
            return []
        name = names[which % len(names)]
        if action == "restore":
            self.gone.remove(name)
            return self._come(name)
        return list(getattr(self, f"_{action}")(name))

    def _come(self, name: bytes) -> list[Operation]:
        self.rows[name] = {FAMILY_GROUP: name, FAMILY_READY: name}
        keys = (FAMILY_DATA + name, FAMILY_GROUP + name, FAMILY_READY + name)
        return [("put", key, b"%d" % self.count) for key in keys]

    def _receive(self, name: bytes) -> list[Operation]:
        """Now and then at the same time as before, so that it has the same timer."""
        rows = self.rows[name]
        before = rows.get(FAMILY_TIMER)
        rows[FAMILY_STATE] = name
        rows[FAMILY_TIMER] = name + b"|%d" % (self.count % 3)
        gone = [] if before is None else [("delete", FAMILY_TIMER + before, b"")]
        state = ("put", FAMILY_STATE + name, bytes(self.count % 50))
        return [*gone, state, ("put", FAMILY_TIMER + rows[FAMILY_TIMER], b"")]

    def _forget(self, name: bytes) -> list[Operation]:
        state = self.rows[name].pop(FAMILY_STATE, None)
        return [] if state is None else [("delete", FAMILY_STATE + state, b"")]

    def _place(self, name: bytes) -> list[Operation]:
        """Another one in the index, or the same again."""
        before = self.rows[name][FAMILY_READY]
        self.rows[name][FAMILY_READY] = now = name + b"|%d" % (self.count % 2)
        return [("delete", FAMILY_READY + before, b""), ("put", FAMILY_READY + now, b"")]

    def _delete(self, name: bytes) -> list[Operation]:
        rows = self.rows.pop(name)
        self.gone.append(name)
        keys = [FAMILY_DATA + name, *(family + rest for family, rest in rows.items())]
        return [("delete", key, b"") for key in keys]

    def purge(self) -> list[Operation]:
        self.rows.clear()
        self.gone.clear()
        return [("delete_range", family, family + b"\xff") for family in FAMILIES]


def write(engine: Engine, operations: list[Operation]) -> None:
    batch = engine.batch()
    for kind, key, value in operations:
        if kind == "put":
            batch.put(key, value)
        elif kind == "delete":
            batch.delete(key)
        else:
            batch.delete_range(key, value)
    engine.write(batch)


class HeldHistory(RuleBasedStateMachine):
    @initialize(
        rows_max=st.sampled_from([1, 4, 15, 60]),
        bytes_max=st.sampled_from([500, 1 << 20]),
        pause=st.sampled_from([0, 2]),
    )
    def start(self, rows_max: int, bytes_max: int, pause: int) -> None:
        self.limits = patch.multiple(
            config,
            HELD_ROWS_MAX=rows_max,
            HELD_BYTES_MAX=bytes_max,
            HELD_WAIT_SECONDS=0.0,
            HELD_PAUSE_BATCHES=pause,
        )
        self.limits.start()
        self.stored = StoredRows()
        self.engine = HeldEngine(self.stored)
        # After each batch, and what of it is durable for certain.
        self.states: list[dict[bytes, bytes]] = [{}]
        self.messages = [Messages()]
        self.durable = 0
        self.plain = MemoryEngine()

    @property
    def last(self) -> int:
        return len(self.states) - 1

    def _write(self, operations: list[Operation], messages: Messages) -> None:
        operations = [("put", APPLIED, b"%d" % (self.last + 1)), *operations]
        try:
            write(self.engine, operations)
        except WriteStalled:
            assert self.stored.stalled
            return
        write(self.plain, operations)
        self.states.append(all_rows(self.plain))
        self.messages.append(messages)

    def _return_to(self, number: int) -> None:
        del self.states[number + 1 :], self.messages[number + 1 :]
        self.durable = min(self.durable, number)
        self.plain = MemoryEngine()
        write(self.plain, [("put", *row) for row in self.states[number].items()])

    @rule(actions=st.lists(ACTIONS, min_size=1, max_size=8))
    def write_batch(self, actions: list[tuple[str, int]]) -> None:
        messages = deepcopy(self.messages[-1])
        self._write([each for one in actions for each in messages.act(*one)], messages)

    @rule(actions=st.lists(ACTIONS, max_size=3))
    def purge(self, actions: list[tuple[str, int]]) -> None:
        messages = deepcopy(self.messages[-1])
        before = [each for one in actions for each in messages.act(*one)]
        operations = [*before, *messages.purge()]
        self._write(
            [*operations, *(each for one in actions for each in messages.act(*one))], messages
        )

    @rule()
    def stall(self) -> None:
        self.stored.stalled = not self.stored.stalled

    @rule()
    def flush(self) -> None:
        try:
            self.engine.flush()
        except WriteStalled:
            assert self.stored.stalled
            return
        assert self.stored.rows() == self.states[-1]
        self.durable = self.last

    @rule()
    def checkpoint(self) -> None:
        try:
            self.engine.checkpoint(Path("copy"))
        except WriteStalled:
            assert self.stored.stalled
            return
        assert self.stored.copied == self.states[-1]

    @rule()
    def crash(self) -> None:
        self.stored.crash()
        self.stored.stalled = False
        self._open()

    @rule()
    def close(self) -> None:
        is_stalled = self.stored.stalled
        self.engine.close()
        if not is_stalled:
            self.durable = self.last
        self._open()

    def _open(self) -> None:
        """What is there is the state after some batch, and says after which."""
        reached = int(self.stored.get(APPLIED) or b"0")
        assert self.durable <= reached <= self.last
        assert self.stored.rows() == self.states[reached]
        self.engine = HeldEngine(self.stored)
        self._return_to(reached)

    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        """By the state of somebody who is as far as this one was."""
        number = data.draw(st.integers(0, self.last))
        self.engine.replace(lambda: self.stored.load(self.states[number]))
        self._return_to(number)
        self.durable = number

    @rule(keys=st.lists(KEYS, max_size=4), window=st.tuples(KEYS, KEYS), limit=st.integers(1, 6))
    def look(self, keys: list[bytes], window: tuple[bytes, bytes], limit: int) -> None:
        keys = [*keys, *list(self.states[-1])[:5]]
        held, plain = self.engine, self.plain
        assert held.get_many(keys) == plain.get_many(keys) == [held.get(key) for key in keys]
        families = [(family, family + b"\xff") for family in FAMILIES]
        for start, end in (window, (window[0], b"\xff"), (b"", window[1]), *families):
            assert held.scan(start, end, limit) == plain.scan(start, end, limit)
            assert held.scan_keys(start, end, limit) == plain.scan_keys(start, end, limit)

    @invariant()
    def everything_is_there(self) -> None:
        if hasattr(self, "states"):
            assert all_rows(self.engine) == self.states[-1]

    def teardown(self) -> None:
        if hasattr(self, "limits"):
            self.limits.stop()


TestHeldHistory = HeldHistory.TestCase
TestHeldHistory.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
