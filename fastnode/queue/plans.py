"""Pieces of transactions that several handlers plan: taking messages, removing them, putting them
back.
"""

from functools import lru_cache
from typing import NamedTuple

from fastnode import native
from fastnode.native import (
    MESSAGE_MOVED,
    TIMER_DELAYED,
    TIMER_RECEIVED,
    MessageRecord,
    MessageState,
)
from fastnode.queue.choice import Choice
from fastnode.queue.fair import plan_unfiling
from fastnode.queue.live import LiveQueue
from fastnode.queue.message_attributes import decode_extras
from fastnode.queue.timers import Timer
from fastnode.queue.waiting import Waiting
from fastnode.store.keyspace import encode_position
from fastnode.store.txn import Txn


def plan_removal(
    queue: LiveQueue,
    txn: Txn,
    position: int,
    state: MessageState | None,
    record: MessageRecord | None,
) -> None:
    """The message goes, with everything that belongs to it; its state key guards the rest.

    `record` may be None for a message that did not come from another queue.
    """
    keys = queue.messages
    txn.delete(keys.state_key(position))
    txn.delete_fresh(keys.data_key(position))
    txn.add(keys.total, -1)
    if state is not None:
        txn.delete_fresh(keys.timer_key(state.visible_at, position))
        txn.add(keys.in_flight if state.nonce else keys.delayed, -1)
    elif record is not None:
        plan_unfiling(keys, txn, position, record)
    _plan_unindexing(queue, txn, position, record)


def plan_removals(queue: LiveQueue, txn: Txn, times: dict[int, int], delayed: int) -> None:
    """As `plan_removal`, for messages that have a timer; `delayed` of them nobody has received."""
    keys = queue.messages
    txn.writes += native.plan_removals(keys.places, times)
    txn.add(keys.total, -len(times))
    txn.add(keys.in_flight, delayed - len(times))
    txn.add(keys.delayed, -delayed)
    for position in times:
        _plan_unindexing(queue, txn, position, queue.indexed_record(position))


def _plan_unindexing(
    queue: LiveQueue, txn: Txn, position: int, record: MessageRecord | None
) -> None:
    """The message is no longer found by its content."""
    keys = queue.messages
    if record is not None and record.flags & MESSAGE_MOVED:
        txn.delete_fresh(keys.id_key(record.message_id))
        txn.delete_fresh(keys.age_key(record.sent_ms, position))
    if queue.settings.is_fifo:
        assert record is not None, "a message group is found by its messages' records"
        group_id = group_of(record)
        txn.delete_fresh(keys.group_key(group_id, position))
        txn.touch(keys.head_key(group_id))


class Claim(NamedTuple):
    """What a transaction takes of a queue, until it is through. A purge meanwhile gives the queue
    another memory, which knows nothing of this and must learn nothing of it.
    """

    queue: LiveQueue
    waiting: Waiting
    first: int | None

    def settle(self) -> None:
        if self.first is not None:
            self.waiting.settle(self.first)

    def give_back(self, choice: Choice) -> None:
        """The transaction failed."""
        if self.queue.waiting is self.waiting:
            self.queue.give_back(choice)


def plan_claim(queue: LiveQueue, txn: Txn, choice: Choice) -> Claim:
    """The low-water mark; the claim to settle when the transaction is through."""
    txn.check(queue.keys.generation)
    waiting = queue.waiting
    first = min((taken.position for taken in choice.all if taken.state is None), default=None)
    if first is not None:
        mark = queue.claim(first)
        txn.raise_to(queue.messages.mark, encode_position(mark))
    return Claim(queue, waiting, first)


def plan_return(
    queue: LiveQueue, txn: Txn, position: int, stored: bytes, state: MessageState | None
) -> Timer:
    """A message that was removed is back in its place and available now.

    Its position lies behind the cursor, so it gets a timer that is due at once, even if nobody has
    received it yet.
    """
    keys, now = queue.messages, txn.commit_ts
    record = native.decode_message(stored)
    old = state or unreceived_state(record)
    was_received = old.nonce > 0
    txn.put(keys.state_key(position), native.encode_state(*old._replace(visible_at=now)))
    txn.put_fresh(keys.data_key(position), stored)
    txn.put_fresh(keys.timer_key(now, position), TIMER_RECEIVED if was_received else TIMER_DELAYED)
    txn.add(keys.total, 1)
    txn.add(keys.in_flight if was_received else keys.delayed, 1)
    plan_index_rows(queue, txn, position, record)
    return Timer(now, position, was_received)


def unreceived_state(record: MessageRecord) -> MessageState:
    """Of a message that this queue has not handed out: counts go on from where it came from."""
    moved = decode_extras(record.extras).moved if record.flags & MESSAGE_MOVED else None
    count, first_receive_ms = (moved.receive_count, moved.first_receive_ms) if moved else (0, 0)
    return MessageState(0, count, 0, first_receive_ms)


def plan_index_rows(queue: LiveQueue, txn: Txn, position: int, record: MessageRecord) -> None:
    """How a message is found by its content: by its group, and, if it kept the id that it had in
    another queue, by that and by its age.
    """
    keys, is_fifo = queue.messages, queue.settings.is_fifo
    if record.flags & MESSAGE_MOVED:
        txn.put_fresh(keys.id_key(record.message_id), encode_position(position))
        # In a FIFO queue a message is as old as its position says: its time began anew.
        if not is_fifo:
            txn.put_fresh(keys.age_key(record.sent_ms, position), b"")
    if is_fifo:
        txn.put_fresh(keys.group_key(group_of(record), position), b"")
        plan_touch(queue, txn, record)


def plan_touch(queue: LiveQueue, txn: Txn, record: MessageRecord) -> None:
    """The state of a message has changed, and with it, perhaps, what its group can deliver."""
    if queue.settings.is_fifo:
        txn.touch(queue.messages.head_key(group_of(record)))


def group_of(record: MessageRecord) -> str:
    return _group_id(record.extras)


# A call asks for the group of a message several times, and a delete follows its receive.
@lru_cache(maxsize=4096)
def _group_id(extras: bytes) -> str:
    group_id = decode_extras(extras).group_id
    assert group_id is not None, "a message of a FIFO queue has a group"
    return group_id
