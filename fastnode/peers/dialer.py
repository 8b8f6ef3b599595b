"""Keeps one peer connected: dials it while there is no link, ever more slowly. Shell.

The first failure of each kind and the recovery are logged, not each try. Whether a link is wanted
and what becomes of a good handshake is decided in `peers.py`.
"""

import asyncio
import logging
from functools import partial
from typing import Final, NamedTuple, Protocol

from fastnode.clock import Rng
from fastnode.config import (
    PEER_DIAL_SECONDS_MAX,
    PEER_DIAL_SECONDS_MIN,
    PEER_HANDSHAKE_SECONDS,
    PEER_PING_SECONDS,
    PEER_SILENT_SECONDS,
)
from fastnode.peers.greeting import Greeting, OnEnd, TlsFailed
from fastnode.peers.handshake import Reason, Refused

_JITTER_STEPS: Final = 1024
_KINDS_LOGGED_MAX: Final = 16


class Timing(NamedTuple):
    """How long the links of a node wait for what."""

    handshake_seconds: float = PEER_HANDSHAKE_SECONDS
    ping_seconds: float = PEER_PING_SECONDS
    silent_seconds: float = PEER_SILENT_SECONDS
    dial_seconds_min: float = PEER_DIAL_SECONDS_MIN
    dial_seconds_max: float = PEER_DIAL_SECONDS_MAX


class Host(Protocol):
    """What a dialer needs of the node."""

    log: logging.Logger
    rng: Rng
    timing: Timing

    def is_linked(self, node_id: int) -> bool: ...

    def greet(self, expected_node: int | None, server_name: str, on_end: OnEnd) -> Greeting: ...

    def establish(self, greeting: Greeting) -> None: ...


class Dialer:
    """One address. Without a node id whoever answers there is welcome."""

    def __init__(self, host: Host, node_id: int | None, address: str) -> None:
        self.address: Final = address
        self._host = host
        self._expected = node_id
        self._node_id = node_id
        self._tries = 0
        self._logged: set[object] = set()
        self._link_ended = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def link_ended(self, node_id: int, seconds: float) -> None:
        """A link has ended that lasted so long: one that ends at once counts as a failure."""
        if node_id == self._node_id:
            if seconds > self._host.timing.dial_seconds_max:
                self._tries = 0
            self._link_ended.set()

    def stop(self) -> asyncio.Task[None]:
        """The task that is over soon."""
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        while True:
            self._link_ended.clear()
            if self._node_id is not None and self._host.is_linked(self._node_id):
                await self._link_ended.wait()
            else:
                problem = await self._dial()
                if problem is None:
                    self._recover()
                else:
                    self._fail(problem)
            await asyncio.sleep(self._pause_seconds())

    async def _dial(self) -> Exception | None:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Exception | None] = loop.create_future()

        def on_end(greeting: Greeting, problem: Exception | None) -> None:
            if ended.done():
                if problem is None:
                    greeting.transport.abort()
                return
            if problem is None or _is_linked_already(problem):
                self._note_node(greeting)
            if problem is None:
                self._host.establish(greeting)
            ended.set_result(problem)

        greeting: Greeting | None = None
        try:
            host, port = parse_address(self.address)
            greeting = self._host.greet(self._expected, host, on_end)
            async with asyncio.timeout(self._host.timing.handshake_seconds):
                await loop.create_connection(partial(_same, greeting), host, port)
            greeting.secure()
            return await ended
        # ValueError: an address that is none, or a name that no host can have.
        except (OSError, ValueError) as error:
            return error
        finally:
            ended.cancel()
            if greeting is not None:
                greeting.abort("this node stopped dialling")

    def _note_node(self, greeting: Greeting) -> None:
        if self._expected is None and greeting.handshake.claimed is not None:
            self._node_id = greeting.handshake.claimed.node_id

    def _pause_seconds(self) -> float:
        timing = self._host.timing
        doubled: float = timing.dial_seconds_min * (1 << min(self._tries, 16))
        longest = min(doubled, timing.dial_seconds_max)
        self._tries += 1
        return longest * (_JITTER_STEPS + self._host.rng.below(_JITTER_STEPS)) / _JITTER_STEPS / 2

    def _fail(self, problem: Exception) -> None:
        if _is_linked_already(problem):
            return
        kind: object = type(problem)
        if isinstance(problem, Refused):
            kind = problem.reason, problem.by_peer
        elif isinstance(problem, OSError):
            kind = type(problem), problem.errno
        elif isinstance(problem, TlsFailed):
            kind = str(problem)
        if kind in self._logged or len(self._logged) >= _KINDS_LOGGED_MAX:
            return
        self._logged.add(kind)
        why = str(problem) or type(problem).__name__
        if isinstance(problem, Refused):
            why = ("refused by the peer: " if problem.by_peer else "refused by this node: ") + why
        extra = {"node": self._node_id, "address": self.address, "why": why}
        self._host.log.warning("cannot link to peer; will keep trying", extra=extra)

    def _recover(self) -> None:
        if self._logged:
            extra = {"node": self._node_id, "address": self.address, "tries": self._tries + 1}
            self._host.log.info("linked to peer after failures", extra=extra)
        self._logged.clear()


def _same(greeting: Greeting) -> Greeting:
    return greeting


def _is_linked_already(problem: Exception) -> bool:
    return isinstance(problem, Refused) and problem.reason is Reason.ALREADY_LINKED


def parse_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ValueError("the address is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
