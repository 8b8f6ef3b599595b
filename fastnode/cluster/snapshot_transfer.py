"""A group's state on its way to a node that lacks it: the sending side. Shell: streams, waiting,
threads; what a snapshot is and how it is cut is in `store/snapshot.py`, the other side is
`snapshot_staging`.

One transfer is as many attempts as it takes. Each begins by telling the receiver which snapshot it
is, and goes on from the offset that the receiver names, so a broken connection costs no more than
what was under way. It ends when the receiver has installed the state, refuses it, has made no
progress for too long, or the transfer is cancelled because this node no longer leads the group.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

import grpc
import msgspec

from fastnode.clock import Rng
from fastnode.cluster.control_client import ControlClient, Peer, SnapshotStream, error_of
from fastnode.cluster.control_pb2 import (
    SnapshotBegin,
    SnapshotChunk,
    SnapshotPart,
    SnapshotProgress,
    SnapshotRefusal,
)
from fastnode.cluster.rate_limit import RateLimit
from fastnode.cluster.threads import in_thread
from fastnode.errors import FastnodeError, OperationError, Unavailable
from fastnode.store.snapshot import CHUNK_BYTES_MAX, Snapshot, encode_manifest
from fastnode.store.swap import SnapshotError

# A gigabyte in a minute. Both ends of it on one machine take an eighth of a core, and sends go on
# beside it.
BYTES_PER_SECOND: Final = 16 * 1_048_576
# One chunk: several at once would keep the event loop and the disk from everything else.
BURST_BYTES: Final = CHUNK_BYTES_MAX
TRANSFERS_MAX: Final = 2
# Written and not yet acknowledged, so that the connection's delay does not set the pace.
WINDOW_BYTES: Final = 2 * 1_048_576
OFFER_BYTES_MAX: Final = 1_048_576
STEP_SECONDS: Final = 60.0
GIVE_UP_SECONDS: Final = 300.0
RETRY_SECONDS: Final = 0.2
RETRY_SECONDS_MAX: Final = 10.0
DAMAGED_MAX: Final = 3
REPORT_SECONDS: Final = 5.0

_FINAL: Final = frozenset(
    {
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)


class TransferFailed(FastnodeError):
    """To repeat it would change nothing."""


class _Damaged(FastnodeError):
    """The receiver threw away what it had, because it was not what the manifest says."""


class Shipment(msgspec.Struct, frozen=True, eq=False):
    """What goes where. The snapshot stays until the transfer is done; then its owner discards it.
    `offer` is the Raft packet that the receiver steps when it has everything.
    """

    group: int
    peer: Peer
    snapshot: Snapshot
    offer: bytes


OnDone = Callable[[Shipment, bool], None]
T = TypeVar("T")


class SnapshotSender:
    """`on_done(shipment, is_installed)` is called exactly once per shipment, whatever ends it."""

    def __init__(
        self, client: ControlClient, rng: Rng, log: logging.Logger, limit: RateLimit | None = None
    ) -> None:
        self.client = client
        self.rng = rng
        self.log = log
        self.limit = limit or RateLimit(BYTES_PER_SECOND, BURST_BYTES)
        self.pool = ThreadPoolExecutor(TRANSFERS_MAX, "snapshot-read")
        self._places = asyncio.Semaphore(TRANSFERS_MAX)
        self._tasks: dict[tuple[int, int], asyncio.Task[bool]] = {}

    def start(self, shipment: Shipment, on_done: OnDone) -> None:
        """Takes the place of another transfer of the same group to the same peer."""
        assert len(shipment.offer) <= OFFER_BYTES_MAX
        key = shipment.group, shipment.peer.node
        older = self._tasks.pop(key, None)
        if older is not None:
            older.cancel()
        task = asyncio.get_running_loop().create_task(self._ship(shipment))
        self._tasks[key] = task
        task.add_done_callback(partial(self._ended, shipment, on_done))

    def cancel(self, group: int) -> None:
        """This node no longer leads it."""
        for (number, _), task in list(self._tasks.items()):
            if number == group:
                task.cancel()

    def cancel_to(self, node: int) -> None:
        """The peer has gone; when it comes back it may be found elsewhere."""
        for (_, peer), task in list(self._tasks.items()):
            if peer == node:
                task.cancel()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.pool.shutdown()

    async def _ship(self, shipment: Shipment) -> bool:
        try:
            async with self._places:
                await _Transfer(self, shipment).run()
        except (TransferFailed, SnapshotError) as error:
            self.log.warning("a snapshot was not sent: %s", error, extra=_fields(shipment))
            return False
        return True

    def _ended(self, shipment: Shipment, on_done: OnDone, task: asyncio.Task[bool]) -> None:
        key = shipment.group, shipment.peer.node
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if task.cancelled():
            self.log.info("a snapshot is no longer sent", extra=_fields(shipment))
        on_done(shipment, not task.cancelled() and task.result())


class _Transfer:
    """One shipment, over as many streams as it takes."""

    def __init__(self, sender: SnapshotSender, shipment: Shipment) -> None:
        self._sender = sender
        self._shipment = shipment
        self._snapshot = shipment.snapshot
        self._now = asyncio.get_running_loop().time
        self._acknowledged = 0
        self._begun_at = self._reported_at = self._progress_at = self._now()
        self._reason = ""

    async def run(self) -> None:
        log, damaged, delay = self._sender.log, 0, RETRY_SECONDS
        log.info("sending a snapshot", extra=self._fields())
        while True:
            before = self._progress_at
            try:
                await self._attempt()
                log.info("a snapshot was sent and installed", extra=self._fields())
                return
            except _Damaged as error:
                damaged += 1
                if damaged >= DAMAGED_MAX:
                    raise TransferFailed(f"damaged {damaged} times: {error}") from error
                self._complain(str(error))
            except (TimeoutError, OperationError) as error:
                self._complain(str(error) or "no answer in time")
            _heed_cancellation()
            delay = RETRY_SECONDS if self._progress_at > before else delay
            if self._now() - self._progress_at > GIVE_UP_SECONDS:
                raise TransferFailed(f"no progress for {GIVE_UP_SECONDS:.0f} s: {self._reason}")
            await asyncio.sleep(delay * (0.5 + self._sender.rng.below(1_000) / 1_000))
            delay = min(delay * 2, RETRY_SECONDS_MAX)

    def _complain(self, reason: str) -> None:
        """Not for every try: a peer that is away would fill the log."""
        if reason != self._reason:
            self._reason = reason
            log = self._sender.log
            log.warning(
                "a snapshot transfer broke and is resumed: %s", reason, extra=self._fields()
            )

    async def _attempt(self) -> None:
        stream = self._sender.client.send_snapshot(self._shipment.peer)
        try:
            await self._pump(stream)
        except grpc.aio.AioRpcError as error:
            reason = error_of(error)
            if error.code() in _FINAL:
                raise TransferFailed(f"the peer refuses it: {reason}") from error
            raise reason from error
        except asyncio.InvalidStateError as error:
            raise Unavailable("the stream ended early") from error
        finally:
            stream.cancel()

    async def _pump(self, stream: SnapshotStream) -> None:
        total = self._snapshot.total_bytes
        # Whoever may not send learns it here: a status that comes while we write would be lost.
        await self._answer(stream, low=0, high=0)
        await _timely(stream.write(SnapshotPart(begin=self._begin())))
        answer = await self._answer(stream, low=0, high=total)
        self._note(answer)
        sent = answer.received_bytes
        while not answer.is_installed:
            while sent < total and sent - answer.received_bytes < WINDOW_BYTES:
                sent += await self._send_chunk(stream, sent)
            answer = await self._answer(stream, low=answer.received_bytes, high=sent)
            self._note(answer)

    def _begin(self) -> SnapshotBegin:
        return SnapshotBegin(
            group=self._shipment.group,
            manifest=encode_manifest(self._snapshot.manifest),
            offer=self._shipment.offer,
        )

    async def _send_chunk(self, stream: SnapshotStream, offset: int) -> int:
        chunk = await in_thread(self._sender.pool, self._snapshot.chunk, offset)
        size = len(chunk.content)
        await asyncio.sleep(self._sender.limit.reserve(size, self._now()))
        part = SnapshotChunk(offset=offset, content=chunk.content, checksum=chunk.checksum)
        await _timely(stream.write(SnapshotPart(chunk=part)))
        return size

    async def _answer(self, stream: SnapshotStream, *, low: int, high: int) -> SnapshotProgress:
        answer = await _timely(stream.read())
        if not isinstance(answer, SnapshotProgress):
            raise Unavailable("the peer ended the stream")
        if answer.HasField("refusal"):
            raise _error_of_refusal(answer.refusal)
        if not low <= answer.received_bytes <= high:
            raise TransferFailed(f"the peer acknowledges {answer.received_bytes} bytes of {high}")
        return answer

    def _note(self, answer: SnapshotProgress) -> None:
        if answer.received_bytes > self._acknowledged:
            self._progress_at = self._now()
        self._acknowledged = answer.received_bytes
        self._report()

    def _report(self) -> None:
        now = self._now()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._sender.log.info("sending a snapshot", extra=self._fields())

    def _fields(self) -> dict[str, object]:
        seconds = round(self._now() - self._begun_at, 1)
        sent = {"sent_bytes": self._acknowledged, "seconds": seconds}
        return _fields(self._shipment) | sent


def _error_of_refusal(refusal: SnapshotRefusal) -> FastnodeError:
    if refusal.kind == SnapshotRefusal.NEVER:
        return TransferFailed(f"the peer refuses it: {refusal.reason}")
    if refusal.kind == SnapshotRefusal.DAMAGED:
        return _Damaged(refusal.reason)
    return Unavailable(refusal.reason)


def _fields(shipment: Shipment) -> dict[str, object]:
    return {
        "group": shipment.group,
        "peer": shipment.peer.node,
        "index": shipment.snapshot.manifest.applied_index,
        "total_bytes": shipment.snapshot.total_bytes,
    }


def _heed_cancellation() -> None:
    """gRPC forgets one that comes while it begins a stream that breaks. To try again would be to
    ask for a receiver at an address that it may have left, in the place of those who know better.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _timely(step: Awaitable[T]) -> T:
    """A peer that reads and answers nothing is no better than one that is gone."""
    async with asyncio.timeout(STEP_SECONDS):
        return await step
