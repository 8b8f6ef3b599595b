"""Receives repeated under one ReceiveRequestAttemptId: the same messages, the same handles.

A receive with such an id stores which messages it took. A repetition within five minutes gives them
again, with a new timeout, if nobody has touched them since and they are still invisible; otherwise
it is a receive like any other.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from fastnode import config, native
from fastnode.native import TIMER_RECEIVED, MessageState
from fastnode.queue.choice import Taken
from fastnode.queue.live import LiveQueue
from fastnode.queue.plans import plan_touch
from fastnode.queue.service import Service
from fastnode.queue.timers import Timer
from fastnode.store.keyspace import encode_position, split_position
from fastnode.store.txn import Txn


class Attempt(Struct, frozen=True, array_like=True, gc=False):
    """The receive's nonce, until when it hid its messages, and their positions."""

    nonce: int
    visible_at: int
    positions: list[bytes]


class Redelivered(NamedTuple):
    messages: list[Taken]
    states: list[MessageState]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Attempt)


def plan(queue: LiveQueue, txn: Txn, attempt_id: str, messages: Sequence[Taken], at: int) -> None:
    """Remember what this receive takes, hidden until `at`. Of two at the same time, the first."""
    if not messages or queue.group.latches.is_held(queue.messages.attempt_key(attempt_id)):
        return
    positions = [encode_position(taken.position) for taken in messages]
    attempt = Attempt(txn.commit_ts, at, positions)
    txn.put(queue.messages.attempt_key(attempt_id), _ENCODER.encode(attempt))
    txn.put_fresh(queue.messages.attempt_age_key(txn.commit_ts << 16, attempt_id), b"")


def began_at(stored: bytes) -> bytes:
    """The position under which a stored attempt is filed by its age."""
    return encode_position(_DECODER.decode(stored).nonce << 16)


async def redeliver(
    service: Service, queue: LiveQueue, attempt_id: str, timeout_ms: int
) -> Redelivered | None:
    """What the receive of this id took, hidden anew; None if it has to be an ordinary receive."""
    keys, group = queue.messages, queue.group
    attempt_key = keys.attempt_key(attempt_id)
    while (blocked := group.latches.wait_for((attempt_key,))) is not None:
        await blocked
    stored = group.get(attempt_key)
    if stored is None:
        return None
    attempt = _DECODER.decode(stored)
    txn = group.begin(service.new_request())
    taken = _untouched(queue, attempt, txn.commit_ts)
    if taken is None:
        return None
    visible_at = txn.commit_ts + (timeout_ms << 16)
    txn.check(queue.keys.generation)
    txn.put(attempt_key, _ENCODER.encode(msgspec.structs.replace(attempt, visible_at=visible_at)))
    states = [_plan_hiding(queue, txn, one, visible_at) for one in taken]
    await group.submit(txn)
    queue.scheduled([Timer(visible_at, one.position, True) for one in taken])
    queue.applied(txn)
    return Redelivered(taken, states)


def _untouched(queue: LiveQueue, attempt: Attempt, now: int) -> list[Taken] | None:
    is_late = (now >> 16) - (attempt.nonce >> 16) >= config.DEDUPLICATION_MS
    if is_late or attempt.visible_at <= now:
        return None
    keys, group = queue.messages, queue.group
    positions = [split_position(position) for position in attempt.positions]
    state_keys = [keys.state_key(position) for position in positions]
    if any(group.latches.is_held(key) for key in state_keys):
        return None
    taken: list[Taken] = []
    data = group.get_many([keys.data_key(position) for position in positions])
    for position, stored, state in zip(positions, data, group.get_many(state_keys), strict=True):
        if stored is None or state is None:
            return None
        decoded = native.decode_state(state)
        if (decoded.nonce, decoded.visible_at) != (attempt.nonce, attempt.visible_at):
            return None
        taken.append(Taken(position, stored, native.decode_message(stored), decoded))
    return taken


def _plan_hiding(queue: LiveQueue, txn: Txn, taken: Taken, visible_at: int) -> MessageState:
    """A repetition is not another receive: the count stays."""
    keys, old = queue.messages, taken.state
    assert old is not None
    state = old._replace(visible_at=visible_at)
    txn.put(keys.state_key(taken.position), native.encode_state(*state))
    txn.delete_fresh(keys.timer_key(old.visible_at, taken.position))
    txn.put_fresh(keys.timer_key(visible_at, taken.position), TIMER_RECEIVED)
    plan_touch(queue, txn, taken.record)
    return state
