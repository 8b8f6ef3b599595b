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
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from fastnode import config
from fastnode.alarm import LoopAlarm
from fastnode.clock import RequestIds, SystemClock, SystemIdSource
from fastnode.cluster.bridge import as_future
from fastnode.cluster.capabilities import HTFIFO, Report
from fastnode.cluster.gate import PartitionGate
from fastnode.cluster.member_proof import MemberProof, read_proof
from fastnode.cluster.membership import Operator
from fastnode.cluster.poller import poll
from fastnode.cluster.traffic import Traffic
from fastnode.datadir import Founding, is_new, open_data_dir
from fastnode.errors import LogFailed, OperationError, StartError, UsageError
from fastnode.flow import Suspension
from fastnode.http.access_log import AccessLog, RotatedFile
from fastnode.http.access_row import RowReader
from fastnode.http.admin import Admin
from fastnode.http.admin_access import Access
from fastnode.http.admin_api import AdminApi
from fastnode.http.admin_backup import AdminBackup, BackupMaker
from fastnode.http.admin_cluster import AdminCluster
from fastnode.http.admin_overview import AdminOverview
from fastnode.http.admin_queues import AdminQueues, Look
from fastnode.http.admin_tokens import TokensFile
from fastnode.http.credentials import CredentialsFile
from fastnode.http.health import Health
from fastnode.http.http1 import Request
from fastnode.http.identity import ACCOUNT_DEFAULT, IdentitySettings, OpenIdentity
from fastnode.http.listener_tls import ListenerTls
from fastnode.http.request_meter import RequestMeter
from fastnode.http.router import Handle, Router
from fastnode.http.server import HttpServer
from fastnode.http.shedding import Shedding, shed_metrics
from fastnode.http.sigv4 import Verifier
from fastnode.machine import Machine
from fastnode.native import wall_seconds
from fastnode.node import Node
from fastnode.option_values import Address
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.predeclared import Declaration, declare_queues, set_throttles
from fastnode.queue.retention import Sweeper
from fastnode.queue.service import Service
from fastnode.reload import Reload
from fastnode.settings import Settings

GARBAGE_THRESHOLD: Final = 100_000
DECLARE_SECONDS: Final = 1.0
NS_PER_SECOND: Final = 1_000_000_000
log: Final = logging.getLogger("fastnode")


