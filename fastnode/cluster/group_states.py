"""States of groups for a backup, wherever they are: on this node, or with a sibling worker of it.
Shell: links, threads.

Every member has every group, so a node needs nobody else's files. But what a state must hold is
what the group's leader has acknowledged, and letters between groups are held back by whoever leads
them.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from fastnode.cluster.bridge import as_future
from fastnode.cluster.call_codec import DONE, decode_error, encode_error
from fastnode.cluster.threads import in_thread
from fastnode.datadir import DataDir
from fastnode.errors import FastnodeError, OperationError, Unavailable
from fastnode.flow import Suspension
from fastnode.peers.calls import Caller, Handler, IncomingCall, ask
from fastnode.peers.handshake import Identity
from fastnode.queue.service import Service
from fastnode.store.checkpoint import take_checkpoint
from fastnode.store.engine import StateEngine
from fastnode.store.group import Group

# Services of a link, beside those in `courier.py` and `traffic.py`.
HOLD: Final = 6
CHECKPOINT: Final = 7
_ASK_SECONDS: Final = 2.0
_NS_PER_MS: Final = 1_000_000
_NUMBER_BYTES: Final = 4
log: Final = logging.getLogger("fastnode.backup")

# As `Courier.carry`.
Carry = Callable[[Group, int, bytes], Coroutine[Suspension, Any, tuple[int, bytes]]]


class GroupStates:
    """`engines` are those that are open here, by group; `links` those to the others that can be
    reached now. `services` is what this does for others.
    """

    def __init__(
        self,
        data: DataDir,
        service: Service,
        engines: Mapping[int, StateEngine],
        carry: Carry,
        links: Callable[[], Iterable[Caller]],
    ) -> None:
        self._data = data
        self._service = service
        self._engines = engines
        self._carry = carry
        self._links = links
        self._pool = ThreadPoolExecutor(1, "checkpoint")
        self._tasks: set[asyncio.Task[None]] = set()
        self.services: dict[int, Handler] = {HOLD: self._on_hold, CHECKPOINT: self._on_checkpoint}

    async def hold(self, milliseconds: int) -> int:
        """No letter between groups sets out for so long. How many are still under way, as far as
        one can hear.
        """
        own = self._service.outbox.hold(milliseconds * _NS_PER_MS)
        payload = milliseconds.to_bytes(_NUMBER_BYTES, "big")
        others = await asyncio.gather(*(_busy(link, payload) for link in self._links()))
        return own + sum(others)

    async def flush(self, group: int) -> None:
        """So that the checkpoint has little to do. Others flush their own."""
        if group in self._engines:
            await in_thread(self._pool, self._engines[group].flush)

    async def checkpoint(self, group: int) -> None:
        """Of all that was acknowledged before now."""
        if group not in self._engines:
            payload = group.to_bytes(_NUMBER_BYTES, "big")
            place = self._service.groups[group]
            status, answer = await as_future(self._carry(place, CHECKPOINT, payload))
            if status != DONE:
                raise decode_error(status, answer)
            return
        await as_future(self._service.readable(self._service.groups[group]))
        path = self._data.group_path(group)
        await in_thread(self._pool, take_checkpoint, self._engines[group], path)

    async def close(self) -> None:
        """Before the engines are closed."""
        await asyncio.gather(*self._tasks)
        self._pool.shutdown()

    def _on_hold(self, _peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
        milliseconds = int.from_bytes(payload, "big")
        busy = self._service.outbox.hold(milliseconds * _NS_PER_MS)
        incoming.answer(DONE, busy.to_bytes(_NUMBER_BYTES, "big"))

    def _on_checkpoint(self, _peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
        async def take() -> None:
            try:
                await self.checkpoint(int.from_bytes(payload, "big"))
            except FastnodeError as error:
                told = error if isinstance(error, OperationError) else Unavailable(str(error))
                incoming.answer(*encode_error(told))
            else:
                incoming.answer(DONE, b"")

        task = asyncio.get_running_loop().create_task(take())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _busy(link: Caller, payload: bytes) -> int:
    """Whoever does not answer is found out by what it does meanwhile."""
    try:
        status, answer = await ask(link, HOLD, payload, _ASK_SECONDS)
    except OperationError as error:
        log.info("a member holds no letters back: %s", error)
        return 0
    return int.from_bytes(answer, "big") if status == DONE else 0
