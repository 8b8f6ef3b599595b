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
from fastnode.cluster.capabilities import HTFIFO, advertised
from fastnode.cluster.gate import PartitionGate
from fastnode.cluster.partition_map import parse_partition_map
from fastnode.cluster.poller import poll
from fastnode.cluster.refusal import LeadershipRefusal
from fastnode.datadir import DataDir, open_data_dir
from fastnode.errors import StartError, Unavailable
from fastnode.flow import start
from fastnode.http.admin import Admin
from fastnode.http.admin_api import AdminApi
from fastnode.http.credentials import CredentialsFile
from fastnode.http.health import Health
from fastnode.http.http1 import Request
from fastnode.http.identity import ACCOUNT_DEFAULT, IdentitySettings, OpenIdentity
from fastnode.http.router import Router
from fastnode.http.server import HttpServer
from fastnode.http.sigv4 import Verifier
from fastnode.native import message_id_text
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.partition_groups import groups_with_partitions
from fastnode.queue.predeclared import declare_queues
from fastnode.queue.retention import Sweeper
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
NS_PER_SECOND: Final = 1_000_000_000
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
        self.placement = parse_partition_map(settings.partition_map, data.groups)
        self.capabilities = advertised(settings.without_capability)
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
        self._runtime = Runtime(loop, self.raft, clock.boottime_ns)
        for group in self.groups:
            group.on_gathered = self._runtime.gathered
            group.on_read_waiting = self._runtime.read_waiting
        self.service = Service(self.groups, ids, lambda: LoopAlarm(loop), is_strict=settings.strict)
        self.service.placement = self.placement.groups_of
        self.upkeep = Upkeep(self.groups, self.raft, data.path)
        self._refusal = LeadershipRefusal(self.groups, self._holds_partitions, _transfer_away, log)

    @property
    def is_ready(self) -> bool:
        return all(group.is_ready for group in self.groups)

    async def start(self) -> None:
        """Replay the log and take the lead of every group."""
        if HTFIFO not in self.capabilities:
            self._refusal.install()
        self._runtime.start(Driver(self.raft, self.groups))
        await self._runtime.until(lambda: self.is_ready)
        self.service.resume()

    async def stop(self) -> None:
        self._refusal.remove()
        await self.upkeep.flush_all()
        self._runtime.stop()
        self.raft.close()
        for engine in self.engines:
            engine.close()

    def _holds_partitions(self, group: int) -> bool:
        return group in self.placement.named_groups | groups_with_partitions(self.groups)

    def metrics(self) -> dict[str, float]:
        status = self.raft.status()
        return {
            "fastnode_log_fsyncs_total": status["fsyncs"],
            "fastnode_log_blocks_total": status["blocks"],
            "fastnode_log_bytes": status["log_bytes"],
            "fastnode_log_repaired_bytes": status["repaired_bytes"],
        }


async def _transfer_away(_group: int) -> None:
    raise Unavailable("this node is the only voter")


async def serve(settings: Settings, *, on_ready: Callable[[str, str], None]) -> None:
    """Run a node until SIGTERM or SIGINT; `StartError` or `UsageError` if it cannot start."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_die_of_bug)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    identity = _identity(settings)
    data = open_data_dir(settings)
    try:
        node = Node(settings, data)
        await node.start()
        data.mark_started()
        _calm_garbage_collector()
        await _run(settings, node, identity, stopping, on_ready)
        await node.stop()
    finally:
        data.close()


async def _run(
    settings: Settings,
    node: Node,
    identity: IdentitySettings,
    stopping: asyncio.Event,
    on_ready: Callable[[str, str], None],
) -> None:
    # This node is asked like every other member, once it can answer.
    members: list[str] = []
    gate = PartitionGate(node.capabilities, node.placement, lambda: poll(members, HTFIFO), log)
    node.service.partition_gate = gate.admit
    await _declare(settings, node.service)
    loop = asyncio.get_running_loop()
    request_ids = _request_ids(SystemIdSource()).__next__
    health = Health(node.capabilities, lambda: node.is_ready)
    router = Router(OPERATIONS, node.service, identity, request_ids, log, health)
    sqs = HttpServer(router.respond, now=loop.time)
    api = AdminApi(node.service, _admin_guard(settings), log)
    admin = HttpServer(Admin(lambda: node.is_ready, node.metrics, api).respond, now=loop.time)
    sqs_url = await _listen(sqs, settings.listen, "--listen")
    members.append(sqs_url)
    admin_url = await _listen(admin, settings.admin, "--admin")
    upkeep = asyncio.create_task(node.upkeep.run())
    sweeper = Sweeper(node.service, LoopAlarm(loop))
    sweeper.start()
    on_ready(sqs_url, admin_url)
    await stopping.wait()
    log.info("stopping")
    sweeper.stop()
    node.service.end_polls()
    await sqs.drain()
    admin.close()
    upkeep.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await upkeep


def _admin_guard(settings: Settings) -> Callable[[Request], object]:
    """Whoever reaches the admin listener may look, so no web page may reach it."""
    hosts = None if settings.insecure else frozenset({settings.admin.host.lower()})
    return OpenIdentity(IdentitySettings(settings.region, f"http://{settings.admin}", hosts)).caller


def _identity(settings: Settings) -> IdentitySettings:
    hosts = None if settings.insecure else frozenset({settings.listen.host.lower()})
    verifier = _verifier(settings) if settings.credentials else None
    return IdentitySettings(settings.region, f"http://{settings.listen}", hosts, verifier)


def _verifier(settings: Settings) -> Verifier:
    """Signatures of the keys in the credentials file, which is followed from now on."""
    credentials, wall_ns = CredentialsFile(settings.credentials), SystemClock().wall_ns
    only_region = settings.region if settings.strict else None
    verifier = Verifier(credentials.keys, lambda: wall_ns() // NS_PER_SECOND, only_region)
    credentials.on_change = verifier.replace_keys
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, credentials.reload)
    credentials.watch(loop.call_later)
    return verifier


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
