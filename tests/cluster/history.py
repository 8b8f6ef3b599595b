"""What clients of a cluster did and were told, and whether one correct queue could have told it.

Pure: events go in, complaints come out. Times are those of one monotonic clock, taken before a call
and after its answer, so what a call did happened somewhere in between. Only what is certainly wrong
is complained about: where an outcome is unknown, or two moments could have been either way round,
every possibility is allowed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

# Nodes count in milliseconds, and their clocks may run 500 ppm apart from ours.
TOLERANCE_SECONDS = 0.05


class Sent(NamedTuple):
    """One attempt to send. The message id is empty when the outcome is unknown. In a FIFO queue the
    body is the deduplication id, and `number` counts the messages of a group from 0 on, each sent
    only after the one before it was acknowledged.
    """

    queue: str
    body: str
    began: float
    ended: float
    message_id: str = ""
    group: str = ""
    number: int = -1
    sequence: str = ""


class Message(NamedTuple):
    message_id: str
    body: str
    group: str = ""
    sequence: str = ""


class Received(NamedTuple):
    """An answer with messages, in their order. An answer that was lost is no event."""

    queue: str
    began: float
    ended: float
    lease_seconds: float
    messages: tuple[Message, ...]


class Deleted(NamedTuple):
    """An attempt to delete what a receive gave, begun at `received` for `lease_seconds`."""

    queue: str
    message_id: str
    received: float
    lease_seconds: float
    began: float
    ended: float
    is_acknowledged: bool

    @property
    def is_certain(self) -> bool:
        """Later the handle may have been somebody else's to use, and then a 200 deletes nothing."""
        lease_end = self.received + self.lease_seconds - TOLERANCE_SECONDS
        return self.is_acknowledged and self.ended < lease_end


class Drained(NamedTuple):
    """The end: counters when nothing was in flight any more, how many messages were then found, and
    the counters when all of those were deleted. Counters: visible, in flight, delayed.
    """

    queue: str
    before: tuple[int, int, int]
    found: int
    after: tuple[int, int, int]


Event = Sent | Received | Deleted | Drained


def check(events: Iterable[Event]) -> list[str]:
    """What is wrong, in no particular order; empty when nothing is."""
    queues: dict[str, Queue] = {}
    for event in events:
        queues.setdefault(event.queue, Queue()).add(event)
    return [
        f"{name}: {complaint}"
        for name, queue in sorted(queues.items())
        for complaint in queue.complaints()
    ]


