"""The Python surface of `_send.pyx`."""

from collections.abc import Sequence

from fastnode._plan_ref import FifoDraft
from fastnode._send_ref import FifoKeys, PlannedSend, SendKeys

def plan_send(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    keys: SendKeys,
    sender: str,
    body: bytes,
) -> tuple[bytes, bytes]: ...
def plan_sends(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    keys: SendKeys,
    sender: str,
    messages: Sequence[tuple[int, bytes, bytes]],
) -> tuple[bytes, list[PlannedSend]]: ...
def plan_bodies(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    keys: SendKeys,
    sender: str,
    bodies: Sequence[bytes],
) -> tuple[bytes, list[bytes]]: ...
def plan_fifo_sends(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    keys: FifoKeys,
    sender: str,
    messages: Sequence[FifoDraft],
) -> tuple[bytes, list[bytes]]: ...
def fill_answer(
    pieces: tuple[bytes, ...], request_id: str, record: bytes, number: str = ""
) -> bytes: ...
def fill_batch_answer(
    pieces: tuple[bytes, bytes],
    request_id: str,
    ids: Sequence[bytes],
    records: Sequence[bytes],
    numbers: Sequence[str],
) -> bytes: ...
