"""What DeleteMessageBatch and ChangeMessageVisibilityBatch have in common: handles that are opened,
entries that are refused one by one, and results in entry order.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from fastnode.queue.api import BatchResultErrorEntry
from fastnode.queue.batch import Entry, failed_entry
from fastnode.queue.caller import Call
from fastnode.queue.errors import SqsError, receipt_handle_is_invalid
from fastnode.queue.landed_parts import landed_entries
from fastnode.queue.live import LiveQueue
from fastnode.queue.receipt import Opened, open_receipts
from fastnode.queue.repeats import results_of
from fastnode.queue.service import Service


class BatchRequest(Protocol):
    @property
    def queue_url(self) -> str | None: ...
    @property
    def entries(self) -> Sequence[Entry] | None: ...


R = TypeVar("R", bound=BatchRequest)
V = TypeVar("V")


class Item(NamedTuple, Generic[V]):
    """An entry with a genuine handle; `number` is its place in the call."""

    number: int
    opened: Opened
    valid: V


Checked = Sequence[tuple[str, V | BatchResultErrorEntry]]
Refusals = dict[str, SqsError]


async def settle(
    service: Service,
    call: Call,
    request: R,
    check: Callable[[R], Checked[V]],
    handle_of: Callable[[V], str],
    work: Callable[[LiveQueue, dict[str, Item[V]]], Awaitable[Refusals]],
) -> tuple[list[str], list[BatchResultErrorEntry]]:
    """The ids of the entries that took effect, and the refusals of the others. `work` says which of
    its items, by their ids, it refuses. What an earlier attempt of the call did is passed over.
    """
    landed = await landed_entries(service, call, request.queue_url) if call.is_repeated else {}
    try:
        queue = await service.queue(call, request.queue_url)
    except SqsError as error:
        if not landed:
            raise
        return results_of(request.entries or (), landed, error)
    entries = check(request)
    if queue.throttle is not None and not landed:
        queue.throttle.charge_receive(len(entries), queue.group.now() >> 16)
    refused: dict[str, BatchResultErrorEntry] = {}
    pending: list[tuple[int, str, V]] = []
    for number, (entry_id, valid) in enumerate(entries):
        if number in landed:
            continue
        if isinstance(valid, BatchResultErrorEntry):
            refused[entry_id] = valid
        else:
            pending.append((number, entry_id, valid))
    items, errors = _opened(queue, pending, handle_of)
    for entry_id, reason in (errors | await work(queue, items)).items():
        refused[entry_id] = failed_entry(entry_id, reason)
    ids = [entry_id for entry_id, _ in entries]
    return [i for i in ids if i not in refused], [refused[i] for i in ids if i in refused]


def _opened(
    queue: LiveQueue, pending: Sequence[tuple[int, str, V]], handle_of: Callable[[V], str]
) -> tuple[dict[str, Item[V]], Refusals]:
    receipts = open_receipts(queue, [handle_of(valid) for _, _, valid in pending])
    items, errors = dict[str, Item[V]](), Refusals()
    for (number, entry_id, valid), opened in zip(pending, receipts, strict=True):
        if opened is None:
            errors[entry_id] = receipt_handle_is_invalid(handle_of(valid))
        else:
            items[entry_id] = Item(number, opened, valid)
    return items, errors
