"""The process that starts workers, starts them again when they end, and stops them. Shell.

It holds the data directory, and its workers hold the same lock: so no other node comes in before
the last of them has ended. It keeps the listening addresses too, for a worker that starts anew.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from fastnode.datadir import DataDir
from fastnode.errors import FastnodeError, StartError, UsageError
from fastnode.option_values import Address
from fastnode.reload import read_again, taken_over
from fastnode.settings import Settings
from fastnode.workers.backoff import BackOff, end_text
from fastnode.workers.control import (
    Begin,
    Control,
    Drain,
    Drained,
    Failed,
    Ready,
    Stop,
    open_control,
)

# How long workers may take to answer what they took, and to end; together below ten seconds.
DRAIN_SECONDS: Final = 8.5
STOP_SECONDS: Final = 1.2
log: Final = logging.getLogger("fastnode")


async def supervise(
    settings: Settings, data: DataDir, workers: int, *, on_ready: Callable[[str, str], None]
) -> None:
    """Run a node of several workers until SIGTERM or SIGINT; `StartError` or `UsageError` if it
    cannot start. The directory is laid out for them.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    data.mark_started()
    with _reserved(settings.listen, "--listen") as listen:
        with _reserved(settings.admin, "--admin") as admin:
            bound = replace(settings, listen=listen, admin=admin, workers=workers)
            await _Supervisor(bound, data, stopping).run(on_ready)


class _Supervisor:
    def __init__(self, settings: Settings, data: DataDir, stopping: asyncio.Event) -> None:
        self._settings = settings
        self._data = data
        self._stopping = stopping
        self._children: dict[int, _Child] = {}
        self._is_serving = False
        new_future = asyncio.get_running_loop().create_future
        self._first_ready: list[asyncio.Future[Ready]] = [
            new_future() for _ in range(settings.workers)
        ]

    async def run(self, on_ready: Callable[[str, str], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        keepers = [loop.create_task(self._keep(one)) for one in range(self._settings.workers)]
        stopping = loop.create_task(self._stopping.wait())
        starting = loop.create_task(self._all_ready())
        try:
            await asyncio.wait([*keepers, starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                self._is_serving = True
                on_ready(*starting.result())
            await asyncio.wait([*keepers, stopping], return_when=asyncio.FIRST_COMPLETED)
            for keeper in keepers:
                if keeper.done():
                    await keeper
        finally:
            self._stopping.set()
            starting.cancel()
            await self._stop(keepers)

    async def _all_ready(self) -> tuple[str, str]:
        """The addresses, when the first start of every worker is through."""
        first, *_ = await asyncio.gather(*self._first_ready)
        return first.sqs_url, first.admin_url

    def _hear_ready(self, worker: int, ready: Ready) -> None:
        if not self._first_ready[worker].done():
            self._first_ready[worker].set_result(ready)
        elif self._is_serving:
            log.info("a worker serves again", extra={"worker": worker})

    async def _keep(self, worker: int) -> None:
        """Until the node stops. A worker that cannot start at all ends the node."""
        loop, back_off = asyncio.get_running_loop(), BackOff()
        while not self._stopping.is_set():
            began = loop.time()
            child = self._children[worker] = _Child(partial(self._hear_ready, worker))
            end = await self._end_of(child, worker)
            if self._stopping.is_set():
                return
            if not self._is_serving:
                raise child.failure or StartError(f"worker {worker} ended: {end}")
            seconds = back_off.after(loop.time() - began)
            fields = {"worker": worker, "pid": child.pid, "end": end}
            why = {"why": str(child.failure)} if child.failure else {}
            log.error(
                "a worker has ended and is started again",
                extra=fields | why | {"wait_seconds": seconds},
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _end_of(self, child: "_Child", worker: int) -> str:
        """Run it; how it ended."""
        data = self._data
        begin = Begin(self._settings, worker, str(data.path), data.lock_descriptor)
        try:
            return end_text(await child.run(begin))
        except OSError as error:
            return f"not started: {error}"

    def _reload(self) -> None:
        """Each worker reads the file by itself. One that is only starting would die of the signal;
        it begins with what is read here.
        """
        found = read_again(self._settings)
        if found is not None:
            self._settings = taken_over(self._settings, found)
        for child in self._children.values():
            if child.is_serving:
                child.signal(signal.SIGHUP)

    async def _stop(self, keepers: list[asyncio.Task[None]]) -> None:
        """Calls that a worker has taken may need its siblings, so none ends before all are
        answered.
        """
        log.info("stopping")
        for child in self._children.values():
            if self._is_serving:
                child.say(Drain())
            else:
                child.signal(signal.SIGKILL)
        drained = [asyncio.ensure_future(child.over()) for child in self._children.values()]
        if drained:
            await asyncio.wait(drained, timeout=DRAIN_SECONDS)
        for child in self._children.values():
            child.say(Stop())
        _, late = await asyncio.wait(keepers, timeout=STOP_SECONDS)
        for child in self._children.values() if late else ():
            child.signal(signal.SIGKILL)
        await asyncio.wait(keepers)
        for one in drained:
            one.cancel()


class _Child:
    """One process of a worker, from its start to its end."""

    def __init__(self, on_ready: Callable[[Ready], None]) -> None:
        self.pid = 0
        self.is_serving = False
        self._on_ready = on_ready
        self.failure: FastnodeError | None = None
        self._over = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._control: Control | None = None

    async def run(self, begin: Begin) -> int:
        """The exit code."""
        own, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "fastnode.workers",
                str(descriptor),
                pass_fds=(descriptor, begin.lock_descriptor),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
            )
        self.pid = self._process.pid
        self._control = await open_control(own)
        self._control.say(begin)
        await self._listen(self._control)
        code = await self._process.wait()
        self._control.close()
        self._over.set()
        return code

    async def _listen(self, control: Control) -> None:
        while (word := await control.hear()) is not None:
            if isinstance(word, Ready):
                self.is_serving = True
                self._on_ready(word)
            elif isinstance(word, Failed):
                kind = UsageError if word.is_usage else StartError
                self.failure = kind(word.reason)
            elif isinstance(word, Drained):
                self._over.set()

    async def over(self) -> None:
        """It has answered everything, or ended."""
        await self._over.wait()

    def say(self, word: Drain | Stop) -> None:
        if self._control is not None:
            self._control.say(word)

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


@contextlib.contextmanager
def _reserved(address: Address, flag: str) -> Iterator[Address]:
    """The address with its port, which workers may share and nobody else may have."""
    try:
        family, _, _, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # A second node with workers would share the port as well; alone it cannot be had twice.
        with socket.create_server(place, family=family) as alone:
            place = alone.getsockname()
        shared = socket.socket(family, socket.SOCK_STREAM)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        shared.bind(place)
    except OSError as error:
        reason = f"{flag} {address}: {error.strerror}"
        raise StartError(f"{reason}; stop what uses it or choose another address") from error
    with shared:
        yield Address(address.host, place[1])
