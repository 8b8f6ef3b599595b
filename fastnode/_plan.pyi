"""The Python surface of `_plan.pyx`."""

from collections.abc import Callable, Sequence

from fastnode._core_ref import Transaction
from fastnode._plan_ref import FifoDraft, FifoKeys, HeadChanges, PlannedSend

def write_landed(
    transactions: Sequence[Transaction],
    outcomes: Sequence[tuple[int, int, int]],
    put: Callable[[bytes, bytes], object],
    other: Callable[[int, bytes, bytes], object],
) -> None: ...
def head_changes(
    transactions: Sequence[Transaction], outcomes: Sequence[tuple[int, int, int]]
) -> HeadChanges: ...
def encode_text(text: str) -> bytes | None: ...
def plan_sends(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    generation_key: bytes,
    total_key: bytes,
    data_prefix: bytes,
    sender: str,
    messages: Sequence[tuple[bytes, bytes]],
) -> tuple[bytes, list[PlannedSend]]: ...
def plan_fifo_sends(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    keys: FifoKeys,
    sender: str,
    messages: Sequence[FifoDraft],
) -> tuple[bytes, list[PlannedSend]]: ...
