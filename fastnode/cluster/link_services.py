"""What this node does for others when they call over a link, by the numbers of `courier.py`."""

from collections.abc import Callable
from typing import Any

from fastnode.cluster import part_calls
from fastnode.cluster.call_codec import DONE
from fastnode.cluster.courier import CONTROL, FORWARDED, MEMBERS, PARTS
from fastnode.cluster.dispatch import Dispatcher
from fastnode.cluster.membership import Membership
from fastnode.peers.calls import Handler, IncomingCall
from fastnode.peers.handshake import Identity
from fastnode.queue.part_handlers import PartWorker


def services_of(
    dispatcher: Dispatcher,
    worker: PartWorker,
    membership: Membership,
    open_control: Callable[[Callable[[int], Any]], None],
) -> dict[int, Handler]:
    """`open_control` makes the control plane listen and gives its port to who asks."""

    def forwarded(_peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
        call = dispatcher.execute(payload, incoming)
        if not incoming.is_answered:
            incoming.on_cancel = call.leave

    def part(_peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
        part_calls.serve(worker, payload, incoming)

    def members(_peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
        membership.serve(payload, incoming)

    def control(_peer: Identity, _payload: bytes, incoming: IncomingCall) -> None:
        open_control(lambda port: incoming.answer(DONE, port.to_bytes(2, "big")))

    return {FORWARDED: forwarded, PARTS: part, MEMBERS: members, CONTROL: control}
