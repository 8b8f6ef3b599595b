"""Whoever takes what has landed, and writes to give to it."""

from hypothesis import strategies as st

from fastnode import native
from tests.unit.native import strategies as own
from tests.unit.native.strategies import fitting

Write = tuple[int, bytes, bytes]
HEAD = (bytes(range(16)), 1, 2, 3, 4)

families = st.sampled_from(
    [b"", native.FAMILY_GROUP, native.FAMILY_DEDUP, native.FAMILY_STATE, native.FAMILY_TIMER]
)
# Few counters and marks, so that they meet again, among deltas that no 64 bits hold together.
sums = st.builds(
    lambda kind, name, value: (kind, b"sum %d" % name, value),
    st.sampled_from([native.ADD, native.MAX]),
    st.integers(0, 11),
    st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), -(2**62), 2**62, 2**63 - 1])).map(
        lambda delta: delta.to_bytes(8, "big", signed=True)
    ),
)
family_writes = st.builds(
    lambda family, write: fitting(write[0], family + write[1], write[2]), families, own.writes
)
landed_writes = st.one_of(family_writes, family_writes, sums)
# Whether each transaction lands, and what it writes.
histories = st.lists(st.tuples(st.booleans(), st.lists(landed_writes, max_size=12)), max_size=4)


class Taker:
    """Batch and sums in one, which note what they are given, in order."""

    def __init__(self) -> None:
        self.taken: list[Write] = []
        self.added: dict[bytes, int] = {}
        self.raised: dict[bytes, bytes] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Taker) and self._seen() == other._seen()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def put(self, key: bytes, value: bytes) -> None:
        self.taken.append((native.PUT, key, value))

    def delete(self, key: bytes) -> None:
        self.taken.append((native.DELETE, key, b""))

    def delete_range(self, begin: bytes, end: bytes) -> None:
        self.taken.append((native.DROP, begin, end))

    def drop(self, start: bytes, end: bytes) -> None:
        assert self.taken[-1] == (native.DROP, start, end)
        for changes in (self.added, self.raised):
            for key in [key for key in changes if start <= key < end]:
                del changes[key]

    def _seen(self) -> tuple[object, ...]:
        return self.taken, list(self.added.items()), list(self.raised.items())


def encoded(*transactions: list[Write]) -> bytes:
    """The entry of transactions that write these."""
    return native.encode_entry(
        [native.encode_transaction(*HEAD, [], writes) for writes in transactions]
    )


def outcomes(lands: list[bool]) -> list[tuple[int, int, int]]:
    return [(native.APPLIED if each else native.STALE, 0, 0) for each in lands]
