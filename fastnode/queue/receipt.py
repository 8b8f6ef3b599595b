"""What a receipt handle may do: open it, check that this queue issued it, find its message."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from fastnode import native
from fastnode.native import MessageState
from fastnode.queue.errors import receipt_handle_is_invalid
from fastnode.queue.live import LiveQueue

T = TypeVar("T")


class Delivery(NamedTuple):
    """Which message a handle names, where, and the receive that handed it out."""

    shard: LiveQueue
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
    shard = next((one for one in queue.shards if one.partition == receipt.partition), None)
    if shard is None or not native.receipt_is_genuine(shard.receipt_secret, receipt):
        raise receipt_handle_is_invalid(handle)
    position = shard.position_of(receipt.message_id)
    return Delivery(shard, handle, receipt.generation, position, receipt.nonce)


def by_shard(
    items: Iterable[T], shard_of: Callable[[T], LiveQueue]
) -> list[tuple[LiveQueue, list[T]]]:
    """Items of one call, by the partition that they belong to, each part in its old order."""
    parts: dict[int, tuple[LiveQueue, list[T]]] = {}
    for item in items:
        shard = shard_of(item)
        parts.setdefault(shard.partition, (shard, []))[1].append(item)
    return list(parts.values())
