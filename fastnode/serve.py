"""Listeners around a node, from its start to its end. With `node.py` the composition root.

Start: data directory, engines, the log (replayed into the engines), listeners, members, ready.
Stop: hand leads on, drain the listeners, flush the engines, close the log.
"""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import traceback
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from fastnode import config
from fastnode.clock import IdSource, SystemClock, SystemIdSource
from fastnode.cluster.bridge import as_future
from fastnode.cluster.capabilities import HTFIFO
from fastnode.cluster.gate import PartitionGate
from fastnode.cluster.member_proof import MemberProof, read_proof
from fastnode.cluster.membership import Operator
from fastnode.cluster.poller import poll
from fastnode.datadir import Founding, is_new, open_data_dir
from fastnode.errors import OperationError, StartError, UsageError
from fastnode.flow import Suspension
from fastnode.http.admin import Admin
from fastnode.http.admin_api import AdminApi
from fastnode.http.admin_cluster import AdminCluster
from fastnode.http.credentials import CredentialsFile
from fastnode.http.health import Health
from fastnode.http.http1 import Request
from fastnode.http.identity import ACCOUNT_DEFAULT, IdentitySettings, OpenIdentity
from fastnode.http.router import Handle, Router
from fastnode.http.server import HttpServer
from fastnode.http.shedding import Shedding, shed_metrics
from fastnode.http.sigv4 import Verifier
from fastnode.native import message_id_text
from fastnode.node import LoopAlarm, Node
from fastnode.option_values import Address
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.predeclared import declare_queues
from fastnode.queue.retention import Sweeper
from fastnode.settings import Settings

GARBAGE_THRESHOLD: Final = 100_000
DECLARE_SECONDS: Final = 1.0
NS_PER_SECOND: Final = 1_000_000_000
log: Final = logging.getLogger("fastnode")


async def serve(settings: Settings, *, on_ready: Callable[[str, str], None]) -> None:
    """Run a node until SIGTERM or SIGINT; `StartError` or `UsageError` if it cannot start."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(die_of_bug)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    identity = identity_settings(settings)
    proof = read_proof(settings)
    data = open_data_dir(settings, await _admission(settings, proof))
    try:
        node = Node(settings, data, proof)
        await node.start()
        data.mark_started()
        calm_garbage_collector()
        await _run(settings, node, identity, stopping, on_ready)
        await node.stop()
    finally:
        data.close()


async def _admission(settings: Settings, proof: MemberProof) -> Founding | None:
    """A node that joins others asks them before it has a data directory, and only then."""
    if not settings.join or not is_new(settings):
        return None
    # Here and not on top: whoever does not join needs no gRPC.
    from fastnode.cluster.joining import ask_to_join

    return await ask_to_join(settings, proof)


async def _run(
    settings: Settings,
    node: Node,
    identity: IdentitySettings,
    stopping: asyncio.Event,
    on_ready: Callable[[str, str], None],
) -> None:
    # This node is asked like every other member, once it can answer.
    own: list[str] = []
    gate = PartitionGate(
        node.capabilities, node.placement, lambda: poll(own + node.member.sqs_urls(), HTFIFO), log
    )
    node.service.partition_gate = gate.admit
    if node.is_alone:
        await as_future(declared_queues(settings, node.dispatcher.handle))
    loop = asyncio.get_running_loop()
    request_ids = request_ids_of(SystemIdSource()).__next__
    # Leads are spread; whoever asks for the leader means that of the first group.
    health = Health(node.capabilities, lambda: node.groups[0].is_ready)
    handle = node.dispatcher.handle
    shedding = Shedding(node.backlog, request_ids)
    node.on_freed = shedding.tick
    router = Router(OPERATIONS, node.service, identity, request_ids, log, health, handle, shedding)
    sqs = HttpServer(router.respond, now=loop.time)
    sqs.connections_max = min(sqs.connections_max, connections_possible())

    def metrics() -> dict[str, float]:
        return {**node.metrics(), **shed_metrics(shedding, sqs.crowd.refused)}

    cluster = AdminCluster(Operator(node.membership))
    api = AdminApi(node.service, admin_guard(settings), log, cluster.answer)
    admin = HttpServer(Admin(lambda: node.is_ready, metrics, api).respond, now=loop.time)
    sqs_url = await listen(sqs, settings.listen, "--listen")
    own.append(sqs_url)
    admin_url = await listen(admin, settings.admin, "--admin")
    await node.meet(sqs_url, admin_url)
    works = [node.upkeep.run(), node.leads.balance(), node.membership.tend()]
    if not node.is_alone:
        works.append(_declare_later(settings, node))
    background = [asyncio.create_task(work) for work in works]
    sweeper = Sweeper(node.service, LoopAlarm(loop))
    sweeper.start()
    on_ready(sqs_url, admin_url)
    await stopping.wait()
    log.info("stopping")
    sweeper.stop()
    await node.leads.give_all_away(config.HANDOVER_SECONDS)
    node.service.end_polls()
    await sqs.drain()
    admin.close()
    for task in background:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def admin_guard(settings: Settings) -> Callable[[Request], object]:
    """Whoever reaches the admin listener may look, so no web page may reach it."""
    hosts = None if settings.insecure else frozenset({settings.admin.host.lower()})
    return OpenIdentity(IdentitySettings(settings.region, f"http://{settings.admin}", hosts)).caller


def identity_settings(settings: Settings) -> IdentitySettings:
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


def connections_possible() -> int:
    """A node that runs out of files can no longer write: so it takes as many as it may, and leaves
    some of them to others than clients.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = config.HTTP_CONNECTIONS_MAX + config.FILES_RESERVED
    files = max(soft, wanted if hard == resource.RLIM_INFINITY else min(wanted, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return max(files - config.FILES_RESERVED, files // 2)


async def listen(
    server: HttpServer, address: Address, flag: str, *, is_shared: bool = False
) -> str:
    """`is_shared`: with other processes of this node."""
    try:
        host, port = await server.start(address.host, address.port, is_shared=is_shared)
    except OSError as error:
        reason = f"{flag} {address}: {os.strerror(error.errno or 0)}"
        raise StartError(f"{reason}; stop what uses it or choose another address") from error
    return f"http://{Address(host, port)}"


def declared_queues(settings: Settings, handle: Handle) -> Coroutine[Suspension, Any, None]:
    return declare_queues(handle, ACCOUNT_DEFAULT, settings.region, settings.queues)


async def _declare_later(settings: Settings, node: Node) -> None:
    """In a cluster somebody has to be elected first. All members declare the same queues, so it
    does not matter who comes first.
    """
    while True:
        try:
            return await as_future(declared_queues(settings, node.dispatcher.handle))
        except OperationError as error:
            log.info("declared queues have to wait: %s", error)
            await asyncio.sleep(DECLARE_SECONDS)
        except UsageError as error:
            log.error("a declared queue was not created: %s", error)
            return None


def request_ids_of(ids: IdSource) -> Iterator[str]:
    """Texts in the form of UUIDs, drawn a block at a time."""
    while True:
        block = ids.take(4096)
        for at in range(0, len(block), 16):
            yield message_id_text(block[at : at + 16])


def calm_garbage_collector() -> None:
    """Requests leave no cycles behind, so looking for them every 700 objects is wasted work: a
    tenth of the CPU of a send. Rarely is often enough for what error paths leave.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)


def die_of_bug(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A callback failed: state and log may no longer agree, and only a replay makes them agree
    again.
    """
    error = context.get("exception")
    log.critical("bug: %s\n%s", context["message"], "".join(traceback.format_exception(error)))
    os._exit(1)
