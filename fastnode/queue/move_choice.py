"""What a move task takes of its source: messages that were there when it began, and where each of
them goes.

What came later stays: a message that fails again and again would go in circles. It must not hide
older ones either, wherever it stands in the order of receives.
"""

from typing import Final, NamedTuple

from fastnode import config
from fastnode.queue.choice import Choice, Taken
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.live import LiveQueue
from fastnode.queue.move_record import MoveTask
from fastnode.queue.outbox import Queues
from fastnode.queue.queue_url import parse_arn
from fastnode.queue.timers import EVERYTHING

# Where looking begins.
START: Final = b""


class Batch(NamedTuple):
    """What a step moves, and the message after that, if any, whose target is not known; where to
    look next, or `START` if everything has been looked at.
    """

    choice: Choice
    targets: list[LiveQueue]
    lost: Taken | None
    begin: bytes


def take_batch(queues: Queues, shard: LiveQueue, part: MoveTask, now: int, begin: bytes) -> Batch:
    limit = min(part.rate or config.MOVE_RATE_MAX, config.TRANSACTION_MESSAGES_MAX)
    through = part.started_at << 16 | 0xFFFF
    choice, next_begin = _choose(shard, limit, now, through, begin)
    moved: list[Taken] = []
    targets: list[LiveQueue] = []
    left: list[Taken] = []
    lost: Taken | None = None
    for taken in choice.messages:
        is_wanted = taken.position <= through and lost is None
        target = find_target(queues, part, taken) if is_wanted else None
        if target is not None:
            moved.append(taken)
            targets.append(target)
            continue
        left.append(taken)
        if is_wanted:
            lost = taken
    shard.give_back(Choice(left, [], []))
    # What stands behind a message that cannot be moved is not passed.
    go_on = next_begin if lost is None else begin
    return Batch(Choice(moved, choice.expired, []), targets, lost, go_on)


def _choose(
    shard: LiveQueue, limit: int, now: int, through: int, begin: bytes
) -> tuple[Choice, bytes]:
    if isinstance(shard, FifoQueue):
        return shard.choose_by_group(limit, now, through, begin)
    # In send order among those that are due, then among those that wait, whoever is noisy.
    shard.timers.through = through
    if shard.tenants is not None:
        shard.tenants.shares.is_lenient = True
    choice = shard.choose(limit, now)
    if shard.tenants is not None:
        shard.tenants.shares.is_lenient = False
    shard.timers.through = EVERYTHING
    return choice, START


def target_name(part: MoveTask, taken: Taken) -> tuple[str, str, str] | None:
    """Where the message goes; None: nobody can tell."""
    moved = taken.moved
    arn = part.destination_arn or (moved.source_arn if moved else None)
    return None if arn is None else parse_arn(arn)


def find_target(queues: Queues, part: MoveTask, taken: Taken) -> LiveQueue | None:
    named = target_name(part, taken)
    return None if named is None else queues.find(*named)
