"""The Python surface of `_deliver.pyx`."""

from collections.abc import Iterable, Mapping, Sequence

from fastnode._core_ref import MessageRecord, MessageState, Receipt
from fastnode._deliver_ref import PlaceKeys, Write

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
