"""Receives that were here before: the same messages with the same handles, if all of them are still
where that receive left them. Otherwise it is a receive like any other, under another identity.

What a receive took is not stored. Its messages are the ones that it hid until the same moment, and
their states name it.
"""

from collections.abc import Sequence
from typing import Final

from fastnode import config, native
from fastnode.flow import Suspension, gather
from fastnode.native import MessageState
from fastnode.queue import parts, validate
from fastnode.queue.api import Message, ReceiveMessageRequest
from fastnode.queue.caller import Call
from fastnode.queue.choice import Taken
from fastnode.queue.live import LiveQueue
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.places import identity_of
from fastnode.queue.plans import unreceived_state
from fastnode.queue.receive_answer import answers, each_once
from fastnode.queue.receive_one import Received, give_back
from fastnode.queue.repeats import Landed, find, next_identity, request_at
from fastnode.queue.service import Service
from fastnode.queue.validate import ValidReceive

# So often one call may find that it has landed, and go on as another.
_IDENTITIES_MAX: Final = 16
# How long after its commit a receive may still be given back, as a difference of timestamps.
_GIVE_BACK_SPAN: Final = round(config.FORWARD_SECONDS * 2000) << 16
# Receives with other timeouts may have hidden their messages until the same moment.
_SCANNED_MAX: Final = 16 * config.RECEIVE_MESSAGES_MAX


async def received_before(
    service: Service, call: Call, queue: LiveQueue, request: ReceiveMessageRequest
) -> list[Message] | None:
    """What an earlier attempt of the call took; None if it has to be a new receive, for which the
    call then has an identity that nothing has landed under.
    """
    is_asked = call.is_repeated and isinstance(queue, PartitionedQueue) and not queue.is_led_here
    if not is_asked and not _is_known(queue, call.request):
        return None
    valid = validate.receive_message(request, queue.settings)
    for _ in range(_IDENTITIES_MAX):
        found = [await landed_here(service, queue, call.request, valid)]
        if is_asked:
            found += await _landed_there(service, queue, call.request, valid)
        known = [messages for messages in found if messages is not None]
        if not known:
            return None
        if all(known):
            service.gates.recognised += 1
            return each_once(message for messages in known for message in messages)
        call.request = next_identity(call.request)
    call.request = service.new_request()
    return None


async def landed_here(
    service: Service, queue: LiveQueue, request: bytes, valid: ValidReceive
) -> list[Message] | None:
    """Of what this node leads. None: nothing has landed; empty: not everything is as it was."""
    shards = list(queue.shards)
    landed = await gather(
        find(shard.group, request_at(request, shard.partition)) for shard in shards
    )
    pairs = [(shard, one) for shard, one in zip(shards, landed, strict=True) if one is not None]
    if not pairs:
        return None
    # What is found may be answered without a transaction, so nobody else may lead by now.
    groups = [shard.group for shard, _ in pairs]
    await service.readable(*groups)
    while (changing := _changing(pairs, valid)) is not None:
        await changing
        await service.readable(*groups)
    received = [_untouched(shard, one, valid) for shard, one in pairs]
    if not all(received):
        return []
    for shard, one in pairs:
        keep(shard, one.commit_ts)
    return answers([part for part in received if part is not None], valid)


async def give_back_taken(
    service: Service, queue: LiveQueue, request: bytes, receive: ReceiveMessageRequest, term: int
) -> None:
    """Nobody has read the answer that a receive of the identity got here in the term: as if it had
    never been. Whoever led meanwhile may have answered it once more, for somebody who read that.
    And whoever is about to be answered with it is a later attempt, or gives it back itself.
    """
    landed = await find(queue.group, request)
    is_same_term = queue.group.is_ready and queue.group.term == term
    if landed is None or not is_same_term or request in service.answering:
        return
    received = _untouched(queue, landed, validate.receive_message(receive, queue.settings))
    if received is not None:
        before = [one._replace(state=_state_before(one)) for one in received.messages]
        await give_back(service, received._replace(messages=before))


def _state_before(taken: Taken) -> MessageState | None:
    """As far as a give-back looks at it; None for a message that was never handed out before."""
    state = taken.state
    assert state is not None
    count = state.receive_count - 1
    is_first = count == unreceived_state(taken.record).receive_count
    return None if is_first else state._replace(receive_count=count)


def keep(queue: LiveQueue, receive: int) -> None:
    """A later attempt of the call has the messages. An earlier one may learn only now that nobody
    reads its answer, and must not give back what is not its own, or not any more.
    """
    kept, oldest = queue.answered_again, receive - _GIVE_BACK_SPAN
    kept[receive] = None
    while next(iter(kept)) <= oldest or len(kept) > config.HELD_MESSAGES_MAX:
        kept.popitem(last=False)


def _is_known(queue: LiveQueue, request: bytes) -> bool:
    return any(shard.group.has_seen(request_at(request, shard.partition)) for shard in queue.shards)


async def _landed_there(
    service: Service, queue: LiveQueue, request: bytes, valid: ValidReceive
) -> list[list[Message] | None]:
    assert isinstance(queue, PartitionedQueue)
    part = parts.Redeliver(*identity_of(queue), request, valid)
    return await gather(service.ask(place, part) for place in queue.others())


def _changing(pairs: Sequence[tuple[LiveQueue, Landed]], valid: ValidReceive) -> Suspension | None:
    """Somebody is changing what the receive took: await it, and look again. An earlier attempt
    whose client had left may be giving it back, and until that is through a new receive would not
    find it. Whatever is changed is hidden until another moment, if it is there at all: so each
    message is waited for once.
    """
    for queue, landed in pairs:
        positions = _hidden_until(queue, _visible_at(landed, valid))
        keys = [queue.messages.state_key(one) for one in positions]
        if (blocked := queue.group.latches.wait_for(keys)) is not None:
            return blocked
    return None


def _visible_at(landed: Landed, valid: ValidReceive) -> int:
    return landed.commit_ts + (valid.visibility_timeout_ms << 16)


def _hidden_until(queue: LiveQueue, visible_at: int) -> list[int]:
    keys = queue.messages
    begin, end = keys.timer_key(visible_at, 0), keys.timer_key(visible_at + 1, 0)
    return [keys.timer_of(key)[1] for key in queue.group.scan_keys(begin, end, _SCANNED_MAX)]


def _untouched(queue: LiveQueue, landed: Landed, valid: ValidReceive) -> Received | None:
    visible_at = _visible_at(landed, valid)
    if visible_at <= queue.group.now():
        return None
    taken = _taken_by(queue, landed.commit_ts, _hidden_until(queue, visible_at))
    if len(taken) != landed.mask.bit_count():
        return None
    states = [one.state for one in taken if one.state is not None]
    return Received(queue, queue.generation, taken, states, is_cut_short=False)


def _taken_by(queue: LiveQueue, receive: int, positions: Sequence[int]) -> list[Taken]:
    """The messages that the receive took, and that nobody is changing."""
    keys, group = queue.messages, queue.group
    states: dict[int, MessageState] = {}
    state_keys = [keys.state_key(position) for position in positions]
    stored = group.get_many(state_keys) if state_keys else []
    for position, key, state in zip(positions, state_keys, stored, strict=True):
        if state is not None and not group.latches.is_held(key):
            states[position] = native.decode_state(state)
    own = [position for position, state in states.items() if state.nonce == receive]
    records = group.get_many([keys.data_key(position) for position in own]) if own else []
    return [
        Taken(position, record, native.decode_message(record), states[position])
        for position, record in zip(own, records, strict=True)
        if record is not None
    ]
