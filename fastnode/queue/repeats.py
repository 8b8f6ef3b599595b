"""Calls that were here before: what has landed is found, before anything else is looked at.

An answer is never stored. It follows from what the call says and from when it landed and with which
of its entries, whatever the queue has become since, and whatever was done to its messages.
"""

from collections.abc import Callable, Container, Coroutine, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from xxhash import xxh3_128_digest

from fastnode import config, native
from fastnode.flow import Suspension
from fastnode.queue.api import BatchResultErrorEntry
from fastnode.queue.batch import Entry, failed_entry
from fastnode.queue.caller import Call
from fastnode.queue.errors import SqsError, service_unavailable
from fastnode.queue.service import Service
from fastnode.store.group import Group

T = TypeVar("T")
Q = TypeVar("Q", bound="AboutQueue")
_NOT_LANDED: Final = (
    "An earlier attempt of this call took effect without this entry. Please send it in a new call."
)


class AboutQueue(Protocol):
    @property
    def queue_url(self) -> str | None: ...


class Landed(NamedTuple):
    """A call, or its part in one partition, that has taken effect: when, and with which entries."""

    request: bytes
    commit_ts: int
    mask: int

    def has(self, entry: int) -> bool:
        return bool(self.mask >> entry & 1)

    @property
    def entries(self) -> frozenset[int]:
        return frozenset(number for number in range(config.BATCH_ENTRIES_MAX) if self.has(number))

    def message_id(self, entry: int) -> str:
        return native.message_id_text(native.message_id(self.commit_ts, entry, self.request))

    def position(self, entry: int) -> int:
        return self.commit_ts << 16 | entry


def request_at(request: bytes, partition: int) -> bytes:
    """The identity of a call's part in a partition: a group may hold several of them."""
    if partition == native.UNPARTITIONED:
        return request
    return xxh3_128_digest(request, partition)


def next_identity(request: bytes) -> bytes:
    """Of a call that has landed and goes on as another."""
    return xxh3_128_digest(request, config.PARTITIONS_MAX)


async def find(group: Group, request: bytes) -> Landed | None:
    """What has landed under the identity. An attempt that is on its way is waited for."""
    while (attempted := group.attempted(request)) is not None:
        await attempted
    found = group.landed(request)
    return None if found is None else Landed(request, *found)


async def find_parts(group: Group, request: bytes) -> list[tuple[int, int, int]]:
    """Partition, commit timestamp and mask of what has landed in partitions that the group holds,
    or held when the call was made.
    """
    found: list[tuple[int, int, int]] = []
    for partition in range(config.PARTITIONS_MAX):
        landed = await find(group, request_at(request, partition))
        if landed is not None:
            found.append((partition, landed.commit_ts, landed.mask))
    return found


Handler = Callable[[Service, Call, Q], Coroutine[Suspension, Any, T]]
Again = Callable[[Service, Call, Q, Landed], Coroutine[Suspension, Any, T]]


def repeatable(again: Again[Q, T]) -> Callable[[Handler[Q, T]], Handler[Q, T]]:
    """Makes a handler that is asked only if nothing has landed; `again` answers for what has."""

    def decorated(handler: Handler[Q, T]) -> Handler[Q, T]:
        async def repeated(service: Service, call: Call, request: Q, group: Group) -> T:
            landed = await find(group, call.request)
            if landed is None:
                return await handler(service, call, request)
            service.gates.recognised += 1
            return await again(service, call, request, landed)

        @wraps(handler)
        def handle(service: Service, call: Call, request: Q) -> Coroutine[Suspension, Any, T]:
            if call.request:
                group = service.home(call.caller, request.queue_url)
                if group is not None and group.has_seen(call.request):
                    return repeated(service, call, request, group)
            return handler(service, call, request)

        return handle

    return decorated


def not_landed() -> SqsError:
    return service_unavailable(_NOT_LANDED)


def results_of(
    entries: Sequence[Entry], landed: Container[int], error: SqsError | None = None
) -> tuple[list[str], list[BatchResultErrorEntry]]:
    """The ids of the entries whose numbers have landed, and the refusals of the others: by the
    error, or because the attempt that took effect had refused them.
    """
    successful = [entry.id or "" for number, entry in enumerate(entries) if number in landed]
    others = [entry.id or "" for number, entry in enumerate(entries) if number not in landed]
    reason = error or not_landed()
    return successful, [failed_entry(entry_id, reason) for entry_id in others]


def failed(entry_id: str | None) -> BatchResultErrorEntry:
    """An entry that the attempt which took effect had refused. Why, a new call will say."""
    return failed_entry(entry_id or "", not_landed())
