"""The target's side of a message that changes queues: see `outbox.py` for the whole way.

For each source group the target remembers the number of the last letter it has decided, and the
refusals that the source may not know yet. A repeated delivery is answered from these and writes
nothing.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from fastnode import native
from fastnode.native import MESSAGE_FILED, MESSAGE_MOVED, TIMER_DELAYED, MessageRecord, PlannedSend
from fastnode.queue.fair import plan_filing
from fastnode.queue.fair_shares import NOBODY
from fastnode.queue.live import LiveQueue
from fastnode.queue.message_attributes import Moved, decode_extras, encode_extras
from fastnode.queue.outbox import Letter, Numbered, Queues, look_at, shard_of
from fastnode.queue.plans import plan_index_rows, unreceived_state
from fastnode.queue.queue_url import build_arn
from fastnode.queue.redrive_policy import allows
from fastnode.store.group import Group
from fastnode.store.keyspace import (
    encode_position,
    inbox_key,
    refused_prefix,
    split_position,
)
from fastnode.store.txn import Txn

_REFUSALS_MAX = 256


async def deliver(
    queues: Queues, group: Group, source: int, letters: Sequence[Numbered]
) -> frozenset[int]:
    """Store the messages of letters in ascending order; the numbers of those that are refused."""
    targets = await _targets(queues, group, source, letters)
    decided = int.from_bytes(group.get(inbox_key(source)) or b"", "big")
    refused = _known_refusals(group, source)
    fresh = [numbered for numbered in letters if numbered[0] > decided]
    if not fresh:
        return refused
    txn = group.begin(queues.new_request())
    arrivals: list[tuple[LiveQueue, PlannedSend]] = []
    refusals: set[int] = set()
    for entry, (number, letter) in enumerate(fresh):
        target = targets[number]
        if target is None or not _is_admitted(target, letter):
            refusals.add(number)
        else:
            arrivals.append((target, _plan_arrival(target, txn, entry, letter)))
    _plan_decisions(txn, source, letters[0][0], refused, refusals)
    txn.put(inbox_key(source), encode_position(fresh[-1][0]))
    await group.submit(txn)
    for target, planned in arrivals:
        target.arrived((planned,))
        target.applied(txn)
    return refused | refusals


async def _targets(
    queues: Queues, group: Group, source: int, letters: Sequence[Numbered]
) -> dict[int, LiveQueue | None]:
    """The queue that each letter is for, by its number, once nobody changes them."""
    while True:
        await look_at(queues, (letter.target for _, letter in letters))
        targets = {number: _target(queues, letter) for number, letter in letters}
        keys = [queue.keys.generation for queue in targets.values() if queue is not None]
        blocked = group.latches.wait_for([inbox_key(source), *keys])
        if blocked is None:
            return targets
        await blocked


def _target(queues: Queues, letter: Letter) -> LiveQueue | None:
    """A queue that was deleted and made anew is not the one that was meant."""
    queue = queues.find(*native.split_queue_segment(letter.target))
    if queue is None or queue.record.incarnation != letter.incarnation:
        return None
    return shard_of(queue, native.decode_message(letter.stored))


def _is_admitted(target: LiveQueue, letter: Letter) -> bool:
    """A target's policy speaks of dead letters; whoever starts a move task chose the target."""
    return bool(letter.task) or allows(target.settings, _source_arn(letter))


def _source_arn(letter: Letter) -> str:
    account, region, name = native.split_queue_segment(letter.source)
    return build_arn(region, account, name)


# --- refusals ----------------------------------------------------------------------------------


def _known_refusals(group: Group, source: int) -> frozenset[int]:
    prefix = refused_prefix(source)
    keys = group.scan_keys(prefix, native.prefix_end(prefix), _REFUSALS_MAX)
    return frozenset(split_position(key) for key in keys)


def _plan_decisions(
    txn: Txn, source: int, oldest: int, known: frozenset[int], refusals: set[int]
) -> None:
    """Remember new refusals; the source knows of all that are older than what it sends now."""
    prefix = refused_prefix(source)
    for number in refusals:
        txn.put_fresh(prefix + encode_position(number), b"")
    for number in known:
        if number < oldest:
            txn.delete_fresh(prefix + encode_position(number))


# --- arrivals ----------------------------------------------------------------------------------


def _plan_arrival(queue: LiveQueue, txn: Txn, entry: int, letter: Letter) -> PlannedSend:
    """A message of the target queue that nobody has received there: it waits like any other."""
    position = txn.commit_ts << 16 | entry
    old = native.decode_message(letter.stored)
    extras = decode_extras(old.extras)
    if letter.task:
        message_id = native.message_id(txn.commit_ts, entry, txn.request)
        extras = replace(extras, moved=None)
        new = old._replace(flags=0, message_id=message_id, sent_ms=txn.commit_ts >> 16)
    else:
        extras = replace(extras, moved=_moved(letter, extras.moved))
        new = old._replace(flags=MESSAGE_MOVED)
        txn.add(queue.messages.arrived, 1)
    if queue.settings.is_fifo:
        # Its time begins anew, and no two dead letters may be taken for one message.
        extras = replace(extras, deduplication_id=native.message_id_text(new.message_id))
        new = new._replace(sent_ms=txn.commit_ts >> 16)
    new = new._replace(extras=encode_extras(extras))
    if not queue.settings.is_fifo:
        new = _filed(queue, txn, position, new, extras.group_id)
    record = native.encode_message(*new)
    txn.check(queue.keys.generation)
    txn.put_fresh(queue.messages.data_key(position), record)
    plan_index_rows(queue, txn, position, new)
    if queue.settings.is_fifo and queue.delay:
        _plan_no_delay(queue, txn, position, new)
    txn.add(queue.messages.total, 1)
    return PlannedSend(native.message_id_text(new.message_id), new.body_md5.hex(), position, record)


def _plan_no_delay(queue: LiveQueue, txn: Txn, position: int, record: MessageRecord) -> None:
    """Without a state it would wait for the delay of a FIFO queue; a state that begins a tick after
    its arrival makes it available then.
    """
    keys, visible_at = queue.messages, txn.commit_ts + 1
    state = unreceived_state(record)._replace(visible_at=visible_at)
    txn.put_fresh(keys.state_key(position), native.encode_state(*state))
    txn.put_fresh(keys.timer_key(visible_at, position), TIMER_DELAYED)
    txn.add(keys.delayed, 1)


def _filed(
    queue: LiveQueue, txn: Txn, position: int, record: MessageRecord, group_id: str | None
) -> MessageRecord:
    """Under its tenant, if the queue is fair; see `fair.py`."""
    if group_id is not None:
        queue.tell_tenants_apart(txn.commit_ts)
    if queue.tenants is None:
        return record
    plan_filing(queue.messages, txn, position, group_id or NOBODY)
    return record._replace(flags=record.flags | MESSAGE_FILED)


def _moved(letter: Letter, before: Moved | None) -> Moved:
    """Counts go on from queue to queue."""
    arn = _source_arn(letter)
    if not letter.state:
        return replace(before, source_arn=arn) if before else Moved(arn, 0, 0)
    state = native.decode_state(letter.state)
    return Moved(arn, state.receive_count, state.first_receive_ms)
