"""What a receipt handle may do: open it, check that this queue issued it, find its message."""

from typing import NamedTuple

from fastnode import native
from fastnode.queue.errors import receipt_handle_is_invalid
from fastnode.queue.live import LiveQueue


class Delivery(NamedTuple):
    """Which message a handle names, and when it was handed out (milliseconds)."""

    handle: str
    generation: int
    position: int
    received_ms: int


def open_receipt(queue: LiveQueue, handle: str) -> Delivery:
    """Forged, truncated and foreign handles are refused before anything is looked up."""
    try:
        receipt = native.decode_receipt(handle)
    except ValueError:
        raise receipt_handle_is_invalid(handle) from None
    if receipt.partition != native.UNPARTITIONED:
        raise receipt_handle_is_invalid(handle)
    if not native.receipt_is_genuine(queue.record.secret, receipt):
        raise receipt_handle_is_invalid(handle)
    position = queue.position_of(receipt.message_id)
    return Delivery(handle, receipt.generation, position, receipt.nonce >> 16)
