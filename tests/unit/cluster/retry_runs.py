"""Runs one case of `retry_table.py` in a `RetryWorld`: a queue, a call, what happens between its
attempts; then what can be seen from outside.
"""

from collections.abc import Iterator
from typing import Any

from fastnode.queue import api
from tests.unit.cluster.retry_events import NO_LIMIT, TIMEOUT_SECONDS, EventQueue
from tests.unit.cluster.retry_table import (
    ALL,
    NONE,
    OTHERS,
    Answer,
    Case,
    Event,
    Fate,
    Kind,
    Leader,
    Loss,
    Order,
    Outcome,
    Owner,
    Repeater,
    Verb,
    allowed,
    order_of,
)
from tests.unit.cluster.retry_world import Client, Held, RetryWorld, is_home, posted
from tests.world import ACCOUNT, REGION

AHEAD_MS = 5_000
GOOD, TOO_LARGE = 2_000, 5_000
_NODES = {Owner.LEADER: 1, Owner.OTHER: 2}


def groups_of(kind: Kind) -> int:
    return 2 if kind is Kind.PARTITIONED else 1


def leaders_at_first(kind: Kind) -> tuple[int, ...]:
    return (1, 3)[: groups_of(kind)]


def leaders_then(case: Case) -> tuple[int, ...]:
    """Never the owner, which is cut off for a while."""
    return (3, 3 - _NODES[case.owner])[: groups_of(case.kind)]


