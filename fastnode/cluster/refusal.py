"""A node without a capability hands on the lead of the groups that need it.

For nodes that run without `htfifo` only: in a rolling upgrade they are voters as before, but what
leads a group with partitions must know them. What follows from an attempt is decided by `judge`;
the rest is the shell that attempts. Whether somebody else can lead is the business of `transfer`.
"""

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from fastnode.config import TRANSFER_RETRY_SECONDS
from fastnode.errors import Busy, OperationError


class LedGroup(Protocol):
    number: int

    @property
    def leads(self) -> bool: ...

    @property
    def is_ready(self) -> bool: ...

    def observe_leading(self, observer: Callable[[], None]) -> Callable[[], None]: ...


class Verdict(enum.Enum):
    """What an attempt has led to."""

    GONE = enum.auto()
    AGAIN = enum.auto()
    STUCK = enum.auto()


def judge(error: OperationError | None, *, leads: bool) -> Verdict:
    """A transfer that began may come to nothing, so it counts only when the lead is gone."""
    if not leads:
        return Verdict.GONE
    is_passing = error is None or isinstance(error, Busy)
    return Verdict.AGAIN if is_passing else Verdict.STUCK


async def _pause() -> None:
    await asyncio.sleep(TRANSFER_RETRY_SECONDS)


class LeadershipRefusal:
    """`holds_partitions` is asked when the group's state is complete. `transfer` begins to move the
    lead to another voter, or raises an `OperationError`.
    """

    def __init__(
        self,
        groups: Sequence[LedGroup],
        holds_partitions: Callable[[int], bool],
        transfer: Callable[[int], Awaitable[None]],
        log: logging.Logger,
        *,
        pause: Callable[[], Awaitable[None]] = _pause,
    ) -> None:
        self._groups = groups
        self._holds_partitions = holds_partitions
        self._transfer = transfer
        self._log = log
        self._pause = pause
        self._refusing: dict[int, asyncio.Task[None]] = {}
        self._deregister: list[Callable[[], None]] = []

    def install(self) -> None:
        for group in self._groups:
            self._deregister.append(group.observe_leading(partial(self._refuse, group)))
            # After registering: a lead that was taken before it, or meanwhile, is found here.
            self._refuse(group)

    def remove(self) -> None:
        for deregister in self._deregister:
            deregister()
        self._deregister.clear()
        for task in self._refusing.values():
            task.cancel()

    def _refuse(self, group: LedGroup) -> None:
        """In the background: who tells of a lead is in the middle of a turn."""
        running = self._refusing.get(group.number)
        if group.leads and (running is None or running.done()):
            handing_on = self._hand_on(group)
            self._refusing[group.number] = asyncio.get_running_loop().create_task(handing_on)

    async def _hand_on(self, group: LedGroup) -> None:
        while group.leads and not group.is_ready:
            # Until its state is complete a leader does not know its queues, and serves none.
            await self._pause()
        if not (group.leads and self._holds_partitions(group.number)):
            return
        self._log.info("handing on a group with partitions", extra={"group": group.number})
        while (verdict := await self._attempt(group)) is Verdict.AGAIN:
            await self._pause()
        if verdict is Verdict.GONE:
            self._log.info("handed on a group with partitions", extra={"group": group.number})

    async def _attempt(self, group: LedGroup) -> Verdict:
        error: OperationError | None = None
        try:
            await self._transfer(group.number)
        except OperationError as refusal:
            error = refusal
        verdict = judge(error, leads=group.leads)
        if verdict is Verdict.STUCK:
            # Going on is the lesser evil: a group without a leader serves none of its queues.
            fields = {"group": group.number, "reason": str(error)}
            self._log.warning("leading a group with partitions without htfifo", extra=fields)
        return verdict
