"""Every compiled function against its twin: how many times faster, printed and held above a floor.

Compiled code has to earn its place. Both sides run in short alternating slices of one process,
timed by the thread's CPU time, so a busy machine slows them alike and the ratio of the best slices
stays meaningful. The floors are well under what is measured: they catch a fast path that was lost,
not a bad afternoon. With timing off each case runs once, to see that it still works.
"""

from collections import deque
from collections.abc import Callable
from time import thread_time
from typing import Any, NamedTuple

import msgspec
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fastnode import (
    _core_ref,
    _deliver_ref,
    _keys_ref,
    _landed_ref,
    _plain_ref,
    _plan_ref,
    _reads_ref,
    _send_ref,
    native,
)

if not native.COMPILED:
    pytest.skip("pure mode has nothing to compare", allow_module_level=True)

SLICES = 15
SLICE_SECONDS = 0.002

REQUEST = bytes(range(16))
URL = "http://localhost:9324/123456789012/orders"
TIMESTAMP = 1_790_000_000_000 << 16 | 7
SEGMENT = native.queue_segment("123456789012", "eu-west-1", "orders")
PREFIX = native.scope_prefix(native.FAMILY_DATA, SEGMENT, 3)
KEY = native.message_key(PREFIX, TIMESTAMP, 0)
TIMER_PREFIX = native.scope_prefix(native.FAMILY_TIMER, SEGMENT, 3, 5)
TIMER = native.timer_key(TIMER_PREFIX, TIMESTAMP, TIMESTAMP, 0)
IDENTITY = native.message_id(TIMESTAMP, 0, REQUEST)
HANDLE = native.encode_receipt(REQUEST, 3, IDENTITY, TIMESTAMP)
RECEIPT = native.decode_receipt(HANDLE)
MESSAGE = (0, IDENTITY, 1_790_000_000_000, REQUEST, "AIDAEXAMPLE", b"", b"x" * 200)
RECORD = native.encode_message(*MESSAGE)
STATE = native.encode_state(1, 2, 3, 4)
READS = [native.queue_key(native.FAMILY_GENERATION, SEGMENT)]
SEND = (REQUEST, TIMESTAMP, TIMESTAMP, 1, 1, READS, [(native.FRESH_PUT, KEY, RECORD)])
TRANSACTION = native.encode_transaction(*SEND)
BATCH = [TRANSACTION] * 64
ENTRY = native.encode_entry(BATCH)
SEND_KEYS = native.SendKeys(READS[0], KEY, PREFIX)
GROUP_KEY = native.group_key(native.FAMILY_GROUP + PREFIX, "customer-17", TIMESTAMP, 0)
FIFO_WRITES = [
    (native.FRESH_PUT, KEY, RECORD),
    (native.FRESH_PUT, GROUP_KEY, b""),
    (native.TOUCH, PREFIX, b""),
]
PLACES = native.PlaceKeys(PREFIX, PREFIX, TIMER_PREFIX)
TEN = [TIMESTAMP << 16 | entry for entry in range(10)]
HIDDEN = {TIMESTAMP << 16: TIMESTAMP}
TEN_KEYS = native.state_keys(PREFIX, TEN)
TEN_ITEMS = [(one, RECORD) for one in TEN]
HANDOUT = native.HandoutKeys(READS[0], PLACES, *[PREFIX] * 3)
STAMPS = (REQUEST, TIMESTAMP, TIMESTAMP, 2)
FIFO_ENTRY = native.encode_entry([native.encode_transaction(*SEND[:6], FIFO_WRITES)] * 64)


class Taker:
    """Batch and sums of which nothing is seen but their cost."""

    put = delete = delete_range = drop = staticmethod(dict[bytes, bytes]().get)

    def __init__(self) -> None:
        self.added: dict[bytes, int] = {}
        self.raised: dict[bytes, bytes] = {}


class Case(NamedTuple):
    """Arguments of one call, and the least number of times that compiled code must be faster."""

    floor: float
    arguments: tuple[Any, ...]


