"""What the driver does with queues before and after a run: creates them, finds them empty, counts.

Everything that cannot be is a LoadError in words that say what to do about it.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from spark_load.errors import LoadError
from spark_load.replay.answers import parse
from spark_load.replay.attempts import RetryPolicy
from spark_load.replay.caller import Call, Caller
from spark_load.replay.clock import LaneClock
from spark_load.replay.drain import read_counters
from spark_load.replay.plan import Plan, Settings
from spark_load.replay.requests import QueueTarget
from spark_load.replay.tally import Tally
from spark_load.schema import CALL_COLUMNS, Queue

# A driver's lane, which no task has: invocations differ by it.
DRIVER_LANE: Final = 0xFFFF
# While it waits, somebody looks at a terminal.
PATIENCE: Final = RetryPolicy(attempts=3, pause_ms=200)
CALL_SECONDS: Final = 10.0
CREDENTIAL_ERRORS: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "InvalidClientTokenId",
        "MissingAuthenticationToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
ERROR_COLUMN: Final = [column.name for column in CALL_COLUMNS].index("error")

Result = TypeVar("Result")


def prepare(plan: Plan, run: str, prefix: str) -> dict[str, QueueTarget]:
    """Creates the queues of the trace where they are missing; all must be empty."""
    return _with_control(plan.settings, run, lambda control: control.prepare(plan, prefix))


def count(
    settings: Settings, run: str, targets: Mapping[str, QueueTarget]
) -> dict[str, dict[str, int]]:
    """The counters of the queues; of those that could not be asked, none."""
    return _with_control(settings, run, lambda control: control.count(targets))


def _with_control(
    settings: Settings, run: str, work: "Callable[[Control], Awaitable[Result]]"
) -> Result:
    async def main() -> Result:
        control = Control(settings, run)
        async with control.caller:
            return await work(control)

    return asyncio.run(main())


class Control:
    """The driver's calls."""

    def __init__(self, settings: Settings, run: str) -> None:
        self._run = run
        self._error: str | None = None
        self.caller = Caller(_patient(settings), DRIVER_LANE, run, LaneClock(), self, Tally())

    def add(self, row: tuple[Any, ...]) -> None:
        """Takes the row of an attempt, as a recorder does, for the reason of a failure."""
        self._error = row[ERROR_COLUMN]

    async def prepare(self, plan: Plan, prefix: str) -> dict[str, QueueTarget]:
        await self._call("ListQueues", {"MaxResults": 1})
        targets: dict[str, QueueTarget] = {}
        for queue in dead_letters_first(plan.trace.queues):
            targets[queue.name] = await self._create(queue, prefix, targets)
        for target in targets.values():
            await self._demand_empty(target)
        return targets

    async def count(self, targets: Mapping[str, QueueTarget]) -> dict[str, dict[str, int]]:
        counted = {name: await read_counters(self.caller, targets[name]) for name in targets}
        return {name: dict(counters) for name, counters in counted.items() if counters is not None}

    async def _create(
        self, queue: Queue, prefix: str, targets: Mapping[str, QueueTarget]
    ) -> QueueTarget:
        attributes = dict(queue.attributes)
        if queue.is_fifo:
            attributes.setdefault("FifoQueue", "true")
        if queue.dead_letter is not None:
            arn = await self._arn(targets[queue.dead_letter])
            policy = {"deadLetterTargetArn": arn, "maxReceiveCount": queue.max_receives or 1}
            attributes["RedrivePolicy"] = json.dumps(policy)
        members = {"QueueName": prefix + queue.name, "Attributes": attributes}
        answer = await self._call("CreateQueue", members)
        return QueueTarget(queue.name, answer["QueueUrl"], self._run)

    async def _arn(self, target: QueueTarget) -> str:
        members = {"QueueUrl": target.url, "AttributeNames": ["QueueArn"]}
        answer = await self._call("GetQueueAttributes", members)
        return str(answer["Attributes"]["QueueArn"])

    async def _demand_empty(self, target: QueueTarget) -> None:
        counters = await read_counters(self.caller, target)
        held = sum((counters or {}).values())
        if held:
            raise LoadError(
                f"queue {target.name} holds {held} messages that this run would not know: purge "
                "it, or choose other queues with --prefix"
            )

    async def _call(self, action: str, members: Mapping[str, object]) -> Any:
        body = json.dumps(members).encode()
        call = await self.caller.perform("control", action, "", body)
        if call.outcome != "ok":
            raise LoadError(self._explain(call, action))
        return parse(call.answer) if call.answer else {}

    def _explain(self, call: Call, action: str) -> str:
        endpoint, error = call.pool.url, self._error or call.outcome
        if call.outcome == "unsent":
            return f"{endpoint} cannot be reached: {error}"
        if error in CREDENTIAL_ERRORS:
            return f"{endpoint} refuses the credentials: {error}; check AWS_ACCESS_KEY_ID and " + (
                "AWS_SECRET_ACCESS_KEY"
            )
        return f"{endpoint} does not do {action}: {error}"


def dead_letters_first(queues: tuple[Queue, ...]) -> Iterator[Queue]:
    """Every queue after the one that its dead letters go to."""
    names = {queue.name for queue in queues}
    done: set[str] = set()
    left = list(queues)
    while left:
        ready = [queue for queue in left if queue.dead_letter is None or queue.dead_letter in done]
        if not ready:
            missing = ", ".join(sorted({str(queue.dead_letter) for queue in left} - names))
            raise LoadError(f"dead-letter queues are missing or form a circle: {missing}")
        yield from ready
        done.update(queue.name for queue in ready)
        left = [queue for queue in left if queue.name not in done]


def _patient(settings: Settings) -> Settings:
    return replace(settings, retries=PATIENCE, call_seconds=CALL_SECONDS)
