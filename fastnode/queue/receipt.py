"""What a receipt handle may do: open it, check that this queue issued it, find its message."""

from typing import NamedTuple

from fastnode import native
from fastnode.native import MessageState
from fastnode.queue.errors import receipt_handle_is_invalid
from fastnode.queue.live import LiveQueue


class Delivery(NamedTuple):
    """Which message a handle names, and the receive that handed it out."""

    handle: str
    generation: int
    position: int
    nonce: int

    @property
    def received_ms(self) -> int:
        return self.nonce >> 16

    def is_over(self, state: MessageState, now: int) -> bool:
        """Whether the message is visible again, or in other hands. On a standard queue that does
        not matter.
        """
        return state.nonce != self.nonce or state.visible_at <= now


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
    return Delivery(handle, receipt.generation, position, receipt.nonce)
