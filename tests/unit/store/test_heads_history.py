"""Random histories of message groups: heads against a full scan, on two replicas.

Sends, receives, changes of visibility, deletes, returns and purges in transactions and entries of
any size, some of them refused. One replica applies entry by entry; the other in groups of any size,
holds rows back, crashes back to its last flush and replays. Heads must be what a look at all
messages says, and both replicas must end with the same bytes.
"""

from copy import deepcopy
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fastnode import config, native
from fastnode.store.held_engine import HeldEngine
from fastnode.store.keyspace import FAMILY_HEAD, FAMILY_READY, MessageKeys, encode_position
from fastnode.store.memory_engine import MemoryEngine
from fastnode.store.txn import Txn
from tests.stored import StoredRows
from tests.unit.store.test_history import Replica

SEGMENT = native.queue_segment("123456789012", "eu-west-1", "orders.fifo")
SCOPES = (MessageKeys(SEGMENT, 1), MessageKeys(SEGMENT, 2), MessageKeys(SEGMENT, 2, 1))
GROUPS = ("a", "ab", "a\x00b")
START = 1_790_000_000_000 << 16

# Where something happens, which of the group's messages it happens to, and a time.
Action = tuple[str, int, str, int, int]
ACTIONS = st.tuples(
    st.sampled_from(["send"] * 3 + ["hide", "delete"] * 2 + ["forget", "restore"]),
    st.integers(0, len(SCOPES) - 1),
    st.sampled_from(GROUPS),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.integers(-3, 9),
)
PURGES = st.tuples(st.just("purge"), st.integers(0, len(SCOPES) - 1), *map(st.just, ("", 0, 0)))
# How far a transaction's commit is ahead of the last one, and what it does.
DRAFTS = st.tuples(
    st.sampled_from([1, 1, 1, 1, 1, 7, 0]),
    st.one_of(
        st.lists(ACTIONS, min_size=1, max_size=5),
        st.lists(ACTIONS, min_size=1, max_size=5),
        st.lists(ACTIONS, min_size=1, max_size=5),
        st.lists(PURGES, min_size=1, max_size=1),
    ),
)


class Model:
    """All messages of all groups with the time that their state says, and those that are gone."""

    def __init__(self) -> None:
        self.messages: dict[tuple[int, str], dict[int, int | None]] = {}
        self.gone: dict[tuple[int, str], list[int]] = {}

    def act(self, txn: Txn, action: Action) -> None:
        name, scope, group, which, ahead = action
        if name == "purge":
            return self._purge(txn, scope)
        messages = self.messages.setdefault((scope, group), {})
        gone = self.gone.setdefault((scope, group), [])
        candidates = gone if name == "restore" else sorted(messages)
        if name == "send":
            where = txn.commit_ts << 16 | len(txn.writes)
        elif candidates:
            where = candidates[which % len(candidates)]
        else:
            return None
        self._write(txn, SCOPES[scope], group, where, name, txn.commit_ts + ahead)
        if name == "delete":
            del messages[where]
            gone.append(where)
        else:
            messages[where] = None if name in ("send", "forget") else txn.commit_ts + ahead
        if name == "restore":
            gone.remove(where)
        return None

    def _write(
        self, txn: Txn, keys: MessageKeys, group: str, where: int, name: str, time: int
    ) -> None:
        if name in ("send", "restore"):
            txn.put_fresh(keys.group_key(group, where), b"")
        if name in ("hide", "restore"):
            txn.put(keys.state_key(where), native.encode_state(1, 1, time, 1))
        if name in ("forget", "delete"):
            txn.delete(keys.state_key(where))
        if name == "delete":
            txn.delete_fresh(keys.group_key(group, where))
        txn.touch(keys.head_key(group))

    def _purge(self, txn: Txn, scope: int) -> None:
        for prefix in SCOPES[scope].prefixes():
            txn.drop(prefix)
        for of_groups in (self.messages, self.gone):
            for key in [key for key in of_groups if key[0] == scope]:
                del of_groups[key]

    def head_rows(self) -> dict[bytes, bytes]:
        rows: dict[bytes, bytes] = {}
        for (scope, group), messages in self.messages.items():
            if messages:
                first = min(messages)
                visible_at = messages[first]
                available_at = first >> 16 if visible_at is None else visible_at
                value = encode_position(first) + available_at.to_bytes(8, "big")
                rows[SCOPES[scope].head_key(group)] = value
                rows[SCOPES[scope].ready_key(available_at, first)] = group.encode()
        return rows


class HeadHistory(RuleBasedStateMachine):
    @initialize(held_rows_max=st.sampled_from([1, 15, 500]))
    def start(self, held_rows_max: int) -> None:
        self.limit = patch.multiple(config, HELD_ROWS_MAX=held_rows_max, HELD_PAUSE_BATCHES=2)
        self.limit.start()
        self.log: list[bytes] = []
        self.model = Model()
        self.steady = Replica.over(MemoryEngine())
        self.stored = StoredRows()
        self.rough = Replica.over(HeldEngine(self.stored))
        self.last = START
        self.requests = 0
        self.log.append(native.encode_entry([self._transaction(1, [])]))
        self.steady.apply(self.log, 1)

    @rule(drafts=st.lists(DRAFTS, min_size=1, max_size=6))
    def append_entry(self, drafts: list[tuple[int, list[Action]]]) -> None:
        self.log.append(native.encode_entry([self._transaction(*draft) for draft in drafts]))
        self.steady.apply(self.log, len(self.log))

    def _transaction(self, ahead: int, actions: list[Action]) -> bytes:
        """A commit that is not ahead of the last one is stale and must leave no trace."""
        self.requests += 1
        txn = Txn(self.requests.to_bytes(16, "big"), self.last, self.last + ahead)
        model = self.model if ahead else deepcopy(self.model)
        for action in actions:
            model.act(txn, action)
        self.last += ahead
        return txn.encode()

    @rule(data=st.data())
    def catch_up(self, data: st.DataObject) -> None:
        behind = len(self.log) - self.rough.group.applied_index
        if behind:
            upto = self.rough.group.applied_index + data.draw(st.integers(1, behind))
            self.rough.apply(self.log, upto)

    @rule()
    def flush(self) -> None:
        self.rough.engine.flush()

    @rule()
    def crash(self) -> None:
        self.stored.crash()
        self.rough = Replica.over(HeldEngine(self.stored))

    @invariant()
    def heads_are_what_a_full_scan_says(self) -> None:
        if hasattr(self, "model"):
            families = (FAMILY_HEAD, FAMILY_READY)
            rows = {key: value for key, value in self.steady.rows() if key.startswith(families)}
            assert rows == self.model.head_rows()

    @invariant()
    def positions_are_those_of_the_group_index(self) -> None:
        if hasattr(self, "model"):
            rows = self.steady.group.head_rows
            for (scope, group), messages in self.model.messages.items():
                first = sorted(messages)[:3]
                if first:
                    key = SCOPES[scope].head_key(group)
                    assert rows.positions(key, first[0], 3) == first

    def teardown(self) -> None:
        if hasattr(self, "limit"):
            self.limit.stop()
        if hasattr(self, "model") and self.log:
            self.rough.apply(self.log, len(self.log))
            assert self.rough.rows() == self.steady.rows()


TestHeadHistory = HeadHistory.TestCase
TestHeadHistory.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
