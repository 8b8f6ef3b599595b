"""What the clients of a simulation do: calls of all 23 actions in a random order, each told to the
model before it is made and judged by it when it is answered.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.model.queues import Kind, Model, QueueModel
from tests.model.receives import Asked, Receives
from tests.model.spans import Span, Violation
from tests.sim.administrator import Action, Administrator
from tests.sim.allowed import BAD_VALUE, About, no_partitions
from tests.sim.client import Answer, Client
from tests.sim.clockwork import Clockwork
from tests.sim.names import ACCOUNT, attributes_of, url_of

_COUNTS: Final = tuple(
    f"ApproximateNumberOfMessages{name}" for name in ("", "NotVisible", "Delayed")
)


class Taken(NamedTuple):
    """A message that a client has."""

    queue: QueueModel
    token: str
    handle: str


# Something that is done so many times as often as usual, in this run.
Often = Mapping[str, int]


class Worker(Administrator):
    """One client at work."""

    def __init__(
        self, work: Clockwork, model: Model, client: Client, often: Often, pause_ms: float
    ) -> None:
        super().__init__(work, model, client)
        self._receives = Receives(model)
        self._pause_ms = pause_ms
        self.queues: Sequence[str] = ()
        self._weights = [weight * often.get(name, 1) for name, weight in ACTIONS]
        self._taken: list[Taken] = []
        self._count = 0
        self.on_done: Callable[[], None] = lambda: None

    # --- the loop -------------------------------------------------------------------------------

    async def run(self, until_ns: int) -> None:
        while self._work.now_ns < until_ns:
            await asyncio.sleep(self._random.expovariate(1.0) * self._pause_ms / 1000)
            action = self._choose_action()
            await action(self.model.queues[self._random.choice(self.queues)])
        self.on_done()

    def _choose_action(self) -> Action:
        (name,) = self._random.choices([name for name, _ in ACTIONS], self._weights)
        action: Action = getattr(self, name)
        return action

    # --- messages -------------------------------------------------------------------------------

    def _new_entry(self, queue: QueueModel) -> tuple[str, Span, dict[str, Any]]:
        self._count += 1
        token = f"{self._client.name}-{self._count}"
        entry: dict[str, Any] = {"MessageBody": f"{token} {'x' * self._random.randrange(200)}"}
        group, delay = "", None
        if queue.kind.is_fifo:
            group = entry["MessageGroupId"] = f"g{self._random.randrange(4)}"
            entry["MessageDeduplicationId"] = token
        elif self._random.randrange(6) == 0:
            delay = entry["DelaySeconds"] = self._random.randrange(4)
        span = self.model.begin_send(queue.name, token, self._now, group=group, delay_seconds=delay)
        return token, span, entry

    async def send(self, queue: QueueModel) -> None:
        token, span, entry = self._new_entry(queue)
        if not queue.kind.is_fifo or queue.wipes or self._random.randrange(3):
            await self._send(queue, token, span, entry)
            return
        # An application that sends once more under the same deduplication id, perhaps at once.
        other = self.model.begin_send(queue.name, token, self._now)
        both = self._send(queue, token, span, entry), self._send(queue, token, other, entry)
        is_in_turn = self._random.randrange(2) == 0
        await asyncio.gather(*(() if is_in_turn else both))
        for one in both if is_in_turn else ():
            await one

    async def _send(self, queue: QueueModel, token: str, span: Span, entry: dict[str, Any]) -> None:
        request = {"QueueUrl": url_of(queue.name), **entry}
        answer = await self.call("SendMessage", About(queue), [span], **request)
        told = answer.body
        self._doubt([token], answer)
        if not answer.code:
            self.model.sent(token, span, self._now, told["MessageId"], told.get("SequenceNumber"))
        elif not answer.is_unknown:
            span.fail()

    def _doubt(self, tokens: Iterable[str], answer: Answer) -> None:
        if self._may_be_forgotten(answer):
            for token in tokens:
                self.model.doubt(token)

    def _may_be_forgotten(self, answer: Answer) -> bool:
        """An earlier attempt may have had its effect, and the last one is another call."""
        return answer.attempts > 1 and self.model.may_forget_retries()

    async def send_batch(self, queue: QueueModel) -> None:
        drafts = [self._new_entry(queue) for _ in range(self._random.randrange(1, 5))]
        entries = [{"Id": token, **entry} for token, _, entry in drafts]
        spans, url = [span for _, span, _ in drafts], url_of(queue.name)
        answer = await self.call(
            "SendMessageBatch", About(queue), spans, QueueUrl=url, Entries=entries
        )
        stored = {one["Id"]: one for one in answer.body.get("Successful", ())}
        self._doubt([token for token, _, _ in drafts], answer)
        for token, span, _ in drafts:
            if token in stored:
                one = stored[token]
                told = one["MessageId"], one.get("SequenceNumber")
                self.model.sent(token, span, self._now, *told)
            elif not answer.is_unknown:
                span.fail()

    async def receive(self, queue: QueueModel) -> None:
        limit, waited = self._random.randrange(1, 11), self._random.choice((0, 0, 1, 3))
        seconds = self._random.choice((None, None, 1, 3, 6))
        await self.take(queue, limit, waited, seconds)

    async def take(
        self, queue: QueueModel, limit: int, waited: int, seconds: int | None
    ) -> list[Taken]:
        hidden = queue.kind.visibility_seconds if seconds is None else seconds
        span = self._receives.begin(queue.name, self._now, hidden)
        request: dict[str, Any] = {"MaxNumberOfMessages": limit, "WaitTimeSeconds": waited}
        if seconds is not None:
            request["VisibilityTimeout"] = seconds
        answer = await self.call(
            "ReceiveMessage",
            About(queue),
            QueueUrl=url_of(queue.name),
            MessageSystemAttributeNames=["All"],
            **request,
        )
        if answer.code:
            if not answer.is_unknown:
                span.fail()
            return []
        answers = answer.body.get("Messages", [])
        asked = Asked(limit, hidden, waited, answer.attempts, answer.tried_ns)
        self._receives.ended(queue.name, span, self._now, answers, asked)
        taken = [
            Taken(queue, one["Body"].partition(" ")[0], one["ReceiptHandle"]) for one in answers
        ]
        self._taken += taken
        return taken

    def _choose(self, count: int) -> list[Taken]:
        """Messages of one queue that this client has; it may keep on using their handles."""
        if not self._taken:
            return []
        first = self._random.choice(self._taken)
        some = [one for one in self._taken if one.queue is first.queue and one is not first]
        return [first, *some[: count - 1]]

    async def delete(self, _queue: QueueModel) -> None:
        for one in self._choose(1):
            await self.remove(one)

    async def remove(self, one: Taken) -> bool:
        span = self.model.begin_delete(one.queue.name, one.handle, self._now)
        about = About(one.queue, *((BAD_VALUE,) if one.queue.kind.is_fifo else ()))
        answer = await self.call(
            "DeleteMessage", about, QueueUrl=url_of(one.queue.name), ReceiptHandle=one.handle
        )
        self._settle(span, answer)
        if answer.code == "":
            self._taken = [other for other in self._taken if other is not one]
        return answer.code == ""

    async def delete_batch(self, _queue: QueueModel) -> None:
        chosen = self._choose(4)
        if not chosen:
            return
        name = chosen[0].queue.name
        spans = [self.model.begin_delete(name, one.handle, self._now) for one in chosen]
        entries = [{"Id": str(at), "ReceiptHandle": one.handle} for at, one in enumerate(chosen)]
        about, url = About(chosen[0].queue), url_of(name)
        answer = await self.call("DeleteMessageBatch", about, QueueUrl=url, Entries=entries)
        self._settle_batch(spans, answer)

    def _settle_batch(self, spans: Sequence[Span], answer: Answer) -> None:
        done = {one["Id"] for one in answer.body.get("Successful", ())}
        for at, span in enumerate(spans):
            if str(at) in done:
                span.succeed(self._now)
            elif not answer.is_unknown and not self._may_be_forgotten(answer):
                span.fail()

    async def change(self, _queue: QueueModel) -> None:
        for one in self._choose(1):
            span = self.model.begin_change(one.handle, self._now)
            answer = await self.call(
                "ChangeMessageVisibility",
                About(one.queue, BAD_VALUE),
                QueueUrl=url_of(one.queue.name),
                ReceiptHandle=one.handle,
                VisibilityTimeout=self._random.choice((0, 0, 2, 5)),
            )
            self._settle(span, answer)

    async def change_batch(self, _queue: QueueModel) -> None:
        chosen = self._choose(3)
        if not chosen:
            return
        spans = [self.model.begin_change(one.handle, self._now) for one in chosen]
        seconds = self._random.choice((0, 3))
        entries = [
            {"Id": str(at), "ReceiptHandle": one.handle, "VisibilityTimeout": seconds}
            for at, one in enumerate(chosen)
        ]
        answer = await self.call(
            "ChangeMessageVisibilityBatch",
            About(chosen[0].queue),
            QueueUrl=url_of(chosen[0].queue.name),
            Entries=entries,
        )
        self._settle_batch(spans, answer)

    # --- queues ---------------------------------------------------------------------------------

    async def count(self, queue: QueueModel) -> None:
        began, url, names = self._now, url_of(queue.name), list(_COUNTS)
        about = About(queue)
        answer = await self.call("GetQueueAttributes", about, QueueUrl=url, AttributeNames=names)
        if not answer.code:
            shown = sum(int(answer.body["Attributes"][name]) for name in _COUNTS)
            self.model.check_count(queue.name, began, self._now, shown)

    async def is_empty(self, queue: QueueModel) -> bool:
        answer = await self.call(
            "GetQueueAttributes", (), QueueUrl=url_of(queue.name), AttributeNames=list(_COUNTS)
        )
        shown = answer.body.get("Attributes", {})
        return not answer.code and all(shown[name] == "0" for name in _COUNTS)

    async def purge(self, queue: QueueModel) -> None:
        span = self.model.begin_wipe(queue.name, self._now)
        answer = await self.call("PurgeQueue", About(queue), QueueUrl=url_of(queue.name))
        self._settle_wipe(queue, span, answer)

    def _settle_wipe(self, queue: QueueModel, span: Span, answer: Answer) -> None:
        """Nobody knows such a call when it is repeated: what was left comes late, and does it once
        more.
        """
        self._settle(span, answer)
        if answer.attempts > 1:
            self.model.begin_wipe(queue.name, self._now)

    async def recreate(self, queue: QueueModel) -> None:
        if len(queue.family) > 1:
            return
        span = self.model.begin_wipe(queue.name, self._now)
        answer = await self.call("DeleteQueue", About(queue), QueueUrl=url_of(queue.name))
        if queue.kind.partitions == 1:
            self._settle_wipe(queue, span, answer)
        await self.create(queue, "", no_partitions(queue))
        if queue.kind.partitions > 1:
            # Its partitions may take messages that go with it until it is made anew.
            self._settle_wipe(queue, span, answer)

    async def create(
        self, queue: QueueModel, dead_letters: str, allowed: Sequence[str] = ()
    ) -> bool:
        answer = await self.call(
            "CreateQueue",
            ("QueueNameExists", "QueueDeletedRecently", *allowed),
            QueueName=queue.name,
            Attributes=attributes_of(queue.kind, dead_letters),
        )
        if not answer.code and not answer.body["QueueUrl"].endswith(f"/{ACCOUNT}/{queue.name}"):
            raise Violation(f"{queue.name} is created as {answer.body['QueueUrl']}")
        return answer.code not in allowed


# How often what is done, in relation to each other.
ACTIONS: Final = (
    ("send", 30),
    ("send_batch", 8),
    ("receive", 30),
    ("delete", 18),
    ("delete_batch", 4),
    ("change", 4),
    ("change_batch", 2),
    ("count", 4),
    ("purge", 0.4),
    ("recreate", 0.3),
    ("look", 2),
    ("administer", 1.5),
    ("redrive", 0.7),
)


class Changer(Worker):
    """Somebody who changes what is told of queues, all the time and at one node."""

    def _choose_action(self) -> Action:
        return self._random.choice((self.retag, self.retain, self.untag))

    async def retag(self, queue: QueueModel) -> None:
        self._count += 1
        await self.tag(queue, f"{self._client.name}-{self._count}")


class Reader(Worker):
    """Somebody who is told it, all the time and by one node."""

    def _choose_action(self) -> Action:
        return self._random.choice((self.look_at_tags, self.look_at_retention))


class Maker(Worker):
    """Somebody who makes queues at one node. Nobody deletes them."""

    def _choose_action(self) -> Action:
        return self.make

    async def make(self, _queue: QueueModel) -> None:
        self._count += 1
        made = QueueModel(f"n{self._client.name[-1]}-{self._count}", Kind())
        if not (await self.call("CreateQueue", (), QueueName=made.name)).code:
            self.model.made.append(made)


class Finder(Reader):
    """Somebody who asks one node for them, as soon as they are there."""

    def _choose_action(self) -> Action:
        look = super()._choose_action()

        async def find(queue: QueueModel) -> None:
            await look(self._random.choice(self.model.made[-4:] or [queue]))

        return find