class Run:
    def __init__(
        self, world: RetryWorld, case: Case, number: int, *, is_ahead: bool = False
    ) -> None:
        self.world = world
        self._is_ahead = is_ahead
        self.case = case
        self.complaints: list[str] = []
        self._invocation = "" if case.is_by_owner else f"invocation-{number}"
        self._owner = _NODES[case.owner]
        suffix = "" if case.kind is Kind.STANDARD else ".fifo"
        names = (f"q{number}-{at}{suffix}" for at in range(64))
        self._name = next(name for name in names if is_home(name, 0, len(world.groups)))
        self._queue = EventQueue(world, case.kind, self._name)
        self._queue.create()
        self._url = self._queue.url
        self._message_groups = self._choose_groups()
        self._prepare()

    # --- before --------------------------------------------------------------------------------

    def _choose_groups(self) -> list[str | None]:
        """A message group for each message: the first in the partition that the owner leads, if it
        leads one, then in turns.
        """
        if self.case.kind is Kind.STANDARD:
            return [None] * 4
        names = [f"g{at}" for at in range(64)]
        if self.case.kind is Kind.FIFO:
            return list(names[:4])
        queue = self.world.nodes[1].service.find(ACCOUNT, REGION, self._name)
        assert queue is not None
        sides: list[Iterator[str]] = [
            iter([name for name in names if queue.partition_for(name) == side]) for side in (0, 1)
        ]
        first = 0 if self.case.owner is Owner.LEADER else 1
        return [next(sides[(first + at) % 2]) for at in range(4)]

    def _prepare(self) -> None:
        verb = self.case.verb.single
        if verb is Verb.SEND:
            return
        count = 4 if verb is Verb.RECEIVE else 3
        self._send(range(count))
        timeout = 0 if verb is Verb.RECEIVE else TIMEOUT_SECONDS
        received = self._receive_all(count, timeout)
        self._queue.handles = [received[str(at)].receipt_handle for at in range(count)]
        if count == 3:
            self._send(range(3, 4))

    def _send(self, numbers: range) -> None:
        entries = [
            api.SendMessageBatchRequestEntry(
                f"e{at}", str(at), message_group_id=self._message_groups[at]
            )
            for at in numbers
        ]
        request = api.SendMessageBatchRequest(self._url, entries)
        self.world.call(self.world.leaders[0], "SendMessageBatch", request)

    def _receive_all(self, count: int, timeout: int) -> dict[str, api.Message]:
        received: dict[str, api.Message] = {}
        while len(received) < count:
            messages = self.world.receive(self.world.leaders[0], self._url, 10, timeout)
            received |= {message.body: message for message in messages}
        return received

    def _members(self) -> dict[str, Any]:
        verb, url = self.case.verb, {"QueueUrl": self._url}
        if verb is Verb.RECEIVE:
            wanted = {"MaxNumberOfMessages": 2, "VisibilityTimeout": TIMEOUT_SECONDS}
            return {**url, **wanted, "AttributeNames": ["All"]}
        if not verb.is_batch:
            return {**url, **self._entry(0)}
        return {**url, "Entries": [{"Id": f"e{at}", **self._entry(at)} for at in range(3)]}

    def _entry(self, at: int) -> dict[str, Any]:
        """The third is refused."""
        verb = self.case.verb.single
        if verb is Verb.SEND:
            body = self._bad_body() if at == 2 else "ab"[at] * GOOD
            group = self._message_groups[at]
            return {"MessageBody": body} | ({} if group is None else {"MessageGroupId": group})
        entry = {"ReceiptHandle": self._queue.handles[at] if at < 2 else "forged"}
        return entry | ({"VisibilityTimeout": 0} if verb is Verb.CHANGE else {})

    def _bad_body(self) -> str:
        """On a FIFO queue one that is too large would fail the batch as a whole."""
        return "c" * TOO_LARGE if self.case.kind is Kind.STANDARD else "c\x00"

    # --- the course of things ------------------------------------------------------------------

    def play(self) -> None:
        world, case = self.world, self.case
        world.hold_back()
        if self._is_ahead:
            for node in {1, *leaders_at_first(case.kind)}:
                world.hurry(node, AHEAD_MS)
        self._first = world.ask(self._owner, self._attempt(1))
        assert any(world.taken), "the first attempt is on its way"
        gates = world.nodes[self._owner].service.gates
        repeated = gates.repeated
        self._lose_answer()
        held = self._decide_fate()
        happening = self._queue.happen(case.event)
        if case.leader is Leader.SAME and not case.keeps_term:
            world.lead_as(leaders_at_first(case.kind))
        if case.event is Event.TIGHTEN:
            self._queue.use_up()
        self._gone = frozenset(self._queue.deleted)
        self._second = self._go_on()
        if case.keeps_term:
            world.commit()
        world.deliver_late(held)
        happening.go_on()
        assert happening.is_over, "the event never ended"
        assert (gates.repeated > repeated) == case.is_by_owner, "who repeats is as the case says"

    def _attempt(self, number: int) -> bytes:
        return posted(self.case.verb.value, self._members(), self._invocation, number)

    def _lose_answer(self) -> None:
        world, case = self.world, self.case
        is_before = case.loss is Loss.BEFORE
        if not case.is_by_owner:
            if is_before:
                self._first.close()
                world.settle()
            else:
                world.commit()
            return
        if not is_before:
            world.hold_answers(self._owner)
            if case.owner is Owner.LEADER:
                world.blind.add(self._owner)
            world.commit()
        world.mute(self._owner)
        world.cut_off(self._owner)

    def _decide_fate(self) -> Held:
        """What is left to be delivered late."""
        world, case = self.world, self.case
        held: Held = {}
        if not case.keeps_term:
            if case.fate is Fate.LATE:
                held = world.take_away()
            world.lead_as(leaders_then(case), survives=case.fate is Fate.LANDS)
            world.stuck.clear()
            world.blind.clear()
            world.settle()
        elif case.fate is Fate.LANDS:
            world.commit()
        return held

    def _go_on(self) -> Client:
        world, case = self.world, self.case
        if case.is_by_owner:
            world.unmute(self._owner)
            world.reconnect(self._owner)
            return self._first
        is_here = case.repeater is Repeater.CLIENT_HERE
        return world.ask(self._owner if is_here else 3 - self._owner, self._attempt(2))

    # --- afterwards ----------------------------------------------------------------------------

    def compare(self) -> list[str]:
        """What is not as it has to be."""
        if not self._second.is_answered:
            return ["no answer"]
        node = self.world.leaders[0]
        visible, in_flight, delayed = self.world.counts(node, self._url)
        self._note(delayed == 0, f"{delayed} delayed")
        seen = Outcome(self._told(), len(self._queue.got), visible, in_flight)
        self._note(seen in allowed(self.case), f"{seen} instead of {allowed(self.case)}")
        if self.case.event is Event.TIGHTEN:
            request = api.SetQueueAttributesRequest(self._url, NO_LIMIT)
            self.world.call(node, "SetQueueAttributes", request)
        left = self._left()
        if self.case.verb.single is Verb.SEND:
            self._compare_ids(left)
        if self.case.verb is Verb.RECEIVE:
            self._compare_received()
        self._use_handles(left)
        self._note(self.world.are_replicas_equal(), "the replicas differ")
        return self.complaints

    def _note(self, is_right: bool, complaint: str) -> None:
        if not is_right:
            self.complaints.append(complaint)

    def _told(self) -> Answer | None:
        status, answer = self._second.status, self._second.answer
        if status != 200:
            return NONE if status < 500 else None
        if self.case.verb is Verb.RECEIVE:
            return {0: NONE, 2: ALL}.get(len(answer.get("Messages", ())))
        if not self.case.verb.is_batch:
            return ALL
        good, bad = (
            {entry["Id"] for entry in answer.get(name) or ()} for name in ("Successful", "Failed")
        )
        assert good | bad == {"e0", "e1", "e2"} and not good & bad, "every entry has one result"
        told = {frozenset(("e0", "e1")): ALL, frozenset(("e1",)): OTHERS, frozenset(): NONE}
        return told.get(frozenset(good))

    def _left(self) -> list[api.Message]:
        left: list[api.Message] = []
        while messages := self.world.receive(self.world.leaders[0], self._url, 10, TIMEOUT_SECONDS):
            left += messages
        return left

    def _compare_ids(self, left: list[api.Message]) -> None:
        """Who sees a message sees the id that its sender was told."""
        answer = self._second.answer
        told = answer.get("Successful") or ([answer] if "MessageId" in answer else [])
        ids = {entry["MessageId"] for entry in told}
        seen = [message.message_id for message in (*self._queue.got, *left)]
        self._note(len(seen) == len(set(seen)), "a message is there twice")
        self._note(set(seen) <= ids, "a message has another id than its sender was told")

    def _compare_received(self) -> None:
        messages = self._second.answer.get("Messages", [])
        counts = [message["Attributes"]["ApproximateReceiveCount"] for message in messages]
        self._note(set(counts) <= {"2"}, f"received {counts} times")
        told = {message["Body"] for message in messages}
        self._note(told.isdisjoint(self._gone), "a message that was deleted before is told")
        is_known = self.case.loss is Loss.AFTER and not self.case.is_by_owner
        if is_known and messages and order_of(self.case) is Order.BEFORE:
            first = self._first.answer["Messages"]
            self._note(_by_id(messages) == _by_id(first), "other messages than before")

    def _use_handles(self, left: list[api.Message]) -> None:
        """Whoever received something can still delete it; then nothing is left."""
        delivered = [message.receipt_handle for message in left]
        if self.case.event is Event.RECEIVE:
            delivered += [message.receipt_handle for message in self._queue.got]
        answered = self._second.answer
        delivered += [message["ReceiptHandle"] for message in answered.get("Messages", ())]
        if delivered and not self._is_wiped_after():
            self._note(self._delete_all(delivered), "a handle is no longer good")
        if self._queue.handles:
            self._delete_all(self._queue.handles)
        counts = self.world.counts(self.world.leaders[0], self._url)
        self._note(counts == (0, 0, 0), f"{counts} are left when all is deleted")

    def _delete_all(self, handles: list[str]) -> bool:
        entries = [
            api.DeleteMessageBatchRequestEntry(f"e{at}", handle)
            for at, handle in enumerate(handles)
        ]
        request = api.DeleteMessageBatchRequest(self._url, entries)
        answer = self.world.call(self.world.leaders[0], "DeleteMessageBatch", request)
        return not answer.failed

    def _is_wiped_after(self) -> bool:
        """Whether what the call was told is gone with its queue."""
        is_late = self.case.fate is Fate.LATE and self.case.event is Event.RECREATE
        return is_late and self.case.verb is Verb.RECEIVE


def _by_id(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(messages, key=lambda message: str(message["MessageId"]))


def run_case(world: RetryWorld, case: Case, number: int, *, is_ahead: bool = False) -> list[str]:
    """What is not as it has to be. The world is then as it was, but for another queue. `is_ahead`:
    the clocks of the first leaders are, so that what they stamped late is no older than the rest.
    """
    run = Run(world, case, number, is_ahead=is_ahead)
    run.play()
    complaints = run.compare()
    if tuple(world.leaders) != leaders_at_first(case.kind):
        world.lead_as(leaders_at_first(case.kind))
    assert world.is_at_rest(), "something is still on its way"
    return complaints