class Queue:
    """The events of one queue."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.received: list[Received] = []
        self.deleted: list[Deleted] = []
        self.drained: list[Drained] = []

    def add(self, event: Event) -> None:
        if isinstance(event, Sent):
            self.sent.append(event)
        elif isinstance(event, Received):
            self.received.append(event)
        elif isinstance(event, Deleted):
            self.deleted.append(event)
        else:
            self.drained.append(event)

    def complaints(self) -> Iterator[str]:
        yield from identity_complaints(self.sent, self.received)
        yield from loss_complaints(self)
        yield from return_complaints(self.received, self.deleted)
        yield from lease_complaints(self.received)
        yield from counter_complaints(self.drained)
        if any(sent.group for sent in self.sent):
            yield from sequence_complaints(self.sent, self.received)
            yield from order_complaints(self)


def identity_complaints(sent: list[Sent], received: list[Received]) -> Iterator[str]:
    """Every message was sent, and there are not more of it than sends. FIFO: exactly one."""
    attempts: dict[str, list[Sent]] = defaultdict(list)
    ids: dict[str, set[str]] = defaultdict(set)
    for attempt in sent:
        attempts[attempt.body].append(attempt)
        ids[attempt.body].update(filter(None, [attempt.message_id]))
    for answer in received:
        for message in answer.messages:
            ids[message.body].add(message.message_id)
            same = attempts.get(message.body)
            if same is None:
                yield f"{message.body} was received but never sent"
            elif same[0].group != message.group:
                yield f"{message.body} was sent to group {same[0].group}, not {message.group}"
    for body, found in ids.items():
        same = attempts.get(body, [])
        copies_max = 1 if any(attempt.group for attempt in same) else len(same)
        if same and len(found) > copies_max:
            yield f"{body} exists {len(found)} times, sent {len(same)} times"


def loss_complaints(queue: Queue) -> Iterator[str]:
    """At the end everything was taken out, so what nobody tried to delete was not there."""
    if not queue.drained:
        return
    touched = {attempt.message_id for attempt in queue.deleted}
    for sent in queue.sent:
        if sent.message_id and sent.message_id not in touched:
            yield f"{sent.body} was acknowledged and is lost"


def return_complaints(received: list[Received], deleted: list[Deleted]) -> Iterator[str]:
    gone: dict[str, float] = {}
    for attempt in deleted:
        if attempt.is_certain:
            gone[attempt.message_id] = min(
                attempt.ended, gone.get(attempt.message_id, attempt.ended)
            )
    for answer in received:
        for message in answer.messages:
            if gone.get(message.message_id, answer.began) < answer.began:
                yield f"{message.body} came back after its delete was acknowledged"


def lease_complaints(received: list[Received]) -> Iterator[str]:
    """No two deliveries of one message can have been closer than the lease of the first."""
    deliveries: dict[str, list[Received]] = defaultdict(list)
    bodies: dict[str, str] = {}
    for answer in received:
        for message in answer.messages:
            deliveries[message.message_id].append(answer)
            bodies[message.message_id] = message.body
    for message_id, answers in deliveries.items():
        answers.sort(key=lambda answer: answer.ended)
        for first, second in pairwise(answers):
            if not (can_follow(first, second) or can_follow(second, first)):
                times = f"at {first.ended:.2f} for {first.lease_seconds} s, at {second.ended:.2f}"
                yield f"{bodies[message_id]} was delivered twice within its timeout: {times}"


def can_follow(first: Received, second: Received) -> bool:
    """The second may have happened when the lease of the first was over."""
    return second.ended + TOLERANCE_SECONDS >= first.began + first.lease_seconds


def counter_complaints(drained: list[Drained]) -> Iterator[str]:
    for end in drained:
        if end.before != (end.found, 0, 0):
            yield f"counters {end.before} before {end.found} messages were found"
        if end.after != (0, 0, 0):
            yield f"counters {end.after} after everything was deleted"


def sequence_complaints(sent: list[Sent], received: list[Received]) -> Iterator[str]:
    """A message has one sequence number, and they grow within a group."""
    sequences: dict[str, str] = {}
    told = [(sent.body, sent.sequence) for sent in sent if sent.message_id]
    told += [(message.body, message.sequence) for answer in received for message in answer.messages]
    for body, sequence in told:
        if sequences.setdefault(body, sequence) != sequence:
            yield f"{body} has the sequence numbers {sequences[body]} and {sequence}"
    for group, bodies in groups_of(sent).items():
        known = [(number, int(sequences[body])) for number, body in bodies if body in sequences]
        for (_, lower), (number, higher) in pairwise(known):
            if lower >= higher:
                yield f"group {group}: number {number} has no higher sequence than the one before"


def groups_of(sent: list[Sent]) -> dict[str, list[tuple[int, str]]]:
    """Number and body of each group's messages, in order."""
    groups: dict[str, set[tuple[int, str]]] = defaultdict(set)
    for attempt in sent:
        groups[attempt.group].add((attempt.number, attempt.body))
    return {group: sorted(members) for group, members in groups.items()}


def order_complaints(queue: Queue) -> Iterator[str]:
    """While a message may not have been deleted yet, nothing of its group is delivered but together
    with it and behind it.
    """
    numbers = {sent.body: sent.number for sent in queue.sent}
    ids = {sent.body: sent.message_id for sent in queue.sent if sent.message_id}
    first_delete: dict[str, float] = {}
    for attempt in queue.deleted:
        earlier = first_delete.get(attempt.message_id, attempt.began)
        first_delete[attempt.message_id] = min(attempt.began, earlier)
    groups = groups_of(queue.sent)
    for answer in queue.received:
        for group, delivered in by_group(answer, numbers).items():
            if delivered != sorted(set(delivered)):
                yield f"group {group}: one answer has {delivered}"
            for number, body in groups.get(group, []):
                # A send whose outcome is unknown may have left nothing that could be skipped.
                is_gone = (
                    body not in ids or first_delete.get(ids[body], answer.ended) < answer.ended
                )
                if number < delivered[-1] and number not in delivered and not is_gone:
                    yield f"group {group}: {delivered[-1]} was delivered before {number}"


def by_group(answer: Received, numbers: Mapping[str, int]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for message in answer.messages:
        if message.body in numbers:
            groups[message.group].append(numbers[message.body])
    return groups