TWINS = vars(_deliver_ref) | vars(_send_ref) | vars(_plan_ref) | vars(_core_ref) | vars(_keys_ref)
TWINS |= vars(_plain_ref) | vars(_reads_ref) | vars(_landed_ref)
CASES = {
    "text": Case(1.5, ("orders",)),
    "queue_segment": Case(3.0, ("123456789012", "eu-west-1", "orders")),
    "split_queue_segment": Case(4.0, (SEGMENT,)),
    "queue_key": Case(1.2, (native.FAMILY_META, SEGMENT)),
    "tombstone_key": Case(2.0, (SEGMENT, 3)),
    "scope_prefix": Case(3.0, (native.FAMILY_DATA, SEGMENT, 3, 5)),
    "message_key": Case(3.0, (PREFIX, TIMESTAMP, 0)),
    "split_message_key": Case(5.0, (len(PREFIX), KEY)),
    "timer_key": Case(3.5, (TIMER_PREFIX, TIMESTAMP, TIMESTAMP, 0)),
    "split_timer_key": Case(6.0, (len(TIMER_PREFIX), TIMER)),
    "dedup_key": Case(2.5, (PREFIX, "customer-17", "order-4711")),
    "group_key": Case(3.5, (PREFIX, "customer-17", TIMESTAMP, 0)),
    "id_key": Case(1.3, (PREFIX, IDENTITY)),
    "counter_key": Case(1.4, (PREFIX, 1)),
    "prefix_end": Case(3.5, (PREFIX,)),
    "parse_key": Case(3.0, (TIMER,)),
    "home_group": Case(1.3, (SEGMENT, 8)),
    "partition_for": Case(3.0, ("customer-17", TIMESTAMP, 32, False)),
    "siphash24": Case(100.0, (REQUEST, KEY)),
    "message_id": Case(10.0, (TIMESTAMP, 0, REQUEST)),
    "message_id_text": Case(3.0, (IDENTITY,)),
    "message_id_position": Case(6.0, (IDENTITY,)),
    "receipt_tag": Case(100.0, (REQUEST, 3, IDENTITY, TIMESTAMP)),
    "encode_receipt": Case(50.0, (REQUEST, 3, IDENTITY, TIMESTAMP)),
    "decode_receipt": Case(10.0, (HANDLE,)),
    "receipt_is_genuine": Case(80.0, (REQUEST, RECEIPT)),
    "encode_message": Case(8.0, MESSAGE),
    "decode_message": Case(8.0, (RECORD,)),
    "encode_state": Case(5.0, (1, 2, 3, 4)),
    "decode_state": Case(9.0, (STATE,)),
    "encode_transaction": Case(8.0, SEND),
    "encode_entry": Case(7.0, (BATCH,)),
    "encode_text": Case(1.5, ("x" * 200,)),
    "write_landed": Case(
        4.0,
        (
            native.Entry(ENTRY),
            [(native.APPLIED, TIMESTAMP, 1)] * len(BATCH),
            Taker(),
            Taker(),
        ),
    ),
    "write_sums": Case(
        2.0,
        (
            dict.fromkeys(TEN_KEYS, 1),
            {PREFIX: KEY},
            dict.fromkeys(TEN_KEYS, bytes(8)),
            dict[bytes, bytes]().get,
            dict[bytes, bytes]().get,
        ),
    ),
    "plan_sends": Case(
        4.0,
        (
            *(REQUEST, TIMESTAMP, TIMESTAMP, 0, SEND_KEYS, "AIDAEXAMPLE"),
            [(number, b"", b"x" * 200) for number in range(10)],
        ),
    ),
    "plan_bodies": Case(
        4.0, (REQUEST, TIMESTAMP, TIMESTAMP, 0, SEND_KEYS, "AIDAEXAMPLE", [b"x" * 200] * 10)
    ),
    "read_send": Case(1.5, (msgspec.json.encode({"QueueUrl": URL, "MessageBody": "x" * 200}),)),
    "read_batch": Case(
        4.0,
        (
            msgspec.json.encode(
                {
                    "QueueUrl": URL,
                    "Entries": [{"Id": str(n), "MessageBody": "x" * 200} for n in range(10)],
                }
            ),
        ),
    ),
    "read_delete": Case(1.5, (msgspec.json.encode({"QueueUrl": URL, "ReceiptHandle": HANDLE}),)),
    "read_delete_batch": Case(
        4.0,
        (
            msgspec.json.encode(
                {
                    "QueueUrl": URL,
                    "Entries": [{"Id": str(n), "ReceiptHandle": HANDLE} for n in range(10)],
                }
            ),
        ),
    ),
    "read_receive": Case(2.0, (msgspec.json.encode({"QueueUrl": URL, "MaxNumberOfMessages": 10}),)),
    "fill_batch_answer": Case(
        6.0,
        ((b"HTTP/1.1 200 OK\r\n",) * 2, str(TIMESTAMP), [b"0"] * 10, [RECORD] * 10, []),
    ),
    "plan_send": Case(
        4.0, (REQUEST, TIMESTAMP, TIMESTAMP, 0, SEND_KEYS, "AIDAEXAMPLE", b"x" * 200)
    ),
    "fill_answer": Case(4.0, ((b"HTTP/1.1 200 OK\r\n",) * 5, str(TIMESTAMP), RECORD)),
    "sequence_number": Case(1.5, (TIMESTAMP << 16, 3)),
    "plain_drafts": Case(
        2.0, (PREFIX, True, [("customer-17", f"order-{n}") for n in range(10)], [b"x" * 200] * 10)
    ),
    "is_token": Case(1.5, ("group-0001",)),
    "plan_fifo_sends": Case(
        3.0,
        (
            *(REQUEST, TIMESTAMP, TIMESTAMP, 0, native.FifoKeys(*[PREFIX] * 5), "AIDAEXAMPLE"),
            [native.FifoDraft(0, "customer-17", PREFIX + b"id", b"", b"x" * 200)],
        ),
    ),
    "head_changes": Case(
        8.0,
        ([(native.Entry(FIFO_ENTRY), [(native.APPLIED, TIMESTAMP, 1)] * len(BATCH))], {}),
    ),
    "plan_deliveries": Case(4.0, (PLACES, TIMESTAMP, TIMESTAMP, [(one, None) for one in TEN])),
    "plan_removals": Case(3.0, (PLACES, dict.fromkeys(TEN, TIMESTAMP))),
    "show_deliveries": Case(
        4.0,
        (
            *(REQUEST, 3, native.UNPARTITIONED),
            [native.decode_message(RECORD)] * 10,
            [native.decode_state(STATE)] * 10,
        ),
    ),
    "open_receipts": Case(8.0, (REQUEST, native.UNPARTITIONED, [HANDLE] * 10)),
    "state_keys": Case(3.0, (PREFIX, TEN)),
    "page_items": Case(2.0, ([(KEY, RECORD)] * 10, {1})),
    "place_plain": Case(8.0, (TEN_ITEMS, 0, PREFIX, set())),
    # The last one is latched, so none is taken, and all are there for the next call.
    "take_plain": Case(
        8.0, (deque(TEN_ITEMS), 10, 0, PREFIX, set(native.state_keys(PREFIX, TEN[-1:])))
    ),
    "plan_receive": Case(8.0, (*STAMPS, HANDOUT, TIMESTAMP, TEN[0], TEN_ITEMS, ())),
    "plan_delete": Case(8.0, (*STAMPS, HANDOUT, 1023, dict.fromkeys(TEN, TIMESTAMP), ())),
    "show_messages": Case(8.0, (REQUEST, 3, native.UNPARTITIONED, TIMESTAMP, TEN_ITEMS)),
    "hidden_messages": Case(
        8.0, (REQUEST, native.UNPARTITIONED, 3, [HANDLE.encode()] * 10, HIDDEN, PREFIX, set())
    ),
}


