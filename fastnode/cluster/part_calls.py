"""Parts of calls to and from other nodes: the codec, and the way to the leader.

What a part is, `queue/parts.py` says.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fastnode import config
from fastnode.cluster.call_codec import DONE, decode_error
from fastnode.cluster.courier import PARTS, Courier
from fastnode.cluster.outcome import encode_failure
from fastnode.errors import OperationError
from fastnode.flow import start
from fastnode.peers.calls import Caller as Link
from fastnode.peers.calls import IncomingCall
from fastnode.queue.caller import Call, Caller
from fastnode.queue.part_handlers import PartWorker
from fastnode.queue.parts import ANSWERS, ANY_PART, Part
from fastnode.queue.retry import carried_out
from fastnode.store.group import Group

# Whoever asks for a part has checked who its client is.
_PEER: Final = Caller("", "", "", "")
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_part: Final = msgspec.msgpack.Decoder(ANY_PART).decode
_ANSWERS: Final[Mapping[type[Part], Any]] = {
    kind: msgspec.msgpack.Decoder(answer).decode for kind, answer in ANSWERS.items()
}


async def ask(courier: Courier, group: Group, part: Part, call: Call | None = None) -> Any:
    """What the group's leader answers; raises what it raises."""
    status, payload = await courier.carry(group, PARTS, _encode(part), call)
    if status != DONE:
        raise decode_error(status, payload)
    return _ANSWERS[type(part)](payload)


def tell(link: Link, part: Part) -> None:
    """To whoever is there, once; whether it is done nobody waits to hear."""
    link.call(PARTS, _encode(part), config.FORWARD_SECONDS, _ignore)


def _ignore(_status: int, _payload: bytes | None, _error: OperationError | None) -> None:
    pass


def serve(worker: PartWorker, payload: bytes, incoming: IncomingCall) -> None:
    """Do a part for another node and answer it."""
    call, part = Call(_PEER, "", ""), _decode_part(payload)

    def finish(result: Any, error: BaseException | None) -> None:
        if error is None:
            incoming.answer(DONE, _encode(result))
        else:
            incoming.answer(*encode_failure(error, type(part).__name__))

    start(carried_out(lambda: worker.perform(part, call)), finish)
    if not incoming.is_answered:
        incoming.on_cancel = call.leave
