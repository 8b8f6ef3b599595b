"""Listeners around a worker, from its start to its end. What `serve.py` is for a node of one
process.

All workers listen at the same SQS address and the system chooses among them; the first one has the
admin listener too.
"""

import asyncio
import contextlib
import logging
import os
import signal
from functools import partial
from pathlib import Path
from typing import Final

from fastnode.alarm import LoopAlarm
from fastnode.clock import RequestIds, SystemClock, SystemIdSource
from fastnode.cluster.bridge import as_future
from fastnode.cluster.capabilities import HTFIFO
from fastnode.cluster.control_api import Addresses
from fastnode.cluster.gate import PartitionGate
from fastnode.cluster.member_proof import MemberProof
from fastnode.cluster.poller import poll
from fastnode.datadir import adopt_data_dir
from fastnode.errors import FastnodeError, OperationError, UsageError
from fastnode.http.health import Health
from fastnode.http.request_meter import RequestMeter
from fastnode.http.router import Router
from fastnode.http.server import HttpServer
from fastnode.http.shedding import Shedding, shed_metrics
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.retention import Sweeper
from fastnode.reload import Reload
from fastnode.serve import (
    DECLARE_SECONDS,
    adopt_queues,
    calm_garbage_collector,
    certificate_metrics,
    connections_possible,
    declared_queues,
    die,
    identity_settings,
    listen,
    listener_tls,
    open_access_log,
)
from fastnode.workers.control import Begin, Control, Drain, Drained, Failed, Ready, Stop
from fastnode.workers.mover import WorkerMover
from fastnode.workers.worker_admin import AdminPages
from fastnode.workers.worker_node import WorkerNode

EXIT_FAILURE: Final = 1
log: Final = logging.getLogger("fastnode")


async def serve_worker(begin: Begin, control: Control) -> int:
    """Run a worker until its supervisor tells it to stop; the exit code."""
    asyncio.get_running_loop().set_exception_handler(die)
    orders = _Orders(control)
    try:
        worker = _Worker(begin)
        await worker.start()
    except FastnodeError as error:
        control.say(Failed(str(error), isinstance(error, UsageError)))
        await control.flush()
        return EXIT_FAILURE
    control.say(Ready(worker.sqs_url, worker.admin_url))
    await orders.drain.wait()
    await worker.drain()
    control.say(Drained())
    await orders.stop.wait()
    await worker.stop()
    return 0


class _Orders:
    """What the supervisor has said. A signal to the worker alone means both orders."""

    def __init__(self, control: Control) -> None:
        self.drain = asyncio.Event()
        self.stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._end)
        # A terminal tells the whole node, and the supervisor tells its workers in its own order.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._listening = loop.create_task(self._listen(control))

    def _end(self) -> None:
        self.drain.set()
        self.stop.set()

    async def _listen(self, control: Control) -> None:
        while (word := await control.hear()) is not None:
            if isinstance(word, Drain):
                self.drain.set()
            elif isinstance(word, Stop):
                self._end()
        if not self.stop.is_set():
            # Without a supervisor nobody serves the rest of the node, and what is acknowledged is
            # safe: the next one finds it.
            log.critical("the supervisor has ended, and so does this worker")
            os._exit(EXIT_FAILURE)


class _Worker:
    def __init__(self, begin: Begin) -> None:
        loop = asyncio.get_running_loop()
        settings = begin.settings
        self._settings = settings
        self.sqs_url = self.admin_url = ""
        self._reload = Reload(settings)
        self._tls = listener_tls(settings, self._reload)
        identity = identity_settings(settings, self._reload)
        data = adopt_data_dir(Path(begin.data_path), begin.lock_descriptor)
        self._admin = AdminPages(settings, data)
        self._node = node = WorkerNode(settings, data, begin.worker, self._admin.services)
        self._admin.begin(node)
        health = Health(node.capabilities, lambda: node.is_ready)
        request_ids = RequestIds(SystemIdSource())
        self._shedding = Shedding(node.backlog, request_ids)
        node.on_freed = self._shedding.tick
        handle, shedding = node.dispatcher.handle, self._shedding
        self._meter = meter = RequestMeter(slow_ms=settings.slow_request_ms)
        router = Router(
            OPERATIONS, node.service, identity, request_ids, log, health, handle, shedding, meter
        )
        self._access_log = open_access_log(settings, router, f"access-worker{begin.worker}")
        respond = self._access_log.respond if self._access_log else router.respond
        self._sqs = HttpServer(respond, now=loop.time)
        self._sqs.connections_max = min(self._sqs.connections_max, connections_possible())
        self._sqs.mover = self._mover = WorkerMover(node, router, self._sqs)
        node.more_metrics = self._metrics
        self._admin_server = HttpServer(self._admin.respond, now=loop.time)
        self._sqs.tls = self._admin_server.tls = self._tls
        self._sweeper = Sweeper(node.service, LoopAlarm(loop))
        self._background: list[asyncio.Task[None]] = []

    def _metrics(self) -> dict[str, float]:
        shed = shed_metrics(self._shedding, self._sqs.crowd.refused)
        certificates = certificate_metrics(self._tls, MemberProof())
        return {**self._mover.metrics(), **self._meter.metrics(), **shed, **certificates}

    async def start(self) -> None:
        settings, node = self._settings, self._node
        await node.start()
        own: list[str] = []
        gate = PartitionGate(node.capabilities, node.placement, lambda: poll(own, HTFIFO), log)
        node.service.partition_gate = gate.admit
        self._mover.start()
        await node.meet()
        calm_garbage_collector()
        self.sqs_url = await listen(self._sqs, settings.listen, "--listen", is_shared=True)
        own.append(self.sqs_url)
        if node.worker == 0:
            await self._declare()
            self.admin_url = await listen(
                self._admin_server, settings.admin, "--admin", is_shared=True
            )
            self._admin.addresses = Addresses("", sqs=self.sqs_url, admin=self.admin_url)
            self._reload.adopt = partial(adopt_queues, node.dispatcher.handle)
        works = [node.upkeep.run(), node.traffic.keep(SystemClock().wall_ns)]
        if self._access_log is not None:
            works.append(self._access_log.flush_forever())
        self._background = [asyncio.create_task(work) for work in works]
        self._sweeper.start()
        self._reload.listen()

    async def _declare(self) -> None:
        """Siblings may have to come up first."""
        while True:
            try:
                handle = self._node.dispatcher.handle
                return await as_future(declared_queues(self._settings, handle))
            except OperationError as error:
                log.info("declared queues have to wait: %s", error)
                await asyncio.sleep(DECLARE_SECONDS)

    async def drain(self) -> None:
        self._sweeper.stop()
        self._node.service.end_polls()
        await self._sqs.drain()
        self._mover.close()
        self._admin_server.close()

    async def stop(self) -> None:
        for task in self._background:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._access_log is not None:
            self._access_log.close()
        await self._node.stop()
