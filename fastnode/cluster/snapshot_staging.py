"""A group's state on its way to this node: the receiving side. Shell: order, threads, time limits.
What is written where, and whether it is whole, is decided by `store/snapshot.py`.

Each group has one place beside its directory, and one stream at a time that fills it. What was
received stays there when the stream breaks; the next stream with the same manifest goes on where
the last one ended, and one with another manifest begins anew. So the newest offer wins, but an
older one never takes the place of a newer that is still coming in.

When everything is there and verified, `install` gets it together with the Raft packet. From then on
the place belongs to `install` until it returns, even if the sender has gone: a second stream with
the same manifest waits for the same outcome.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

import msgspec

from fastnode.cluster.control_api import Refused
from fastnode.cluster.control_messages import BadMessage
from fastnode.cluster.control_pb2 import SnapshotBegin, SnapshotPart, SnapshotProgress
from fastnode.cluster.snapshot_transfer import OFFER_BYTES_MAX, REPORT_SECONDS, STEP_SECONDS
from fastnode.cluster.threads import in_thread
from fastnode.errors import DiskFull, OperationError, Overloaded, Unavailable
from fastnode.store.snapshot import Chunk, ChunkRefused, Manifest, Receiver, decode_manifest
from fastnode.store.swap import SnapshotError

STREAMS_MAX: Final = 2
# What nobody goes on with gives its disk space back.
IDLE_SECONDS: Final = 600.0
CLOSE_SECONDS: Final = 5.0


class Displaced(OperationError):
    """Another stream has taken this one's place."""


class Stream(Protocol):
    """`read` gives None at the end."""

    async def read(self) -> SnapshotPart | None: ...

    async def write(self, progress: SnapshotProgress) -> None: ...


class Received(msgspec.Struct, frozen=True, eq=False):
    """A verified state that only has to be installed, and the packet to step for it."""

    group: int
    sender: int
    offer: bytes
    state: Receiver

    @property
    def manifest(self) -> Manifest:
        return self.state.manifest


# Steps the offer and, when Raft accepts it, replaces the group's state by `received.state.install`,
# in a thread, with the engine closed. Whether it did.
Install = Callable[[Received], Awaitable[bool]]


class _Turn:
    """One stream's right to fill the place, until another one takes it."""

    def __init__(self, encoded: bytes, manifest: Manifest) -> None:
        self.encoded = encoded
        self.manifest = manifest
        self.is_displaced = False
        self._reading: asyncio.Future[SnapshotPart | None] | None = None

    def yields_to(self, other: "_Turn") -> bool:
        return other.encoded == self.encoded or other.manifest.position >= self.manifest.position

    def displace(self) -> None:
        self.is_displaced = True
        if self._reading is not None:
            self._reading.cancel()

    def check(self) -> None:
        if self.is_displaced:
            raise Displaced("another stream has taken over")

    async def read(self, stream: Stream) -> SnapshotPart | None:
        self.check()
        self._reading = asyncio.ensure_future(stream.read())
        try:
            async with asyncio.timeout(STEP_SECONDS):
                return await self._reading
        except asyncio.CancelledError:
            self.check()
            raise