async def serve(settings: Settings, *, on_ready: Callable[[str, str], None]) -> None:
    """Run a node until SIGTERM or SIGINT; `StartError` or `UsageError` if it cannot start."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(die)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    reload = Reload(settings)
    reload.listen()
    tls = listener_tls(settings, reload)
    identity = identity_settings(settings, reload)
    proof = read_proof(settings)
    data = open_data_dir(settings, await _admission(settings, proof))

    def be_ready(sqs_url: str, admin_url: str) -> None:
        calm_garbage_collector()
        on_ready(sqs_url, admin_url)

    try:
        node = Node(settings, data, proof, Machine())
        await live(node, identity, reload, stopping, be_ready, tls)
    finally:
        data.close()


async def live(
    node: Node,
    identity: IdentitySettings,
    reload: Reload,
    stopping: asyncio.Event,
    on_ready: Callable[[str, str], None],
    tls: ListenerTls | None = None,
) -> None:
    """The life of a node, from its log to its end."""
    await node.start()
    await _run(node, identity, reload, stopping, on_ready, tls)
    await node.stop()


async def _admission(settings: Settings, proof: MemberProof) -> Founding | None:
    """A node that joins others asks them before it has a data directory, and only then."""
    if not settings.join or not is_new(settings):
        return None
    # Here and not on top: whoever does not join needs no gRPC.
    from fastnode.cluster.joining import ask_to_join

    return await ask_to_join(settings, proof)


def _partition_gate(node: Node, own: list[str]) -> PartitionGate:
    """This node is asked like every other member, once it can answer and `own` says where."""
    member = node.member

    def ask() -> Coroutine[Any, Any, Report]:
        return poll(own + member.sqs_urls(), HTFIFO)

    return PartitionGate(node.capabilities, node.placement, ask, log, member.advertised)


async def _run(
    node: Node,
    identity: IdentitySettings,
    reload: Reload,
    stopping: asyncio.Event,
    on_ready: Callable[[str, str], None],
    tls: ListenerTls | None,
) -> None:
    settings = reload.settings
    own: list[str] = []
    node.service.partition_gate = _partition_gate(node, own).admit
    if node.is_alone:
        await as_future(declared_queues(settings, node.dispatcher.handle))
    loop = asyncio.get_running_loop()
    request_ids = RequestIds(node.ids)
    # Leads are spread; whoever asks for the leader means that of the first group.
    health = Health(node.capabilities, lambda: node.groups[0].is_ready)
    handle = node.dispatcher.handle
    shedding = Shedding(node.backlog, request_ids)
    node.on_freed = shedding.tick
    meter = RequestMeter(slow_ms=settings.slow_request_ms)
    router = Router(
        OPERATIONS, node.service, identity, request_ids, log, health, handle, shedding, meter
    )
    access_log = open_access_log(settings, router, "access")
    sqs = HttpServer(access_log.respond if access_log else router.respond, now=loop.time)
    sqs.connections_max = min(sqs.connections_max, connections_possible())

    def metrics() -> dict[str, float]:
        shed = shed_metrics(shedding, sqs.crowd.refused)
        return {**node.metrics(), **meter.metrics(), **shed, **certificate_metrics(tls, node.proof)}

    cluster = AdminCluster(Operator(node.membership))
    look = Look(node.service)
    api = admin_api(settings, node.service, look, handle, node.traffic, cluster, node.backups)
    admin = HttpServer(Admin(lambda: node.is_ready, metrics, api).respond, now=loop.time)
    sqs.tls = admin.tls = tls
    sqs_url = await listen(sqs, settings.listen, "--listen")
    own.append(sqs_url)
    admin_url = await listen(admin, settings.admin, "--admin")
    await node.meet(sqs_url, admin_url)
    works = [node.upkeep.run(), node.leads.balance(), node.membership.tend()]
    works.append(node.traffic.keep(node.clock.wall_ns))
    if not node.is_alone:
        works.append(_declare_later(settings, node))
    if access_log is not None:
        works.append(access_log.flush_forever())
    background = [asyncio.create_task(work) for work in works]
    sweeper = Sweeper(node.service, LoopAlarm(loop))
    sweeper.start()
    reload.adopt = partial(adopt_queues, node.dispatcher.handle)
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
    if access_log is not None:
        access_log.close()


def open_access_log(settings: Settings, router: Router, name: str) -> AccessLog | None:
    """If there is to be one; its files begin with the name."""
    if not settings.access_log:
        return None
    file = RotatedFile(settings.access_log, name)
    return AccessLog(router.respond, RowReader(OPERATIONS), file, SystemClock().wall_ns)


def admin_guard(settings: Settings) -> Callable[[Request], object]:
    """No foreign web page may reach the admin listener. Who needs a token may use any name of the
    node: a name that was made to resolve to it has no session.
    """
    is_named = settings.insecure or settings.admin_tokens
    hosts = None if is_named else frozenset({settings.admin.host.lower()})
    endpoint = f"{settings.scheme}://{settings.admin}"
    return OpenIdentity(IdentitySettings(settings.region, endpoint, hosts)).caller


def admin_api(
    settings: Settings,
    service: Service,
    look: Look,
    handle: Handle,
    traffic: Traffic,
    cluster: AdminCluster,
    backups: BackupMaker,
) -> AdminApi:
    queues = AdminQueues(service, look, handle, traffic, settings.region)
    sections = {
        "queues": queues.answer,
        "overview": AdminOverview(traffic, settings.region).answer,
        "cluster": cluster.answer,
        "backup": AdminBackup(backups).answer,
    }
    return AdminApi(admin_guard(settings), log, _admin_access(settings), sections)


def _admin_access(settings: Settings) -> Access:
    """By the tokens in their file, which is followed from now on."""
    loop, ids = asyncio.get_running_loop(), SystemIdSource()
    is_secure = bool(settings.tls_cert)
    if not settings.admin_tokens:
        return Access(None, ids, loop.time, is_secure=is_secure)
    tokens = TokensFile(settings.admin_tokens)
    tokens.watch(loop.call_later)
    return Access(lambda: tokens.holders, ids, loop.time, is_secure=is_secure)


def listener_tls(settings: Settings, reload: Reload) -> ListenerTls | None:
    """By the certificate in its files, which are followed from now on."""
    if not settings.tls_cert:
        return None
    wall_ns = SystemClock().wall_ns
    tls = ListenerTls(settings.tls_cert, settings.tls_key, lambda: wall_ns() / NS_PER_SECOND)
    reload.also(tls.reload)
    tls.watch(asyncio.get_running_loop().call_later)
    return tls


def certificate_metrics(tls: ListenerTls | None, proof: MemberProof) -> dict[str, float]:
    """When the certificates in use end."""
    shown = {"clients": tls, "members": proof.tls}
    return {
        f'fastnode_certificate_expiry_timestamp_seconds{{shown_to="{whom}"}}': one.expires_at
        for whom, one in shown.items()
        if one is not None
    }


def identity_settings(settings: Settings, reload: Reload) -> IdentitySettings:
    hosts = None if settings.insecure else frozenset({settings.listen.host.lower()})
    verifier = _verifier(settings, reload) if settings.credentials else None
    endpoint = f"{settings.scheme}://{settings.listen}"
    return IdentitySettings(settings.region, endpoint, hosts, verifier)


def _verifier(settings: Settings, reload: Reload) -> Verifier:
    """Signatures of the keys in the credentials file, which is followed from now on."""
    credentials = CredentialsFile(settings.credentials)
    only_region = settings.region if settings.strict else None
    verifier = Verifier(credentials.keys, wall_seconds, only_region)
    credentials.on_change = verifier.replace_keys
    reload.also(credentials.reload)
    credentials.watch(asyncio.get_running_loop().call_later)
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
    return f"{'http' if server.tls is None else 'https'}://{Address(host, port)}"


def declaration(settings: Settings) -> Declaration:
    return Declaration(ACCOUNT_DEFAULT, settings.region, settings.queues, settings.queue_tags)


def declared_queues(settings: Settings, handle: Handle) -> Coroutine[Suspension, Any, None]:
    return declare_queues(handle, declaration(settings), log.error)


async def adopt_queues(
    handle: Handle, found: Settings, throttles: Mapping[str, Mapping[str, str]]
) -> None:
    """What a reload makes of the queues in the file. Their other attributes stay as they are."""
    limits = Declaration(ACCOUNT_DEFAULT, found.region, throttles)
    await as_future(set_throttles(handle, limits, log.error))
    await as_future(declared_queues(found, handle))


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


def calm_garbage_collector() -> None:
    """Requests leave no cycles behind, so looking for them every 700 objects is wasted work: a
    tenth of the CPU of a send. Rarely is often enough for what error paths leave.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)


def die(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A callback failed: state and log may no longer agree, and only a replay makes them agree
    again.
    """
    error = context.get("exception")
    if isinstance(error, LogFailed):
        log.critical("stopping: %s: mend the disk, then start again", error)
    else:
        log.critical("bug: %s\n%s", context["message"], "".join(traceback.format_exception(error)))
    os._exit(1)
