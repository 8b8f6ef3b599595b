"""Judges the history of a soak while it grows, in bounded memory.

The rules are those of the cluster tests (`tests/cluster/history.py`) and one more, for delays. They
are asked again and again of a window: messages whose delete is certain and old are retired after
they were judged once more. Should one of those come back, it is complained about as a phantom,
because nobody remembers that it was sent. `run` is the process in which all this happens,
so that judging takes no time from the clients.
"""

import math
import resource
import signal
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection

import msgspec

from tests.cluster.history import Deleted, Drained, Event, Received, Sent, complaints

# Nodes count in milliseconds, and their clocks may run 500 ppm apart from ours.
TOLERANCE_SECONDS = 0.05
# A little longer than a call takes. An answer is judged so much later: what was sent before it has
# been told by then, although the answer to the send may have been slower.
HOLD_SECONDS = 12.0
# Twice that, because a consumer tells what it received after one more call. Whatever began before a
# delete ended has been judged by then.
HORIZON_SECONDS = 2 * HOLD_SECONDS
SETTLE_SECONDS = 15.0
COMPLAINTS_MAX = 200


class Verdict(msgspec.Struct, frozen=True):
    """What is known so far; at the end it is the verdict."""

    complaints: list[str]
    sent: int
    live: int
    peak_mb: float


class Queue:
    """The events of one queue that are not retired."""

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

    def events(self) -> list[Event]:
        """Without deletes of what is in an answer that is still held: nobody knows its body."""
        known = {message.message_id for answer in self.received for message in answer.messages}
        deleted = (one for one in self.deleted if one.message_id in known)
        return [*self.sent, *self.received, *deleted, *self.drained]


class Judge:
    """Pure but for its memory. A body is one message; `queue/…+3` was sent with a delay of 3 s."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.held: list[Received] = []
        # What was never delivered is known when no answer is held any more.
        self.ends: list[Drained] = []
        self.sent = 0
        # In the order in which they were found.
        self.complaints: dict[str, None] = {}

    def add(self, events: Iterable[Event]) -> None:
        """Events in any order, none later than its call may take."""
        for event in events:
            self.sent += isinstance(event, Sent)
            if isinstance(event, Received):
                self.held.append(event)
            elif isinstance(event, Drained):
                self.ends.append(event)
            else:
                self._take(event)

    def settle(self, now: float) -> None:
        """Judges the window, and retires what is over and done with."""
        held, self.held = self.held, []
        for answer in held:
            if answer.ended <= now - HOLD_SECONDS:
                self._take(answer)
            else:
                self.held.append(answer)
        while self.ends and not self.held:
            self._take(self.ends.pop())
        for name, queue in self.queues.items():
            for complaint in (*complaints(name, queue.events()), *delay_complaints(queue)):
                if len(self.complaints) < COMPLAINTS_MAX:
                    self.complaints[f"{name}: {complaint}"] = None
            retire(queue, now - HORIZON_SECONDS)

    def _take(self, event: Event) -> None:
        self.queues.setdefault(event.queue, Queue()).add(event)

    @property
    def live(self) -> int:
        """Sends that are not retired."""
        return sum(len(queue.sent) for queue in self.queues.values())

    def verdict(self) -> Verdict:
        """With the memory that this process has needed."""
        peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return Verdict(list(self.complaints), self.sent, self.live, peak_kb / 1024)


def delay_complaints(queue: Queue) -> Iterator[str]:
    """No message was received before its delay was over."""
    due = {sent.body: sent.began + delay for sent in queue.sent if (delay := delay_of(sent.body))}
    for answer in queue.received:
        for message in answer.messages:
            if answer.ended + TOLERANCE_SECONDS < due.get(message.body, 0.0):
                yield f"{message.body} was delivered before its delay was over"


def delay_of(body: str) -> int:
    """The seconds that a body says its message is delayed."""
    return int(body.rpartition("+")[2]) if "+" in body else 0


def retire(queue: Queue, before: float) -> None:
    """Forgets all events of messages that were certainly deleted by then."""
    deleted = {one.message_id for one in queue.deleted if is_certain(one) and one.ended < before}
    bodies = {
        message.body
        for answer in queue.received
        for message in answer.messages
        if message.message_id in deleted
    } - newest_of_groups(queue)
    ids = {
        message.message_id
        for answer in queue.received
        for message in answer.messages
        if message.body in bodies
    }
    queue.sent = [sent for sent in queue.sent if sent.body not in bodies]
    queue.deleted = [one for one in queue.deleted if one.message_id not in ids]
    queue.received = [
        rest for answer in queue.received if (rest := without(answer, bodies)).messages
    ]


def is_certain(deleted: Deleted) -> bool:
    """Later the handle may have been somebody else's to use, and then a 200 deletes nothing."""
    lease_end = deleted.received + deleted.lease_seconds - TOLERANCE_SECONDS
    return deleted.is_acknowledged and deleted.ended < lease_end


def newest_of_groups(queue: Queue) -> set[str]:
    """The last message of each group stays: the next one is compared with it."""
    newest: dict[str, Sent] = {}
    for sent in queue.sent:
        if sent.group and sent.number >= newest.get(sent.group, sent).number:
            newest[sent.group] = sent
    return {sent.body for sent in newest.values()}


def without(answer: Received, bodies: set[str]) -> Received:
    """The answer, less the messages with these bodies."""
    kept = tuple(message for message in answer.messages if message.body not in bodies)
    return answer if len(kept) == len(answer.messages) else answer._replace(messages=kept)


def run(connection: Connection) -> None:
    """The process. In come pairs, a time and events that hold all that was told before it; verdicts
    go out; None is the end.
    """
    # Whoever started us decides when the end is, also when a terminal says it to both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    judge, settled = Judge(), 0.0
    while (told := connection.recv()) is not None:
        # Our own clock would not do: we may be behind.
        now, events = told
        judge.add(events)
        if now > settled + SETTLE_SECONDS:
            judge.settle(now)
            connection.send(judge.verdict())
            settled = now
    judge.settle(math.inf)
    connection.send(judge.verdict())
