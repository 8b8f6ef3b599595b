"""Group heads: what a touch writes, what it reads, and that a full scan would say the same."""

from collections.abc import Callable, Sequence

import pytest

from fastnode import native
from fastnode.native import FAMILY_GROUP, FAMILY_STATE
from fastnode.store.apply import (
    Position,
    decide,
    fill_rows,
    load_position,
    load_resolver,
    put_position,
)
from fastnode.store.keyspace import (
    FAMILY_HEAD,
    FAMILY_READY,
    MessageKeys,
    encode_position,
    head_group,
    split_head_key,
)
from fastnode.store.memory_engine import MemoryEngine
from fastnode.store.txn import Txn

SEGMENT = native.queue_segment("123456789012", "eu-west-1", "orders.fifo")
KEYS = MessageKeys(SEGMENT, 3)
START = 1_790_000_000_000 << 16
LATER = START + (30_000 << 16)

Plan = Callable[[Txn], None]
Rows = dict[bytes, bytes]


class CountingEngine(MemoryEngine):
    """How often apply looks, and at what."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at: list[bytes] = []
        self.looks = 0
        self.scans = 0

    def get(self, key: bytes) -> bytes | None:
        self.looks += 1
        self.looked_at.append(key)
        return super().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.looks += 1
        self.looked_at += keys
        return super().get_many(keys)

    def scan_keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]:
        self.scans += start.startswith(FAMILY_GROUP)
        return super().scan_keys(start, end, limit)


def position(number: int, entry: int = 0) -> int:
    """Of a message that the transaction with this number sends."""
    return (START + number) << 16 | entry


def transaction(number: int, *plans: Plan) -> bytes:
    txn = Txn(number.to_bytes(16, "big"), START + number - 1, START + number)
    for plan in plans:
        plan(txn)
    return txn.encode()


def send(group: str, number: int, entry: int = 0, keys: MessageKeys = KEYS) -> Plan:
    def plan(txn: Txn) -> None:
        txn.put_fresh(keys.data_key(position(number, entry)), b"body")
        txn.put_fresh(keys.group_key(group, position(number, entry)), b"")
        txn.touch(keys.head_key(group))

    return plan


def hide(group: str, number: int, visible_at: int) -> Plan:
    def plan(txn: Txn) -> None:
        state = native.encode_state(1, 1, visible_at, 1)
        txn.put(KEYS.state_key(position(number)), state)
        txn.touch(KEYS.head_key(group))

    return plan


def forget(group: str, number: int) -> Plan:
    """As if the message had never been received."""

    def plan(txn: Txn) -> None:
        txn.delete(KEYS.state_key(position(number)))
        txn.touch(KEYS.head_key(group))

    return plan


def delete(group: str, number: int) -> Plan:
    def plan(txn: Txn) -> None:
        txn.delete(KEYS.state_key(position(number)))
        txn.delete_fresh(KEYS.data_key(position(number)))
        txn.delete_fresh(KEYS.group_key(group, position(number)))
        txn.touch(KEYS.head_key(group))

    return plan


def purge(keys: MessageKeys = KEYS) -> Plan:
    def plan(txn: Txn) -> None:
        for prefix in keys.prefixes():
            txn.drop(prefix)

    return plan


def run(engine: MemoryEngine, *transactions: bytes) -> None:
    """One batch of entries with one transaction each, as after a restart."""
    before = load_position(engine)
    resolver = load_resolver(engine, before)
    decided = decide(resolver, [native.encode_entry([each]) for each in transactions])
    after = Position(before.applied_index + 1, 1, resolver.last_commit_ts)
    if isinstance(engine, CountingEngine):
        engine.looked_at, engine.looks, engine.scans = [], 0, 0
    batch = engine.batch()
    fill_rows(engine, batch, decided)
    put_position(batch, after)
    engine.write(batch)


def head_rows(engine: MemoryEngine) -> Rows:
    rows = engine.scan(b"", b"\xff", 10_000)
    return {key: value for key, value in rows if key.startswith((FAMILY_HEAD, FAMILY_READY))}


def expected(keys: MessageKeys, group: str, first: int, available_at: int) -> Rows:
    return {
        keys.head_key(group): encode_position(first) + available_at.to_bytes(8, "big"),
        keys.ready_key(available_at, first): group.encode(),
    }


def head(group: str, number: int, available_at: int | None = None) -> Rows:
    """Of a group whose first message nobody has received, unless said otherwise."""
    since = START + number if available_at is None else available_at
    return expected(KEYS, group, position(number), since)


# --- what is written ---------------------------------------------------------------------------


def test_the_first_message_of_a_group_is_its_head_since_it_was_sent() -> None:
    engine = MemoryEngine()
    run(engine, transaction(1, send("a", 1)), transaction(2, send("b", 2)))
    assert head_rows(engine) == head("a", 1) | head("b", 2)


def test_a_later_message_does_not_change_the_head() -> None:
    engine = MemoryEngine()
    run(engine, transaction(1, send("a", 1)))
    run(engine, transaction(2, send("a", 2)))
    assert head_rows(engine) == head("a", 1)


def test_the_first_of_several_messages_of_one_call_is_the_head() -> None:
    engine = MemoryEngine()
    run(engine, transaction(1, send("a", 1, 2), send("a", 1, 1), send("a", 1, 3)))
    assert head_rows(engine) == expected(KEYS, "a", position(1, 1), START + 1)


def test_a_received_head_is_available_again_when_its_state_says() -> None:
    engine = MemoryEngine()
    run(engine, transaction(1, send("a", 1)), transaction(2, send("a", 2)))
    run(engine, transaction(3, hide("a", 1, LATER), hide("a", 2, LATER + 1)))
    assert head_rows(engine) == head("a", 1, LATER)
    run(engine, transaction(4, hide("a", 2, START)))
    assert head_rows(engine) == head("a", 1, LATER)
    run(engine, transaction(5, hide("a", 1, START + 5)))
    assert head_rows(engine) == head("a", 1, START + 5)


def test_a_head_that_loses_its_state_is_available_since_it_was_sent() -> None:
    engine = MemoryEngine()
    run(engine, transaction(1, send("a", 1)))
    run(engine, transaction(2, hide("a", 1, LATER)))
    run(engine, transaction(3, forget("a", 1)))
    assert head_rows(engine) == head("a", 1)


def test_after_the_head_comes_the_next_with_its_own_state() -> None:
    engine = MemoryEngine()
    run(engine, *(transaction(number, send("a", number)) for number in (1, 2, 3)))
    run(engine, transaction(4, hide("a", 2, LATER)))
    run(engine, transaction(5, delete("a", 1)))
    assert head_rows(engine) == head("a", 2, LATER)
    run(engine, transaction(6, delete("a", 2)))
    assert head_rows(engine) == head("a", 3)


@pytest.mark.parametrize("deleted", [[1, 2], [2, 1], [1, 3, 2], [1, 3], [2]])
def test_the_next_head_is_found_behind_all_that_the_batch_deletes(deleted: list[int]) -> None:
    engine = MemoryEngine()
    run(engine, *(transaction(number, send("a", number)) for number in (1, 2, 3, 4)))
    run(engine, transaction(5, *(delete("a", number) for number in deleted)))
    first = min({1, 2, 3, 4} - set(deleted))
    assert head_rows(engine) == head("a", first)


def test_a_group_without_messages_has_no_rows() -> None:
    engine = MemoryEngine()
    run(engine, transaction(1, send("a", 1)), transaction(2, send("aa", 2)))
    run(engine, transaction(3, delete("a", 1)))
    assert head_rows(engine) == head("aa", 2)
    run(engine, transaction(4, send("a", 4)))
    assert head_rows(engine) == head("aa", 2) | head("a", 4)


def test_a_message_that_comes_and_goes_within_a_batch_leaves_nothing() -> None:
    engine = MemoryEngine()
    run(engine, transaction(1, send("a", 1)), transaction(2, delete("a", 1)))
    assert head_rows(engine) == {}


def test_a_message_that_comes_back_is_the_head_again() -> None:
    engine = MemoryEngine()
    run(engine, transaction(1, send("a", 1)), transaction(2, send("a", 2)))
    run(engine, transaction(3, delete("a", 1)))
    run(engine, transaction(4, send("a", 1), hide("a", 1, START + 4)))
    assert head_rows(engine) == head("a", 1, START + 4)


def test_a_transaction_that_does_not_land_touches_nothing() -> None:
    engine = MemoryEngine()
    run(engine, transaction(2, send("a", 2)), transaction(1, send("b", 1)))
    assert head_rows(engine) == head("a", 2)


def test_a_batch_that_was_refused_is_filled_with_the_same_heads_again() -> None:
    engine = MemoryEngine()
    run(engine, transaction(1, send("a", 1)), transaction(2, send("a", 2)))
    decided = decide(
        load_resolver(engine, load_position(engine)),
        [native.encode_entry([transaction(3, delete("a", 1))])],
    )
    for _ in range(2):
        batch = engine.batch()
        fill_rows(engine, batch, decided)
        put_position(batch, Position(3, 1, START + 3))
    engine.write(batch)
    assert head_rows(engine) == head("a", 2)


# --- purges ------------------------------------------------------------------------------------


def test_a_purge_takes_heads_along_also_those_that_the_batch_has_touched() -> None:
    engine = MemoryEngine()
    run(engine, transaction(1, send("a", 1)))
    run(
        engine,
        transaction(2, send("a", 2)),
        transaction(3, send("b", 3)),
        transaction(4, hide("a", 1, LATER)),
        transaction(5, purge()),
    )
    assert head_rows(engine) == {}


def test_what_comes_after_a_purge_does_not_see_what_was_before() -> None:
    engine = MemoryEngine()
    run(engine, transaction(1, send("a", 1)), transaction(2, send("b", 2)))
    run(engine, transaction(3, send("a", 3)), transaction(4, purge()), transaction(5, send("a", 5)))
    assert head_rows(engine) == head("a", 5)


def test_a_purge_spares_other_generations_and_partitions() -> None:
    others = [MessageKeys(SEGMENT, 4), MessageKeys(SEGMENT, 3, 0), MessageKeys(SEGMENT, 3, 1)]
    engine = MemoryEngine()
    run(engine, transaction(1, *(send("a", 1, at, keys) for at, keys in enumerate(others))))
    run(engine, transaction(2, send("a", 2)), transaction(3, purge()))
    wanted = [
        expected(keys, "a", position(1, at), START + 1).items() for at, keys in enumerate(others)
    ]
    assert head_rows(engine) == dict(row for rows in wanted for row in rows)


# --- what is read ------------------------------------------------------------------------------


def test_a_send_to_a_group_that_has_messages_reads_the_head_alone() -> None:
    engine = CountingEngine()
    run(engine, transaction(1, send("a", 1)))
    run(engine, transaction(2, send("a", 2)), transaction(3, send("a", 3)))
    assert engine.looked_at == [KEYS.head_key("a")]
    assert engine.scans == 0


def test_a_group_that_was_emptied_is_not_searched_for_its_next_head() -> None:
    engine = CountingEngine()
    run(engine, transaction(1, send("a", 1)))
    run(engine, transaction(2, delete("a", 1)))
    run(engine, transaction(3, send("a", 3)))
    assert engine.looked_at == [KEYS.head_key("a")]
    assert engine.scans == 0


def test_a_delete_behind_the_head_searches_nothing() -> None:
    engine = CountingEngine()
    run(engine, *(transaction(number, send("a", number)) for number in (1, 2, 3)))
    run(engine, transaction(4, delete("a", 2)))
    assert (engine.looked_at, engine.scans) == ([KEYS.head_key("a")], 0)
    run(engine, transaction(5, delete("a", 1)))
    assert engine.looked_at == [KEYS.head_key("a"), KEYS.state_key(position(3))]
    assert engine.scans == 1


def test_a_batch_without_groups_looks_at_nothing() -> None:
    engine = CountingEngine()
    run(engine, transaction(1, lambda txn: txn.put(KEYS.state_key(position(1)), b"x")))
    assert (engine.looks, engine.scans) == (0, 0)


# --- keys --------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["a", "", "\x00", "a\x00\x01b", "\x00\x01", "é😀"])
@pytest.mark.parametrize("partition", [native.UNPARTITIONED, 0, 1, 0x01000100])
@pytest.mark.parametrize("generation", [1, 0x0001_0001])
def test_a_head_key_says_where_its_group_and_its_states_are(
    group: str, partition: int, generation: int
) -> None:
    keys = MessageKeys(SEGMENT, generation, partition)
    scope, group_id = split_head_key(keys.head_key(group))
    assert FAMILY_STATE + scope == keys.state
    assert group_id == group.encode()
    assert head_group(keys.head_key(group)) == keys.group_prefix(group)
    assert keys.group_key(group, position(7, 2)) == keys.group_prefix(group) + encode_position(
        position(7, 2)
    )
    assert keys.group_position(keys.group_key(group, position(7, 2))) == position(7, 2)
    assert keys.split_ready_key(keys.ready_key(LATER, position(7, 2))) == (LATER, position(7, 2))


def test_only_the_head_of_a_group_can_be_touched() -> None:
    txn = Txn(bytes(16), START, START + 1)
    with pytest.raises(AssertionError):
        txn.touch(KEYS.state_key(position(1)))


def test_every_family_of_a_scope_is_dropped_with_it_and_none_twice() -> None:
    prefixes = KEYS.prefixes()
    rows = [
        KEYS.group_key("g", position(1)),
        KEYS.head_key("g"),
        KEYS.ready_key(LATER, position(1)),
        KEYS.dedup_key("g", "d"),
        KEYS.attempt_key("a"),
        KEYS.attempt_age_key(position(1), "a"),
    ]
    assert all(sum(row.startswith(prefix) for prefix in prefixes) == 1 for row in rows)
    assert len(set(prefixes)) == len(prefixes)


def test_attempts_by_age_are_in_the_order_of_their_positions() -> None:
    ages = [
        KEYS.attempt_age_key(position(number), attempt)
        for number, attempt in ((1, "z"), (2, "a"), (3, "m"))
    ]
    assert ages == sorted(ages)
