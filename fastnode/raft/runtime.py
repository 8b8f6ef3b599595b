"""The shell around the driver: eventfd, ticks, the moment to propose and the moment to ask whether
this node still leads. Decides nothing about entries.

When a transaction is gathered and no block is being written, proposing waits until a loop turn adds
nothing more: a few microseconds that make the groups of an fsync twice as large. While a block is
being written everything is gathered.

A client that asks one thing at a time, or some that all wait for the same block, leave the loop
nothing to do while it is written. Then the loop's own thread writes it, and nobody has to be woken.
Where more comes beside blocks, that is better read meanwhile; a block now and then is left to the
log's thread to see whether it does.

Reads that wait are asked for once per loop turn, together.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from fastnode import config
from fastnode.clock import NS_PER_MS
from fastnode.raft.driver import Driver
from fastnode.raft.groups import Groups, Ready
from fastnode.raft.meter import RaftMeter

STALL_RETRY_SECONDS = 0.01
NS_PER_SECOND: Final = 1_000_000_000
TICK_NS: Final = round(config.TICK_SECONDS * NS_PER_SECOND)


def _drop(_peer: int, _packet: bytes) -> None:
    """Raft expects of a network that packets get lost."""


class Runtime:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, groups: Groups, boottime_ns: Callable[[], int]
    ) -> None:
        self._loop = loop
        self._groups = groups
        self._boottime_ns = boottime_ns
        # Takes (peer, packet); a node that is alone has nobody to send to.
        self.send: Callable[[int, bytes], None] = _drop
        # Told of a turn that changed members or asks for a snapshot to be taken, sent or installed.
        self.on_news: Callable[[Ready], None] = lambda _ready: None
        # Told at every tick, with the time.
        self.on_tick: Callable[[int], None] = lambda _now_ns: None
        self.meter = RaftMeter()
        self._driver: Driver
        self._dirty: dict[int, None] = {}
        self._is_gathering = False
        # Blocks in a row beside which nearly nothing came; whether that holds of the last one, and
        # how many transactions were in it.
        self._calm_blocks = 0
        self._was_calm = False
        self._proposed = 0
        self._is_turn_near = False
        self._tick_due_ns = 0
        self._ticker: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._turned: asyncio.Future[None] | None = None

    def start(self, driver: Driver) -> None:
        self._driver = driver
        self._loop.add_reader(self._groups.fileno(), self.turn)
        self._tick()

    def stop(self) -> None:
        self._loop.remove_reader(self._groups.fileno())
        for handle in (self._ticker, self._retry):
            if handle is not None:
                handle.cancel()

    def gathered(self, group: int) -> None:
        """Transactions of the group wait to be proposed."""
        if not self._dirty:
            self.meter.gathered(self._boottime_ns())
        self._dirty[group] = None
        if not self._is_gathering and not self._driver.is_persisting:
            self._begin_gathering()

    def read_waiting(self, group: int) -> None:
        """A read of the group waits to be admitted."""
        self._driver.reading[group] = None
        self._turn_soon()

    def received(self, packet: bytes) -> list[str]:
        """A peer's packet; why messages in it were refused. All packets of a loop turn are taken
        before the next turn of the groups.
        """
        refusals = self._groups.step(packet)
        self._turn_soon()
        return refusals

    def turn(self, *, here: bool = False) -> None:
        if self._driver.reading:
            self._driver.ask(self._boottime_ns())
        ready = self._look(here=here)
        looked_ns = self._boottime_ns() if ready.committed else 0
        self._driver.carry_out(ready)
        if ready.committed:
            self.meter.committed(looked_ns)
            self.meter.applied(looked_ns, self._boottime_ns())
        if ready.roles:
            self.meter.changed(ready.roles)
        for peer, packet in ready.sends:
            self.send(peer, packet)
        if ready.members or ready.wanted or ready.offers or ready.installs:
            self.on_news(ready)
        if self._driver.reading and self._driver.is_round_due(self._boottime_ns()):
            self._turn_soon()
        if self._driver.stalled and self._retry is None:
            self._retry = self._loop.call_later(STALL_RETRY_SECONDS, self._retry_stalled)
        if self._dirty and not self._is_gathering and not self._driver.is_persisting:
            self._begin_gathering()
        if self._turned is not None:
            self._turned.set_result(None)
            self._turned = None

    def _look(self, *, here: bool) -> Ready:
        was_writing = self._driver.is_persisting
        ready = self._driver.look(here=here)
        if was_writing and not self._driver.is_persisting:
            beside = self._driver.gathered_count(self._dirty)
            self._was_calm = config.CALM_SHARE * beside <= self._proposed
        return ready

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that only turns can bring about."""
        while not condition():
            self._turned = self._loop.create_future()
            await self._turned

    def _begin_gathering(self) -> None:
        self._is_gathering = True
        self._loop.call_soon(self._gather, 1, config.GATHER_TURNS_MAX)

    def _gather(self, seen: int, turns_left: int) -> None:
        count = self._driver.gathered_count(self._dirty)
        if count > seen and turns_left > 0:
            self._loop.call_soon(self._gather, count, turns_left - 1)
            return
        self._is_gathering = False
        dirty, self._dirty = self._dirty, {}
        self._driver.propose(dirty)
        self.meter.proposed(count, self._boottime_ns())
        here = self._will_be_calm(count)
        self.turn(here=here)
        self._driver.look_ahead(dirty)
        if here:
            # What was begun is finished.
            self.turn(here=True)

    def _will_be_calm(self, count: int) -> bool:
        """Whether nothing is to be expected while a block of so many transactions is written."""
        self._calm_blocks = self._calm_blocks + 1 if self._was_calm else 0
        self._was_calm, self._proposed = False, count
        return (
            count <= config.CALM_TRANSACTIONS_MAX
            and self._calm_blocks >= config.CALM_BLOCKS_MIN
            and self._calm_blocks % config.CALM_LOOK_BLOCKS != 0
        )

    def _retry_stalled(self) -> None:
        self._retry = None
        self._driver.apply(list(self._driver.stalled))
        self.turn()

    def _turn_soon(self) -> None:
        if not self._is_turn_near:
            self._is_turn_near = True
            self._loop.call_soon(self._turn_now)

    def _turn_now(self) -> None:
        self._is_turn_near = False
        self.turn()

    def _tick(self) -> None:
        """Never early by the clock that leases are judged by, whatever the loop's timers do: who
        counts ticks too fast breaks the promise that others' leases stand on.
        """
        now_ns = self._boottime_ns()
        early_ns = self._tick_due_ns - now_ns
        if early_ns <= 0:
            early_ns = TICK_NS
            self._tick_due_ns = now_ns + TICK_NS
            self._groups.tick()
            self._driver.tick(now_ns)
            self.turn()
            self.on_tick(now_ns)
        # Timers of the loop are up to a millisecond early, and one that is early is a wakeup more.
        self._ticker = self._loop.call_later((early_ns + NS_PER_MS) / NS_PER_SECOND, self._tick)
