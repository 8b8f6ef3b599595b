"""The Python surface of `_deliver.pyx`."""

from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence

from fastnode._core_ref import MessageRecord, MessageState, Receipt
from fastnode._deliver_ref import HandoutKeys, Item, PlaceKeys, Write

# Cython's table of the C functions that `_deliver.pxd` offers to other compiled modules.
__pyx_capi__: dict[str, object]

def plan_deliveries(
    keys: PlaceKeys,
    commit_ts: int,
    visible_at: int,
    messages: Sequence[tuple[int, MessageState | None]],
) -> tuple[list[Write], list[MessageState]]: ...
def plan_removals(keys: PlaceKeys, messages: Mapping[int, int]) -> list[Write]: ...
def show_deliveries(
    secret: bytes,
    generation: int,
    partition: int,
    records: Sequence[MessageRecord],
    states: Sequence[MessageState],
) -> list[tuple[str, str, str, str]]: ...
def open_receipts(
    secret: bytes, partition: int, handles: Iterable[str]
) -> list[Receipt | None]: ...
def state_keys(prefix: bytes, positions: Iterable[int]) -> list[bytes]: ...
def page_items(rows: Iterable[tuple[bytes, bytes]], skipped: Container[int]) -> list[Item]: ...
def place_plain(
    items: Sequence[Item], expired_ms: int, state_prefix: bytes, held: set[bytes]
) -> tuple[tuple[int, ...], tuple[bytes, ...]] | None: ...
def take_plain(
    buffer: deque[Item], limit: int, expired_ms: int, state_prefix: bytes, held: set[bytes]
) -> tuple[list[Item], tuple[int, ...], tuple[bytes, ...], int] | None: ...
def plan_receive(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    keys: HandoutKeys,
    visible_at: int,
    mark: int,
    items: Sequence[Item],
    heads: Iterable[bytes],
) -> bytes: ...
def plan_delete(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    keys: HandoutKeys,
    mask: int,
    times: Mapping[int, int],
    rest: Sequence[Write],
) -> bytes: ...
def show_messages(
    secret: bytes, generation: int, partition: int, nonce: int, items: Sequence[Item]
) -> bytes: ...
def hidden_messages(
    secret: bytes,
    partition: int,
    generation: int,
    handles: Iterable[bytes],
    scheduled: dict[int, int],
    state_prefix: bytes,
    held: set[bytes],
) -> tuple[dict[int, int], tuple[bytes, ...]] | None: ...
