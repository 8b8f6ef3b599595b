"""What a receipt handle may do: open it, check that this queue issued it, find its message."""

from typing import NamedTuple

from fastnode import native
from fastnode.native import MessageState, Receipt
from fastnode.queue.errors import receipt_handle_is_invalid
from fastnode.queue.live import LiveQueue


class Opened(NamedTuple):
    """A genuine handle of the queue, and what it says."""

    handle: str
    receipt: Receipt


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


def open_receipt(queue: LiveQueue, handle: str) -> Opened:
    """Forged, truncated and foreign handles are refused before anything is looked up."""
    try:
        receipt = native.decode_receipt(handle)
    except ValueError:
        raise receipt_handle_is_invalid(handle) from None
    secret = queue.receipt_secret_of(receipt.partition)
    if secret is None or not native.receipt_is_genuine(secret, receipt):
        raise receipt_handle_is_invalid(handle)
    return Opened(handle, receipt)


def delivery_of(shard: LiveQueue, opened: Opened) -> Delivery:
    """`shard` is where the handle's message is."""
    handle, receipt = opened
    position = shard.position_of(receipt.message_id)
    return Delivery(handle, receipt.generation, position, receipt.nonce)
