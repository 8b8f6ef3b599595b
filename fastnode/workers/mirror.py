"""Groups as a worker has them: its own, which remember what its siblings have to learn, and mirrors
of its siblings' groups, which hold their metadata and nothing else.

A mirror stands where a node has the replica of a group that another node leads: what is looked up
in it may be a moment old, and after a barrier it is not.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from fastnode import config
from fastnode.clock import GroupClock
from fastnode.cluster.call_codec import DONE, decode_error
from fastnode.errors import NotLed, OperationError, Overloaded
from fastnode.flow import Suspension, start
from fastnode.native import Outcome
from fastnode.queue.long_poll import Alarm
from fastnode.store.apply import Position
from fastnode.store.engine import Engine
from fastnode.store.group import Group
from fastnode.store.memory_engine import MemoryEngine
from fastnode.store.txn import Txn
from fastnode.workers import changes
from fastnode.workers.changes import Asked, Changes, Range, Rows, Told

# Service of a link between workers, beside those of `cluster/courier.py`.
MIRROR: Final = 16


class OwnGroup(Group):
    """Led by this worker, and by nobody else ever: it is the only voter."""

    def __init__(self, number: int, engine: Engine, clock: GroupClock) -> None:
        super().__init__(number, engine, clock)
        # Told when metadata have changed.
        self.on_changed: Callable[[int], None] = lambda _group: None
        self._changes = Changes()
        self._changing: dict[bytes, list[Range]] = {}

    @property
    def commit_ts(self) -> int:
        return self._position.commit_ts

    def tell(self, asked: Asked) -> Told:
        if not self.is_ready:
            raise NotLed("the group is not ready")
        return changes.tell(self, self, self._changes, asked)

    def submit(self, txn: Txn) -> Suspension:
        ranges = changes.mirrored_ranges(txn.writes)
        if ranges:
            self._changing[txn.request] = ranges
        return super().submit(txn)

    def _finish(self, requests: list[bytes], outcomes: list[Outcome]) -> None:
        if self._changing:
            self._note(requests)
        super()._finish(requests, outcomes)

    def _note(self, requests: Sequence[bytes]) -> None:
        found = [self._changing.pop(one) for one in requests if one in self._changing]
        if found:
            ranges = [each for some in found for each in some]
            self._changes.note(ranges, self.applied_index)
            self.on_changed(self.number)

    def _fail(self, requests: Iterable[bytes], error: OperationError) -> None:
        failed = list(requests)
        for request in failed:
            self._changing.pop(request, None)
        super()._fail(failed, error)


class MirrorGroup(Group):
    """A sibling's. `reached` brings it up to date if it has to be."""

    def __init__(self, number: int, leader: int, clock: GroupClock) -> None:
        self._rows = MemoryEngine()
        super().__init__(number, self._rows, clock, is_sole_voter=False)
        self.leader = leader
        self.on_behind: Callable[[], None] = lambda: None

    def reached(self, index: int) -> Suspension:
        reaching = super().reached(index)
        if not reaching.is_done:
            self.on_behind()
        return reaching

    def replace(self, ranges: Iterable[tuple[bytes, bytes, Rows]]) -> None:
        """Of each range these are the rows now."""
        batch = self._rows.batch()
        for begin, end, rows in ranges:
            batch.delete_range(begin, end)
            for key, value in rows:
                batch.put(key, value)
        self._rows.write(batch)

    def reach(self, position: Position) -> None:
        """It is as its leader had it at this position."""
        self._term = position.term
        self._position = position
        self._clock.observe(position.commit_ts)
        self._reaching.release(position.applied_index)


class Carrier(Protocol):
    """The way to whoever leads a group: a `Courier`."""

    async def carry(self, group: Group, service: int, payload: bytes) -> tuple[int, bytes]: ...


class Follower:
    """Brings one mirror up to date. Whoever asks while it is being done waits for the next time:
    what is on its way may have been looked up before.
    """

    def __init__(self, group: MirrorGroup, courier: Carrier, alarm: Alarm) -> None:
        self.group = group
        self.has_copy = False
        self._courier = courier
        self._alarm = alarm
        self._waiting: list[Suspension] = []
        self._is_pulling = False
        group.on_behind = self.follow

    def follow(self) -> None:
        """In the background, until it is done: whoever only looks asks for nothing."""
        start(self.refresh(), self._followed)

    def _followed(self, _index: Any, error: BaseException | None) -> None:
        if error is not None:
            self._alarm.set(config.RETRY_MS, 0, self.follow)

    async def refresh(self) -> int:
        """The index that the mirror has reached: it holds all that was acknowledged before."""
        if len(self._waiting) >= config.WAITING_READS_MAX:
            raise Overloaded("too many reads wait for another worker")
        waiting = Suspension()
        self._waiting.append(waiting)
        if not self._is_pulling:
            self._is_pulling = True
            start(self._pull_while_wanted(), self._ended)
        index: int = await waiting
        return index

    def _ended(self, _result: Any, error: BaseException | None) -> None:
        assert error is None, "what can go wrong is told to those who wait"

    async def _pull_while_wanted(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                await self._pull()
            except OperationError as error:
                for one in waiting:
                    one.fail(error)
            else:
                for one in waiting:
                    one.resume(self.group.applied_index)
        self._is_pulling = False

    async def _pull(self) -> None:
        since, after = self.group.applied_index if self.has_copy else 0, b""
        copied_from: int | None = None
        while True:
            told = await self._ask(Asked(self.group.number, since, after))
            self.group.replace(told.ranges)
            after = told.after
            if told.is_copy:
                # What changed while it was being copied is asked for afterwards.
                copied_from = told.index if copied_from is None else copied_from
                since, copied_from = (copied_from, None) if told.is_all else (0, copied_from)
            else:
                since = told.index
                if told.is_all:
                    break
        self.has_copy = True
        self.group.reach(Position(told.index, told.term, told.commit_ts))

    async def _ask(self, asked: Asked) -> Told:
        status, payload = await self._courier.carry(self.group, MIRROR, changes.encode(asked))
        if status != DONE:
            raise decode_error(status, payload)
        return changes.decode_told(payload)
