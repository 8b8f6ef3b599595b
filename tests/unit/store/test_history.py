"""Random histories of transactions: the real store against a dict and a list, on two replicas.

Transactions come as another leader may have left them in the log: planned on old state, repeated
under the same request, stamped too late. One replica applies entry by entry; the other in groups of
any size, crashes back to its last flush, replays, and is now and then replaced by a copy of the
first. Both must end with the same bytes, and those must be what the model says.
"""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fastnode import native
from fastnode.clock import GroupClock
from fastnode.native import ADD, DELETE, DROP, FRESH_DELETE, FRESH_PUT, MAX, PUT
from fastnode.store.engine import Engine
from fastnode.store.group import Group
from fastnode.store.memory_engine import MemoryEngine
from tests.world import START_MS, FakeClock

KEYS = [b"a", b"b", b"g|1"]
Write = tuple[int, bytes, bytes]


def delta(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


WRITES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([PUT, FRESH_PUT]), st.sampled_from(KEYS), st.binary(max_size=2)),
        st.tuples(st.sampled_from([DELETE, FRESH_DELETE]), st.sampled_from(KEYS), st.just(b"")),
        st.tuples(st.just(ADD), st.just(b"sum"), st.integers(-9, 9).map(delta)),
        st.tuples(st.just(MAX), st.just(b"mark"), st.binary(min_size=1, max_size=2)),
        st.just((DROP, b"g|", b"g}")),
    ),
    max_size=3,
)


Draft = tuple[int, int, int, list[bytes], list[Write]]
# How far the commit is ahead of the last one, how old the plan is, how long ago its request came.
DRAFTS = st.tuples(
    st.sampled_from([1, 1, 1, 1, 1, 0, -1]),
    st.sampled_from([0, 0, 0, 1, 3]),
    st.sampled_from([0, 0, 0, 0, 2]),
    st.lists(st.sampled_from(KEYS), max_size=2),
    WRITES,
)


class Model:
    """Rows, and for each request and each key when it was last written; nothing is forgotten."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.requests: set[bytes] = set()
        self.written: dict[bytes, int] = {}
        self.last = 0

    def apply(
        self, request: bytes, start: int, commit: int, reads: list[bytes], writes: list[Write]
    ) -> None:
        checked = [key for kind, key, _ in writes if kind in (PUT, DELETE)]
        is_blind = any(self.written.get(key, 0) > start for key in [*reads, *checked])
        if request in self.requests or commit <= self.last or is_blind:
            return
        self.last = commit
        self.requests.add(request)
        self.written |= dict.fromkeys(checked, commit)
        for kind, key, value in writes:
            self._write(kind, key, value)

    def _write(self, kind: int, key: bytes, value: bytes) -> None:
        if kind in (PUT, FRESH_PUT):
            self.rows[key] = value
        elif kind in (DELETE, FRESH_DELETE):
            self.rows.pop(key, None)
        elif kind == ADD:
            total = int.from_bytes(self.rows.get(key, b""), "big", signed=True)
            self.rows[key] = delta(total + int.from_bytes(value, "big", signed=True))
        elif kind == MAX:
            self.rows[key] = max(self.rows.get(key, b""), value)
        else:
            self.rows = {k: v for k, v in self.rows.items() if not key <= k < value}


@dataclass
class Replica:
    engine: Engine
    group: Group

    @classmethod
    def over(cls, engine: Engine) -> "Replica":
        return cls(engine, Group(0, engine, GroupClock(FakeClock())))

    def apply(self, log: list[bytes], upto: int) -> None:
        index = self.group.applied_index
        self.group.commit(upto, 1, log[index:upto])
        assert self.group.apply()

    def rows(self) -> list[tuple[bytes, bytes]]:
        return self.engine.scan(b"", b"\xff", 10_000)


class StoreHistory(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.log: list[bytes] = []
        self.model = Model()
        self.steady = Replica.over(MemoryEngine())
        self.stored = MemoryEngine()
        self.rough = Replica.over(self.stored)
        self.clock_ms = START_MS
        self.requests = 0

    @rule(drafts=st.lists(DRAFTS, min_size=1, max_size=8), step_ms=st.sampled_from([0, 0, 1, 5]))
    def append_entry(self, drafts: list[Draft], step_ms: int) -> None:
        self.clock_ms += step_ms
        self.log.append(native.encode_entry([self._transaction(*draft) for draft in drafts]))
        self.steady.apply(self.log, len(self.log))

    def _transaction(
        self, ahead: int, behind: int, repeats: int, reads: list[bytes], writes: list[Write]
    ) -> bytes:
        last = self.model.last or self.clock_ms << 16
        commit = max(last, self.clock_ms << 16) + ahead
        start = last - behind
        self.requests += 1
        request = max(1, self.requests - repeats).to_bytes(16, "big")
        self.model.apply(request, start, commit, reads, writes)
        return native.encode_transaction(request, start, commit, 0, 1, reads, writes)

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
        self.rough = Replica.over(self.stored)

    @rule()
    def replace_by_a_copy(self) -> None:
        """As a snapshot does: the rows of the other replica, and nothing else."""
        self.stored = MemoryEngine()
        batch = self.stored.batch()
        for key, value in self.steady.rows():
            batch.put(key, value)
        self.stored.write(batch)
        self.stored.flush()
        self.rough = Replica.over(self.stored)

    @invariant()
    def state_is_what_the_model_says(self) -> None:
        if hasattr(self, "model"):
            rows = {k: v for k, v in self.steady.rows() if not k.startswith(b"!raft|")}
            assert rows == self.model.rows

    def teardown(self) -> None:
        if hasattr(self, "model") and self.log:
            self.rough.apply(self.log, len(self.log))
            assert self.rough.rows() == self.steady.rows()


TestStoreHistory = StoreHistory.TestCase
TestStoreHistory.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
