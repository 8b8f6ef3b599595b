"""What happens between the attempts of a call: by somebody else, to the same queue."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from fastnode.queue import api
from fastnode.queue.errors import SqsError
from tests.unit.cluster.cluster_world import receive_request
from tests.unit.cluster.retry_table import Event, Kind
from tests.unit.cluster.retry_world import RetryWorld
from tests.world import ACCOUNT, ENDPOINT, REGION, Pending

TIMEOUT_SECONDS = 600
# Of the message that the first handle is of.
FIRST_BODY = "0"
ROOMY, TIGHT = 4_096, 1_024
_TIGHTER = {
    "MaximumMessageSize": str(TIGHT),
    "ThrottleDefaultCapacity": "10",
    "ThrottleDefaultRefillPerSecond": "0.000001",
}
NO_LIMIT = {"ThrottleDefaultCapacity": "0", "ThrottleDefaultRefillPerSecond": "0"}
_FIFO = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
_PARTITIONED = {
    **_FIFO,
    "FifoThroughputLimit": "perMessageGroupId",
    "DeduplicationScope": "messageGroup",
    "PartitionCount": "2",
}
_ATTRIBUTES: dict[Kind, dict[str, str]] = {
    Kind.STANDARD: {},
    Kind.FIFO: _FIFO,
    Kind.PARTITIONED: _PARTITIONED,
}


class Happening:
    """The event: steps that each wait for the one before."""

    def __init__(self, world: RetryWorld, steps: Iterator[Pending]) -> None:
        self._world = world
        self._steps = steps
        self._waits_for: Pending | None = next(steps, None)
        self.go_on()

    def go_on(self) -> None:
        self._world.settle()
        while self._waits_for is not None and self._waits_for.is_done:
            self._waits_for = next(self._steps, None)
            self._world.settle()

    @property
    def is_over(self) -> bool:
        return self._waits_for is None


class EventQueue:
    """The queue that the call is about. `got` is what the event has received; `handles` are those
    of earlier receives, the first of them of a message that the call is about; `deleted` are the
    bodies of what is gone.
    """

    def __init__(self, world: RetryWorld, kind: Kind, name: str) -> None:
        self._world = world
        self._attributes = {"MaximumMessageSize": str(ROOMY), **_ATTRIBUTES[kind]}
        self._name = name
        self.url = f"{ENDPOINT}/{ACCOUNT}/{name}"
        self.got: list[api.Message] = []
        self.handles: list[str] = []
        self.deleted: set[str] = set()

    def create(self) -> None:
        self._world.create(self._world.leaders[0], self._name, **self._attributes)

    def happen(self, event: Event) -> Happening:
        """At the node that leads the queue."""
        steps = self._steps(event)(self._world.leaders[0])
        return Happening(self._world, steps)

    def _steps(self, event: Event) -> Callable[[int], Iterator[Pending]]:
        return {
            Event.NOTHING: lambda _node: iter(()),
            Event.RECEIVE: self._receive,
            Event.DELETE: self._delete,
            Event.PURGE: self._purge,
            Event.RECREATE: self._recreate,
            Event.TIGHTEN: self._tighten,
        }[event]

    def _receive(self, node: int) -> Iterator[Pending]:
        while True:
            request = receive_request(self.url, 10, TIMEOUT_SECONDS)
            pending = self._world.begin(node, "ReceiveMessage", request)
            yield pending
            if not _result(pending).messages:
                return
            self.got += pending.result.messages

    def _delete(self, node: int) -> Iterator[Pending]:
        yield from self._receive(node)
        for message in self.got:
            request = api.DeleteMessageRequest(self.url, message.receipt_handle)
            pending = self._world.begin(node, "DeleteMessage", request)
            yield pending
            _result(pending)
            self.deleted.add(message.body)
        for handle in self.handles[:1]:
            # It may be over; then nothing happens.
            request = api.DeleteMessageRequest(self.url, handle)
            pending = self._world.begin(node, "DeleteMessage", request)
            yield pending
            if pending.error is None:
                self.deleted.add(FIRST_BODY)

    def _purge(self, node: int) -> Iterator[Pending]:
        pending = self._world.begin(node, "PurgeQueue", api.PurgeQueueRequest(self.url))
        yield pending
        _result(pending)

    def _recreate(self, node: int) -> Iterator[Pending]:
        pending = self._world.begin(node, "DeleteQueue", api.DeleteQueueRequest(self.url))
        yield pending
        _result(pending)
        request = api.CreateQueueRequest(self._name, self._attributes)
        pending = self._world.begin(node, "CreateQueue", request)
        yield pending
        _result(pending)

    def _tighten(self, node: int) -> Iterator[Pending]:
        request = api.SetQueueAttributesRequest(self.url, _TIGHTER)
        pending = self._world.begin(node, "SetQueueAttributes", request)
        yield pending
        _result(pending)

    def use_up(self) -> None:
        """The rate limit, wherever the next call may be counted."""
        for node in self._world.nodes.values():
            queue = node.service.find(ACCOUNT, REGION, self._name)
            if queue is not None and queue.throttle is not None:
                with contextlib.suppress(SqsError):
                    queue.throttle.charge_send(10, queue.group.now() >> 16)


def _result(pending: Pending) -> Any:
    if pending.error is not None:
        raise pending.error
    return pending.result
