"""Consumers: receive, extend or forget some, think, delete as the trace says, until all is drained.

A closed loop each, as real consumers are. Who fails and who extends follows from a hash of message
and delivery, so a run can be repeated.
"""

import asyncio
import zlib
from collections.abc import Sequence
from typing import Final

from spark_load.replay.answers import held_row
from spark_load.replay.caller import Call, Caller
from spark_load.replay.drain import Drain
from spark_load.replay.plan import ConsumerSpec
from spark_load.replay.requests import (
    Held,
    QueueTarget,
    delete_batch_body,
    delete_body,
    extend_body,
    receive_body,
)

# After a receive that brought nothing without having waited, or that failed.
EMPTY_SECONDS: Final = 0.05
FAILED_SECONDS: Final = 0.5


class Consumer:
    """One consumer of one queue."""

    def __init__(
        self, spec: ConsumerSpec, target: QueueTarget, caller: Caller, drain: Drain
    ) -> None:
        self._behaviour = spec.behaviour
        self._target = target
        self._caller = caller
        self._drain = drain

    async def run(self) -> None:
        while not self._drain.is_over:
            call = await self._receive()
            if call.held:
                await self._handle(call.held)
            elif call.outcome != "ok":
                await asyncio.sleep(FAILED_SECONDS)
            elif not self._behaviour.wait_seconds:
                await asyncio.sleep(EMPTY_SECONDS)

    async def _receive(self) -> Call:
        behaviour = self._behaviour
        wait_seconds = min(behaviour.wait_seconds, self._drain.wait_seconds_max)
        body = receive_body(
            self._target.url,
            messages=behaviour.max_messages,
            wait_seconds=wait_seconds,
            visibility=behaviour.visibility_seconds,
        )
        return await self._caller.perform(
            "consumer",
            "ReceiveMessage",
            self._target.name,
            body,
            visibility=behaviour.visibility_seconds,
            wait_seconds=wait_seconds,
        )

    async def _handle(self, messages: Sequence[Held]) -> None:
        behaviour = self._behaviour
        for held in messages:
            if is_chosen(held, "extend", behaviour.extend_share):
                await self._extend(held)
        if behaviour.think_ms:
            await asyncio.sleep(behaviour.think_ms / 1_000)
        done = [held for held in messages if not is_chosen(held, "fail", behaviour.failure_share)]
        if behaviour.delete == "single":
            for held in done:
                await self._delete("DeleteMessage", delete_body(self._target.url, held), [held])
        elif done:
            await self._delete(
                "DeleteMessageBatch", delete_batch_body(self._target.url, done), done
            )

    async def _extend(self, held: Held) -> None:
        visibility = self._behaviour.visibility_seconds
        await self._caller.perform(
            "consumer",
            "ChangeMessageVisibility",
            self._target.name,
            extend_body(self._target.url, held, visibility),
            messages=[held_row(held, "unknown")],
            visibility=visibility,
        )

    async def _delete(self, action: str, body: bytes, messages: Sequence[Held]) -> None:
        rows = [held_row(held, "unknown") for held in messages]
        await self._caller.perform("consumer", action, self._target.name, body, messages=rows)


def is_chosen(held: Held, what: str, share: float) -> bool:
    """Whether this delivery is one of the share."""
    text = f"{what}/{held.key or held.message_id}/{held.receives}"
    return zlib.crc32(text.encode()) < share * 2**32