class _Place:
    """Where one group's snapshot comes in."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.turn: _Turn | None = None
        self.encoded = b""  # the manifest of `state`, or of what `delivery` has or had
        self.state: Receiver | None = None
        self.delivery: asyncio.Task[bool] | None = None
        self.expiry: asyncio.TimerHandle | None = None

    def claim(self, turn: _Turn) -> None:
        if self.turn is not None:
            if not self.turn.yields_to(turn):
                raise Overloaded("a newer snapshot of the group is on its way here")
            self.turn.displace()
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None
        self.turn = turn


class SnapshotReceiver:
    """`path_of` gives a group's directory; `room` the bytes of disk space that a snapshot may take,
    the node's own reserve not counted.
    """

    def __init__(
        self,
        groups: int,
        path_of: Callable[[int], Path],
        install: Install,
        room: Callable[[], int],
        log: logging.Logger,
    ) -> None:
        self._path_of = path_of
        self._install = install
        self._room = room
        self._log = log
        self._pool = ThreadPoolExecutor(STREAMS_MAX, "snapshot-write")
        self._places = [_Place() for _ in range(groups)]
        self._tasks: set[asyncio.Task[None]] = set()

    async def receive(self, sender: int, stream: Stream) -> None:
        """One stream, to its end. The errors are OperationErrors and SnapshotErrors."""
        async with asyncio.timeout(STEP_SECONDS):
            begin = self._checked_begin(await stream.read())
        manifest = decode_manifest(begin.manifest, self._path_of(begin.group))
        place, turn = self._places[begin.group], _Turn(begin.manifest, manifest)
        self._check_places(place)
        place.claim(turn)
        try:
            async with place.lock:
                turn.check()
                await self._serve(place, turn, begin, sender, stream)
        finally:
            self._leave(place, turn)

    async def close(self) -> None:
        """After the server has stopped. What came in is of no use after a restart, which would
        remove it too.
        """
        for place in self._places:
            if place.turn is not None:
                place.turn.displace()
            if place.expiry is not None:
                place.expiry.cancel()
            async with place.lock:
                if place.delivery is not None:
                    await asyncio.wait([place.delivery], timeout=CLOSE_SECONDS)
                await self._drop(place)
        self._pool.shutdown()

    def _checked_begin(self, part: SnapshotPart | None) -> SnapshotBegin:
        if part is None or part.WhichOneof("part") != "begin":
            raise BadMessage("a snapshot starts with its manifest")
        if part.begin.group >= len(self._places):
            raise BadMessage(f"there is no group {part.begin.group} here")
        if not 0 < len(part.begin.offer) <= OFFER_BYTES_MAX:
            raise BadMessage(f"an offer of {len(part.begin.offer)} bytes")
        return part.begin

    def _check_places(self, mine: _Place) -> None:
        busy = sum(place.turn is not None for place in self._places if place is not mine)
        if busy >= STREAMS_MAX:
            raise Overloaded(f"{busy} other snapshots are on their way here")

    def _leave(self, place: _Place, turn: _Turn) -> None:
        if place.turn is turn:
            place.turn = None
            if place.state is not None:
                loop = asyncio.get_running_loop()
                place.expiry = loop.call_later(IDLE_SECONDS, self._expire, place)

    def _expire(self, place: _Place) -> None:
        async def drop() -> None:
            async with place.lock:
                if place.turn is None:
                    await self._drop(place)

        task = asyncio.get_running_loop().create_task(drop())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(
        self, place: _Place, turn: _Turn, begin: SnapshotBegin, sender: int, stream: Stream
    ) -> None:
        if place.delivery is not None and not await self._has_failed(place, turn):
            total = sum(file.size for file in turn.manifest.files)
            await stream.write(SnapshotProgress(received_bytes=total, is_installed=True))
            return
        state = await self._open(place, turn, begin.group)
        await self._fill(place, turn, state, stream)
        received = Received(begin.group, sender, begin.offer, state)
        if not await self._deliver(place, received):
            raise Refused("Raft has no use for this snapshot")
        total = state.total_bytes
        await stream.write(SnapshotProgress(received_bytes=total, is_installed=True))

    async def _has_failed(self, place: _Place, turn: _Turn) -> bool:
        """Whether the last delivery is over and this stream has to begin anew."""
        assert place.delivery is not None
        if place.encoded != turn.encoded:
            if not place.delivery.done():
                raise Unavailable("another snapshot of the group is being installed")
            return True
        await asyncio.wait([place.delivery])
        return place.delivery.exception() is not None or not place.delivery.result()

    async def _open(self, place: _Place, turn: _Turn, group: int) -> Receiver:
        """The state as far as it came, or an empty one."""
        if place.state is None or place.encoded != turn.encoded:
            await self._drop(place)
            path = self._path_of(group)
            place.state = await in_thread(self._pool, Receiver, group, path, turn.manifest)
            place.encoded = turn.encoded
        state = place.state
        missing, room = state.total_bytes - state.received_bytes, self._room()
        if missing > room:
            raise DiskFull(f"a snapshot needs {missing} bytes more, the disk has room for {room}")
        return state

    async def _fill(self, place: _Place, turn: _Turn, state: Receiver, stream: Stream) -> None:
        progress = _Progress(self._log, state)
        await stream.write(SnapshotProgress(received_bytes=state.received_bytes))
        try:
            while state.received_bytes < state.total_bytes:
                chunk = _checked_chunk(await turn.read(stream))
                await in_thread(self._pool, state.write, chunk)
                await stream.write(SnapshotProgress(received_bytes=state.received_bytes))
                progress.report()
            await in_thread(self._pool, state.verify)
        except ChunkRefused:
            raise
        except SnapshotError:
            await self._drop(place)
            raise

    async def _deliver(self, place: _Place, received: Received) -> bool:
        place.state = None
        place.delivery = asyncio.get_running_loop().create_task(self._hand_over(received))
        place.delivery.add_done_callback(_look_at)
        return await asyncio.shield(place.delivery)

    async def _hand_over(self, received: Received) -> bool:
        """In a task of its own: a sender that goes away stops no installation."""
        fields = {"group": received.group, "index": received.manifest.applied_index}
        self._log.info("a snapshot has arrived", extra=fields | {"sender": received.sender})
        try:
            return await self._install(received)
        finally:
            await in_thread(self._pool, received.state.abort)

    async def _drop(self, place: _Place) -> None:
        state, place.state, place.delivery = place.state, None, None
        if state is not None:
            try:
                await in_thread(self._pool, state.abort)
            except (DiskFull, SnapshotError) as error:
                # The next snapshot, or a restart, removes what is left.
                self._log.warning("what came in of a snapshot cannot be removed: %s", error)


def _look_at(delivery: asyncio.Task[bool]) -> None:
    """Nobody may be waiting for it any more. An operation that failed is the sender's business; a
    state that is half replaced is a reason to stop.
    """
    error = None if delivery.cancelled() else delivery.exception()
    if error is not None and not isinstance(error, OperationError):
        context = {"message": "a snapshot was not installed", "exception": error}
        delivery.get_loop().call_exception_handler(context)


def _checked_chunk(part: SnapshotPart | None) -> Chunk:
    if part is None:
        raise Unavailable("the stream ended before the snapshot did")
    if part.WhichOneof("part") != "chunk":
        raise BadMessage("after its manifest a snapshot is chunks")
    return Chunk(part.chunk.offset, part.chunk.content, part.chunk.checksum)


class _Progress:
    """A line every few seconds for one that takes long."""

    def __init__(self, log: logging.Logger, state: Receiver) -> None:
        self._log = log
        self._state = state
        self._now = asyncio.get_running_loop().time
        self._reported_at = self._now()

    def report(self) -> None:
        now = self._now()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            fields = {
                "group": self._state.manifest.group,
                "received_bytes": self._state.received_bytes,
                "total_bytes": self._state.total_bytes,
            }
            self._log.info("receiving a snapshot", extra=fields)
