"""The composition root: the only file that knows every layer. Builds a node, serves, stops it.

Start: data directory, engines, the log (replayed into the engines), listeners, ready. Stop: drain
the listeners, flush the engines, close the log. Nothing here decides what a request means.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final

from fastnode.clock import GroupClock, IdSource, SystemClock, SystemIdSource
from fastnode.datadir import DataDir, open_data_dir
from fastnode.errors import StartError
from fastnode.flow import start
from fastnode.http.admin import Admin
from fastnode.http.identity import ACCOUNT_DEFAULT, IdentitySettings
from fastnode.http.router import Router
from fastnode.http.server import HttpServer
from fastnode.native import message_id_text
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.predeclared import declare_queues
from fastnode.queue.service import Service
from fastnode.raft.driver import Driver
from fastnode.raft.groups import open_groups
from fastnode.raft.runtime import Runtime
from fastnode.settings import Address, Settings
from fastnode.store.engine import EngineError, EngineShared, RocksEngine
from fastnode.store.group import Group
from fastnode.store.swap import recover_swap
from fastnode.upkeep import Upkeep

GARBAGE_THRESHOLD: Final = 100_000
log: Final = logging.getLogger("fastnode")


class LoopAlarm:
    """One timer of the event loop, set again and again."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at_ms: int, now_ms: int, ring: Callable[[], None]) -> None:
        self.clear()
        self._handle = self._loop.call_later(max(at_ms - now_ms, 0) / 1000, ring)

    def clear(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Node:
    """Everything of one node, from its data directory to its queues; not its listeners."""

    def __init__(self, settings: Settings, data: DataDir) -> None:
        loop = asyncio.get_running_loop()
        shared = EngineShared()
        self.engines: list[RocksEngine] = []
        clock, ids = SystemClock(), SystemIdSource()
        try:
            for number in range(data.groups):
                recover_swap(data.group_path(number))
                self.engines.append(RocksEngine(data.group_path(number), shared))
        except EngineError as error:
            raise StartError(f"{error}: restore the data directory from a backup") from error
        self.groups = [
            Group(number, engine, GroupClock(clock)) for number, engine in enumerate(self.engines)
        ]
        self.raft = open_groups(
            data.node_id,
            data.log_path,
            applied=[group.applied_index for group in self.groups],
            is_synced=settings.fsync == "always",
        )
        self._runtime = Runtime(loop, self.raft)
        for group in self.groups:
            group.on_gathered = self._runtime.gathered
        self.service = Service(self.groups, ids, lambda: LoopAlarm(loop), is_strict=settings.strict)
        self.upkeep = Upkeep(self.groups, self.raft, data.path)

    @property
    def is_ready(self) -> bool:
        return all(group.is_ready for group in self.groups)

    async def start(self) -> None:
        """Replay the log and take the lead of every group."""
        self._runtime.start(Driver(self.raft, self.groups))
        await self._runtime.until(lambda: self.is_ready)

    async def stop(self) -> None:
        await self.upkeep.flush_all()
        self._runtime.stop()
        self.raft.close()
        for engine in self.engines:
            engine.close()

    def metrics(self) -> dict[str, float]:
        status = self.raft.status()
        return {
            "fastnode_log_fsyncs_total": status["fsyncs"],
            "fastnode_log_blocks_total": status["blocks"],
            "fastnode_log_bytes": status["log_bytes"],
            "fastnode_log_repaired_bytes": status["repaired_bytes"],
        }


async def serve(settings: Settings, *, on_ready: Callable[[str, str], None]) -> None:
    """Run a node until SIGTERM or SIGINT; `StartError` or `UsageError` if it cannot start."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_die_of_bug)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    data = open_data_dir(settings)
    try:
        node = Node(settings, data)
        await node.start()
        data.mark_started()
        _calm_garbage_collector()
        await _run(settings, node, stopping, on_ready)
        await node.stop()
    finally:
        data.close()


async def _run(
    settings: Settings,
    node: Node,
    stopping: asyncio.Event,
    on_ready: Callable[[str, str], None],
) -> None:
    await _declare(settings, node.service)
    loop = asyncio.get_running_loop()
    hosts = None if settings.insecure else frozenset({settings.listen.host.lower()})
    identity = IdentitySettings(settings.region, f"http://{settings.listen}", hosts)
    router = Router(
        OPERATIONS, node.service, identity, _request_ids(SystemIdSource()).__next__, log
    )
    sqs = HttpServer(router.respond, now=loop.time)
    admin = HttpServer(Admin(lambda: node.is_ready, node.metrics).respond, now=loop.time)
    sqs_url = await _listen(sqs, settings.listen, "--listen")
    admin_url = await _listen(admin, settings.admin, "--admin")
    upkeep = asyncio.create_task(node.upkeep.run())
    on_ready(sqs_url, admin_url)
    await stopping.wait()
    log.info("stopping")
    node.service.end_polls()
    await sqs.drain()
    admin.close()
    upkeep.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await upkeep


async def _listen(server: HttpServer, address: Address, flag: str) -> str:
    try:
        host, port = await server.start(address.host, address.port)
    except OSError as error:
        reason = f"{flag} {address}: {os.strerror(error.errno or 0)}"
        raise StartError(f"{reason}; stop what uses it or choose another address") from error
    return f"http://{Address(host, port)}"


async def _declare(settings: Settings, service: Service) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finish(_result: None, error: BaseException | None) -> None:
        done.set_result(None) if error is None else done.set_exception(error)

    start(declare_queues(service, ACCOUNT_DEFAULT, settings.region, settings.queues), finish)
    await done


def _request_ids(ids: IdSource) -> Iterator[str]:
    """Texts in the form of UUIDs, drawn a block at a time."""
    while True:
        block = ids.take(4096)
        for at in range(0, len(block), 16):
            yield message_id_text(block[at : at + 16])


def _calm_garbage_collector() -> None:
    """Requests leave no cycles behind, so looking for them every 700 objects is wasted work: a
    tenth of the CPU of a send. Rarely is often enough for what error paths leave.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)


def _die_of_bug(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A callback failed: state and log may no longer agree, and only a replay makes them agree
    again.
    """
    error = context.get("exception")
    log.critical("bug: %s\n%s", context["message"], "".join(traceback.format_exception(error)))
    os._exit(1)
