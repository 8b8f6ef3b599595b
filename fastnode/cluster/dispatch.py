"""Here or there: runs a call's handler where its queue is led.

Alone in its cluster a node leads everything, and nothing here costs it anything. Otherwise a call
is carried to the leader of its home group, once: whoever carries it out does not pass it on.
"""

from collections.abc import Coroutine
from typing import Any, Protocol

from fastnode import config, native
from fastnode.cluster import part_calls
from fastnode.cluster.call_codec import (
    decode_call,
    decode_result,
    encode_call,
    encode_result,
)
from fastnode.cluster.courier import FORWARDED, Courier, Left
from fastnode.cluster.outcome import encode_failure
from fastnode.cluster.plain_send import begin_plain_send
from fastnode.errors import NotLed, Overloaded
from fastnode.flow import Suspension, start
from fastnode.queue import parts
from fastnode.queue.caller import Call
from fastnode.queue.homes import home_of, queue_of
from fastnode.queue.operations import FREEING, Operation
from fastnode.queue.retry import carried_out
from fastnode.queue.service import Service
from fastnode.store.group import Group

Handling = Coroutine[Suspension, Any, Any]


class Incoming(Protocol):
    """A call of another node, which is answered once."""

    def answer(self, status: int, payload: bytes) -> bool: ...


class Dispatcher:
    def __init__(self, service: Service, courier: Courier) -> None:
        self._service = service
        self._courier = courier
        self.is_alone = True

    def handle(self, operation: Operation, call: Call, request: Any) -> Handling:
        if self.is_alone:
            return operation.handler(self._service, call, request)
        return self._dispatched(operation, call, request)

    async def _dispatched(self, operation: Operation, call: Call, request: Any) -> Any:
        payload = b""
        for _ in range(config.PLANS_MAX):
            home = home_of(self._service, call.caller, operation.name, request)
            try:
                if home is None or home.takes_calls:
                    return await operation.handler(self._service, call, request)
                if not payload:
                    self._service.identity(call)
                    payload = encode_call(call, request)
                answer = await self._courier.carry(home, FORWARDED, payload, call)
                return decode_result(call, *answer)
            except Left as left:
                if home is not None and operation.name == "ReceiveMessage":
                    self._ask_back(home, left, call, request)
                raise
            except NotLed:
                # Nothing was written. The lead has just come here, or gone from here, or goes.
                continue
        raise NotLed("the queue's group changes its leader too often")

    def _ask_back(self, home: Group, left: Left, call: Call, request: Any) -> None:
        """What the receive took is not to wait for its timeout. A leader that has not answered yet
        finds out itself that nobody waits.
        """
        name = queue_of(self._service, call.caller, request)
        assert name is not None, "it has a home"
        segment = native.queue_segment(*name)
        part_calls.tell(
            left.link, parts.Return(home.number, left.term, segment, call.request, request)
        )

    # --- for other nodes -----------------------------------------------------------------------

    def execute(self, payload: bytes, incoming: Incoming) -> Call:
        """Carry out a call that another node took; it may leave by the result's `leave`."""
        call, operation, request = decode_call(payload)

        def finish(result: Any, error: BaseException | None) -> None:
            if error is None:
                incoming.answer(*encode_result(call, result))
            else:
                incoming.answer(*encode_failure(error, operation.name))

        def run() -> None:
            start(self._executed(operation, call, request), finish)

        if not self._has_room_for(operation):
            finish(None, Overloaded("this node has too much to do"))
            return call
        if not begin_plain_send(self._service, call, request, finish, run):
            run()
        return call

    def _has_room_for(self, operation: Operation) -> bool:
        backlog = self._service.groups[0].backlog
        if backlog.room > 0:
            return True
        return operation.name in FREEING and backlog.has_reserve

    async def _executed(self, operation: Operation, call: Call, request: Any) -> Any:
        home = home_of(self._service, call.caller, operation.name, request)
        if home is not None and not home.takes_calls:
            raise NotLed("another node leads the queue's group")
        return await carried_out(lambda: operation.handler(self._service, call, request))
