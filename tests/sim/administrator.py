"""A client that calls and is judged, and what it does with queues as such: look at them, change
what is told of them, move their messages.
"""

from collections.abc import Awaitable, Callable, Container, Sequence
from random import Random
from typing import Any, Final

from tests.model.queues import Model, QueueModel
from tests.model.registers import Register
from tests.model.spans import Span, Violation
from tests.sim.allowed import BAD_VALUE, About
from tests.sim.client import Answer, Client
from tests.sim.clockwork import Clockwork
from tests.sim.names import ACCOUNT, arn_of, url_of

RETENTION: Final = "MessageRetentionPeriod"
Action = Callable[[QueueModel], Awaitable[None]]


class Administrator:
    def __init__(self, work: Clockwork, model: Model, client: Client) -> None:
        self._work = work
        self.model = model
        self._client = client
        self._random: Random = client.random
        self.calls = 0

    async def call(
        self, action: str, allowed: Container[str] = (), sends: Sequence[Span] = (), **request: Any
    ) -> Answer:
        self.calls += 1
        self._work.note(f"{self._client.name} {action} {request}")
        answer = await self._client.call(action, request, sends)
        self._work.note(f"{self._client.name} {action} -> {answer}")
        if answer.code and not answer.is_unknown and answer.code not in allowed:
            raise Violation(f"{action} {request} is answered {answer.code}: {answer.text}")
        return answer

    @property
    def _now(self) -> int:
        return self._work.now_ns

    def _settle(self, span: Span, answer: Answer) -> None:
        """Refused later may mean that an earlier attempt had its effect."""
        if not answer.code:
            span.succeed(self._now)
        elif not answer.is_unknown and answer.attempts == 1:
            span.fail()

    # --- looking --------------------------------------------------------------------------------

    async def look(self, queue: QueueModel) -> None:
        """Answers that only look, of one kind or another."""
        url, kind = url_of(queue.name), self._random.randrange(4)
        if kind == 0:
            answer = await self.call("ListQueues", (), QueueNamePrefix=queue.name)
            if not answer.code:
                self.model.check_names(queue.name, answer.body.get("QueueUrls", ()))
        elif kind == 1:
            await self.call("GetQueueUrl", About(queue), QueueName=queue.name)
        elif kind == 2:
            await self.look_at_tags(queue)
        else:
            await self.call("ListDeadLetterSourceQueues", About(queue), QueueUrl=url)

    async def look_at_tags(self, queue: QueueModel) -> None:
        answer = await self.call("ListQueueTags", About(queue), QueueUrl=url_of(queue.name))
        if not answer.code:
            told = answer.body.get("Tags", {}).get("a", "")
            self._check(queue, queue.tag, answer, told)

    async def look_at_retention(self, queue: QueueModel) -> None:
        about, url, names = About(queue), url_of(queue.name), [RETENTION]
        answer = await self.call("GetQueueAttributes", about, QueueUrl=url, AttributeNames=names)
        if not answer.code:
            told = answer.body["Attributes"][RETENTION]
            self._check(queue, queue.retention, answer, told)

    def _check(self, queue: QueueModel, register: Register, answer: Answer, told: str) -> None:
        """A look changes nothing: only the attempt that was answered counts."""
        register.check(answer.tried_ns, self._now, told, may_be_new=bool(queue.wipes))

    # --- changing -------------------------------------------------------------------------------

    async def administer(self, queue: QueueModel) -> None:
        kind = self._random.randrange(5)
        if kind < 3:
            changes: Sequence[Action] = self.tag, self.untag, self.retain
            await changes[kind](queue)
        elif kind == 3:
            await self.call(
                "AddPermission",
                About(queue, BAD_VALUE, "OverLimit"),
                QueueUrl=url_of(queue.name),
                Label="all",
                AWSAccountIds=[ACCOUNT],
                Actions=["SendMessage"],
            )
        else:
            about, url = About(queue, BAD_VALUE), url_of(queue.name)
            await self.call("RemovePermission", about, QueueUrl=url, Label="all")

    async def tag(self, queue: QueueModel, value: str = "b") -> None:
        await self._change(queue, queue.tag, value, "TagQueue", Tags={"a": value})

    async def untag(self, queue: QueueModel) -> None:
        await self._change(queue, queue.tag, "", "UntagQueue", TagKeys=["a"])

    async def retain(self, queue: QueueModel) -> None:
        value = str(self._random.randrange(600, 1_000))
        period = {RETENTION: value}
        await self._change(queue, queue.retention, value, "SetQueueAttributes", Attributes=period)

    async def _change(
        self, queue: QueueModel, register: Register, value: str, action: str, **request: Any
    ) -> None:
        """Nobody knows such a call when it is repeated: what was left comes late, and does it once
        more.
        """
        span = register.begin_change(value, self._now)
        answer = await self.call(action, About(queue), QueueUrl=url_of(queue.name), **request)
        self._settle(span, answer)
        if answer.attempts > 1:
            register.begin_change(value, self._now)

    async def redrive(self, queue: QueueModel) -> None:
        dead = next((one for one in queue.family if one.kind.source), None)
        if dead is None:
            return
        allowed = About(dead, BAD_VALUE, "ResourceNotFoundException", "UnsupportedOperation")
        self.model.begin_move(dead.name)
        answer = await self.call("StartMessageMoveTask", allowed, SourceArn=arn_of(dead.name))
        await self.call("ListMessageMoveTasks", allowed, SourceArn=arn_of(dead.name))
        if not answer.code and self._random.randrange(3) == 0:
            handle = answer.body["TaskHandle"]
            await self.call("CancelMessageMoveTask", allowed, TaskHandle=handle)
