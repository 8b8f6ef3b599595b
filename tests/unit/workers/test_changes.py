"""What a worker is told of a sibling's metadata is what the sibling has."""

from bisect import insort
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from fastnode.native import ADD, DELETE, DROP, PUT, prefix_end
from fastnode.workers import changes
from fastnode.workers.changes import MIRRORED, ROWS_MAX, Asked, Changes, Rows, Told, mirrored_ranges

KEYS = [family + bytes([letter]) for family in MIRRORED for letter in b"abc"]
STEPS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from([b"", b"1", b"2"]), st.booleans()), max_size=40
)


class Where(NamedTuple):
    applied_index: int
    term: int = 1
    commit_ts: int = 7


class Table:
    """Rows in a dict; whoever has one can tell of them, or follow somebody else's."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    def scan(self, start: bytes, end: bytes, limit: int) -> Rows:
        keys: list[bytes] = []
        for key in self.rows:
            if start <= key < end:
                insort(keys, key)
        return [(key, self.rows[key]) for key in keys[:limit]]

    def replace(self, ranges: list[tuple[bytes, bytes, Rows]]) -> None:
        for begin, end, rows in ranges:
            for key in [key for key in self.rows if begin <= key < end]:
                del self.rows[key]
            self.rows.update(rows)


class Pair:
    """A source whose index grows with every change, and a mirror that asks when it is told to."""

    def __init__(self) -> None:
        self.source, self.mirror = Table(), Table()
        self.known = Changes()
        self.index = self.reached = 0

    def write(self, key: bytes, value: bytes) -> None:
        self.index += 1
        kind = PUT if value else DELETE
        if value:
            self.source.rows[key] = value
        else:
            self.source.rows.pop(key, None)
        self.known.note(mirrored_ranges([(kind, key, value)]), self.index)

    def restart(self) -> None:
        """The source's process ends: what changed before, it cannot say."""
        self.known = Changes()

    def ask(self, since: int, after: bytes = b"") -> Told:
        asked = Asked(0, since, after)
        told = changes.decode_told(
            changes.encode(changes.tell(self.source, Where(self.index), self.known, asked))
        )
        self.mirror.replace(told.ranges)
        return told

    def follow(self) -> int:
        """How many pages it took."""
        pages, told = 1, self.ask(self.reached)
        while told.is_copy and told.after:
            pages, told = pages + 1, self.ask(0, told.after)
        while not told.is_all:
            pages, told = pages + 1, self.ask(told.index)
        self.reached = told.index
        return pages


@given(STEPS, st.integers(0, 40))
def test_a_mirror_that_follows_now_and_then_has_what_its_source_has(
    steps: list[tuple[bytes, bytes, bool]], restart_at: int
) -> None:
    pair = Pair()
    for at, (key, value, follows) in enumerate(steps):
        pair.write(key, value)
        if at == restart_at:
            pair.restart()
        if follows:
            pair.follow()
    pair.follow()
    assert pair.mirror.rows == pair.source.rows


def test_more_than_a_page_comes_in_pages_and_each_row_once() -> None:
    pair = Pair()
    for number in range(3 * ROWS_MAX):
        pair.write(MIRRORED[0] + number.to_bytes(2, "big"), b"x")
    assert pair.follow() == 3
    assert pair.mirror.rows == pair.source.rows
    pair.restart()
    pair.mirror.rows[MIRRORED[0] + b"gone meanwhile"] = b"y"
    pair.reached = 0
    assert pair.follow() == 4
    assert pair.mirror.rows == pair.source.rows


def test_what_has_not_changed_is_not_sent_again() -> None:
    pair = Pair()
    for key in KEYS:
        pair.write(key, b"1")
    pair.follow()
    pair.write(KEYS[0], b"2")
    told = pair.ask(pair.reached)
    assert [begin for begin, _, _ in told.ranges] == [KEYS[0]]


def test_messages_and_counters_are_nobody_elses_business() -> None:
    task = b"!sqs|queue|task|q"
    writes = [
        (PUT, b"!sqs|msg|data|q", b""),
        (ADD, b"!sqs|queue|count|q", b""),
        (PUT, b"!sqs|queue|mark|q", b""),
        (DROP, task, prefix_end(task)),
        (PUT, b"!sqs|queue|meta|q", b""),
    ]
    assert mirrored_ranges(writes) == [
        (task, prefix_end(task)),
        (b"!sqs|queue|meta|q", b"!sqs|queue|meta|q\x00"),
    ]
