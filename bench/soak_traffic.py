"""What a soak consists of: its queues, their shares, what messages look like; pure."""

import random
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tests.cluster.history import Message, Received

DEAD, DEAD_LETTERS = "dead", "dead-letters"
DEAD_LETTERS_ARN = f"arn:aws:sqs:us-east-1:000000000000:{DEAD_LETTERS}"
REDRIVE = f'{{"deadLetterTargetArn":"{DEAD_LETTERS_ARN}","maxReceiveCount":3}}'
HIGH_THROUGHPUT: Final = {
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}
# In this order: a queue names its dead letters' when it is created.
ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    "plain": {},
    DEAD_LETTERS: {},
    DEAD: {"RedrivePolicy": REDRIVE},
    "order.fifo": {"FifoQueue": "true"},
    "wide.fifo": {"FifoQueue": "true"} | HIGH_THROUGHPUT,
}
# What part of all messages is sent to each queue.
SHARES: Final = {"plain": 0.45, DEAD: 0.15, "order.fifo": 0.2, "wide.fifo": 0.2}
PRODUCERS, CONSUMERS = 8, 8
# Of each producer; at least as many as a batch has messages, so that a batch has one of each.
GROUPS = 25
# As many messages go by batches of ten as one by one.
BATCH, BATCH_SHARE = 10, 1 / 11
BODY_LENGTH = 200
DELAYED_SHARE, DELAY_SECONDS_MAX = 0.1, 3
# Messages of the queue with dead letters that nobody can process.
POISON_EVERY = 50
LEASE_SECONDS, EXTENDED_SECONDS, LAST_LEASE_SECONDS = 5, 15, 600
GIVEN_BACK_SHARE, ABANDONED_SHARE, EXTENDED_SHARE, ONE_BY_ONE_SHARE = 0.03, 0.03, 0.05, 0.2
WAIT_SECONDS = 1


class Draft(msgspec.Struct, frozen=True):
    """A message to be sent; `name` is its body without the padding."""

    name: str
    group: str
    number: int
    members: dict[str, object]


def draft(queue: str, producer: str, number: int, chance: random.Random) -> Draft:
    """The message of that number of a producer."""
    name, group, place = f"{queue}/{producer}/{number}", "", -1
    members: dict[str, object] = {}
    if queue.endswith(".fifo"):
        group, place = f"{producer}-{number % GROUPS}", number // GROUPS
        members = {"MessageGroupId": group, "MessageDeduplicationId": name}
    elif chance.random() < DELAYED_SHARE:
        delay = chance.randint(1, DELAY_SECONDS_MAX)
        name, members = f"{name}+{delay}", {"DelaySeconds": delay}
    return Draft(name, group, place, {"MessageBody": name.ljust(BODY_LENGTH)} | members)


def named(message: Message) -> Message:
    """With the name of the message in place of its padded body."""
    return message._replace(body=message.body.rstrip())


def home_of(queue: str) -> str:
    """The queue whose history it belongs to."""
    return DEAD if queue == DEAD_LETTERS else queue


def is_poison(queue: str, message: Message) -> bool:
    """Nobody can process it, until it is a dead letter."""
    number = message.body.partition("+")[0].rpartition("/")[2]
    return queue == DEAD and int(number) % POISON_EVERY == 0


def chosen(
    event: Received, handles: list[str], places: Sequence[int]
) -> tuple[Received, list[str]]:
    """Part of an answer, to be deleted."""
    messages = tuple(event.messages[at] for at in places)
    return event._replace(messages=messages), [handles[at] for at in places]