def slice_seconds(function: Callable[..., object], arguments: tuple[Any, ...], calls: int) -> float:
    start = thread_time()
    for _ in range(calls):
        function(*arguments)
    return (thread_time() - start) / calls


def calls_per_slice(function: Callable[..., object], arguments: tuple[Any, ...]) -> int:
    """The best of a few tries counts: one that was interrupted would make slices of one call."""
    calls = 1
    while min(slice_seconds(function, arguments, calls) for _ in range(3)) * calls < SLICE_SECONDS:
        calls *= 2
    return calls


def best_seconds(functions: list[Callable[..., object]], arguments: tuple[Any, ...]) -> list[float]:
    """The best slice of each function, taken in turns."""
    counts = [calls_per_slice(function, arguments) for function in functions]
    slices = [
        [
            slice_seconds(function, arguments, count)
            for function, count in zip(functions, counts, strict=True)
        ]
        for _ in range(SLICES)
    ]
    return [min(column) for column in zip(*slices, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_compiled_beats_its_twin(
    name: str, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    floor, arguments = CASES[name]
    compiled = getattr(native, name)
    twin = TWINS[name]
    assert benchmark(compiled, *arguments) == twin(*arguments)
    if benchmark.disabled:
        return
    ours, theirs = best_seconds([compiled, twin], arguments)
    ratio = theirs / ours
    benchmark.extra_info["times_faster_than_twin"] = round(ratio, 2)
    with capsys.disabled():
        print(f"\n{name:22}{ours * 1e9:9.0f} ns{theirs * 1e9:11.0f} ns {ratio:6.1f}x", end="")
    assert ratio >= floor, f"{name}: {ratio:.1f} times faster than its twin, {floor} wanted"


def test_every_function_of_the_door_has_a_case() -> None:
    functions = {
        name for name in native.__all__ if name[0].islower() and callable(getattr(native, name))
    }
    assert functions & set(TWINS) == set(CASES)
