"""What a receipt handle may do: open it, check that this queue issued it, find its message."""

from collections.abc import Sequence
from typing import NamedTuple

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
    (opened,) = open_receipts(queue, (handle,))
    if opened is None:
        raise receipt_handle_is_invalid(handle)
    return opened


def open_receipts(queue: LiveQueue, handles: Sequence[str]) -> list[Opened | None]:
    """None for one that `open_receipt` refuses."""
    receipts = queue.open_receipts(handles)
    return [
        None if receipt is None else Opened(handle, receipt)
        for handle, receipt in zip(handles, receipts, strict=True)
    ]


def delivery_of(shard: LiveQueue, opened: Opened) -> Delivery:
    """`shard` is where the handle's message is."""
    handle, receipt = opened
    position = shard.position_of(receipt.message_id)
    return Delivery(handle, receipt.generation, position, receipt.nonce)
