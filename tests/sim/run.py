"""One run of the simulator: what its seed chooses, from the first election to the last message.

First the cluster comes up and queues are created. Then clients work while things go wrong. Then
everything is mended: calls have to succeed, what was stored has to be there, once, the counters
have to say so, and all replicas have to hold the same rows.
"""

import asyncio
import gc
import logging
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from fastnode import config
from fastnode.clock import NS_PER_MS
from tests.model.queues import Kind, Model, QueueModel
from tests.model.spans import Violation
from tests.sim.allowed import no_partitions
from tests.sim.client import ANSWER_SECONDS, Client
from tests.sim.clockwork import NS_PER_SECOND, Bug, Clockwork, SimLoop, TrueClock, running
from tests.sim.cluster import SimCluster
from tests.sim.faults import EXPECTATIONS, REPLACEMENTS, STEP_MS_MAX, Faults, draw_mix
from tests.sim.network import Network
from tests.sim.states import are_letters_through, are_replicas_equal, check_kept_rows
from tests.sim.workload import ACTIONS, Changer, Finder, Maker, Often, Reader, Worker

# So that a short run flushes, compacts its log and needs snapshots.
SMALL_LIMITS: Final = {
    "FLUSH_INTERVAL_SECONDS": 3.0,
    "LOG_ENTRIES_KEPT": 20,
    "LOG_ENTRIES_KEPT_MIN": 4,
    # A thread that waits for an engine would wait by the clock of this machine.
    "HELD_WAIT_SECONDS": 0.0,
    "HELD_PAUSE_BATCHES": 3,
}
_OFTEN: Final[tuple[Often, ...]] = ({}, {"count": 10}, {"count": 10}, {"purge": 9, "recreate": 6})
_LOOKS: Final[Often] = {name: name in ("count", "look") for name, _ in ACTIONS}
_UP_SECONDS: Final = 15
_LIVE_SECONDS: Final = 40
_DRAIN_SECONDS: Final = 90
# Of CPU, where a good run takes less than one: a loop that never comes back to the simulator.
_CPU_SECONDS_MAX: Final = 60


Script = Callable[[Worker], Awaitable[None]]


class Report(NamedTuple):
    seed: int
    operations: int
    faults: int
    virtual_seconds: float
    trace_hash: str

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.operations} operations, {self.faults} faults, "
            f"{self.virtual_seconds:.1f} s, trace {self.trace_hash}"
        )


@contextmanager
def _surroundings() -> Iterator[Path]:
    """A place for small files, small limits, and nothing that runs by itself."""
    usual = {name: getattr(config, name) for name in SMALL_LIMITS}
    memory = Path("/dev/shm")
    logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        for name, value in SMALL_LIMITS.items():
            setattr(config, name, value)
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as path:
            yield Path(path)
    finally:
        for name, value in usual.items():
            setattr(config, name, value)
        logging.disable(logging.NOTSET)
        gc.enable()


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Whatever goes on for so long is ended, and is a bug."""
    bug = Bug(f"it does not end, {seconds:g} s of CPU are over")

    class Ended(KeyboardInterrupt):
        """Passes through whatever catches errors, as asyncio does."""

    def end(_signal: int, _frame: object) -> None:
        raise Ended

    usual = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except Ended:
        raise bug from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, usual)


def simulate(
    seed: int, story: Callable[[str], None] | None = None, *, is_plain: bool = False
) -> Report:
    """`Violation` or `Bug` say what is wrong."""
    with _surroundings() as path, bounded(_CPU_SECONDS_MAX):
        run = Run(seed, path, is_plain=is_plain)
        run.work.story = story
        try:
            return run.run()
        finally:
            run.close()
            del run
            _sweep()


def _sweep() -> None:
    """What is left of dead processes goes now; what it has to say to that concerns nobody."""
    usual, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        gc.collect()
    finally:
        sys.unraisablehook = usual


def outcome_of(seed: int) -> Report | str:
    """For many of them: what is wrong, in a line."""
    try:
        return simulate(seed)
    except Exception as error:
        told = f"seed {seed}: {error!r}\n"
    # What the error has held until now.
    _sweep()
    return told


class Run:
    def __init__(self, seed: int, path: Path, *, is_plain: bool) -> None:
        work = self.work = Clockwork(seed, is_plain=is_plain)
        random = self._random = work.random("plan")
        nodes = random.choices((1, 3, 5), (3, 6, 1))[0]
        self.network = Network(work)
        self.cluster = SimCluster(work, self.network, path, nodes, random.choice((1, 2, 3)))
        has_steps = random.randrange(3) == 0
        if not has_steps and nodes > 1 and (chance := work.varies("wrong clock")):
            self._set_one_clock(chance)
        step_ms_max = STEP_MS_MAX if has_steps else 0
        self.model = Model((60 + 4 * step_ms_max) * NS_PER_MS)
        self._seconds = random.randrange(4, 20)
        self._pause_ms = random.choice((30, 80, 200))
        self._fault_ms = random.choice((0, 500, 1_500, 4_000))
        mix = draw_mix(work)
        if not self._fault_ms and nodes > 1 and work.varies("expectations"):
            mix, self._fault_ms = EXPECTATIONS, 100
        self._loops: list[SimLoop] = []
        self.workers: list[Worker] = []
        self._client_hosts = [f"127.0.1.{at}" for at in range(1, random.randrange(2, 7))]
        leaves = random.choice((0, 5, 20))
        wanders, often = random.choice((1.0, 0.1, 0.1)), random.choice(_OFTEN)
        if is_hasty := work.varies("haste") is not None:
            leaves, wanders = 4, 1.0
        self.model.is_calm = not self._fault_ms and not leaves
        for at, host in enumerate(self._client_hosts):
            client = Client(f"c{at}", self._loop(host), work.random(host), self._hosts)
            client.leaves = leaves
            client.patience = random.choice(ANSWER_SECONDS)
            client.wanders = wanders
            client.is_hasty = is_hasty
            self.workers.append(Worker(work, self.model, client, often, self._pause_ms))
        if mix.is_watched or work.varies("watchers"):
            self.workers += [self._watcher(f"w{at}", f"127.0.3.{at}") for at in range(1, 4)]
        if mix.is_watched and self._fault_ms and nodes > 1 and work.varies("stale reads"):
            mix, self._fault_ms = REPLACEMENTS, 1_500
            self._add_neighbours(nodes)
        self.faults = Faults(self.cluster, self._loop("127.0.2.1"), self._client_hosts, mix)
        if not has_steps:
            self.faults.leave_out("set_clock")
        self.model.may_forget_retries = lambda: self.faults.members.have_changed
        self.model.has_stood_still = self.cluster.has_stood_still
        self.model.leaderships = self.cluster.leaderships

    def _set_one_clock(self, random: Random) -> None:
        """One is ahead by anything up to an hour, and nobody may notice. One that is behind by less
        than nobody led may be noticed: see what docs/testing.md says about it.
        """
        one = random.choice(list(self.cluster.nodes.values()))
        wrong_ms = random.choice((300, 5_000, 3_600_000))
        one.machine.clock.set_off(random.randrange(wrong_ms) * NS_PER_MS)

    def _watcher(self, name: str, host: str) -> Worker:
        """Somebody who only looks, all the time and everywhere. Others hear little of a node that
        does not know that it leads no more: they wait for what it cannot do.
        """
        client = Client(name, self._loop(host), self.work.random(host), self._hosts)
        client.patience = client.random.choice((0.5, ANSWER_SECONDS[-1]))
        return Worker(self.work, self.model, client, _LOOKS, pause_ms=150)

    def _add_neighbours(self, nodes: int) -> None:
        """Of each node: one who changes what is told of queues, or makes some, and one who is told
        it. A leader that does not know yet that others have replaced it knows nothing of that.
        """
        kinds: list[tuple[type[Worker], int]] = [(Changer, 50), (Reader, 50)]
        if self.work.varies("made queues"):
            kinds = [(Maker, 100), (Finder, 50)]
        for at in range(1, nodes + 1):
            for part, (kind, pause_ms) in enumerate(kinds, start=4):
                host, home = f"127.0.{part}.{at}", [f"127.0.0.{at}"]
                name = f"{kind.__name__[0].lower()}{host[-3:]}"
                client = Client(name, self._loop(host), self.work.random(host), home.copy)
                client.patience, client.attempts = 0.2, 1
                self.workers.append(kind(self.work, self.model, client, {}, pause_ms))

    def _hosts(self) -> list[str]:
        """Clients know the founders; of those who join they have not heard."""
        nodes = self.cluster.nodes.values()
        return [one.host for one in nodes if not one.is_lost and not one.joins]

    def _loop(self, host: str) -> SimLoop:
        loop = SimLoop(self.work, self.network, host, TrueClock(self.work))
        self._loops.append(loop)
        return loop

    def close(self) -> None:
        self.cluster.close()
        for loop in self._loops:
            loop.kill()
            loop.bury()

    # --- the acts -------------------------------------------------------------------------------

    def run(self) -> Report:
        began_ns = self.work.now_ns
        for one in self.cluster.nodes.values():
            self.cluster.start(one)
        self._until(self._is_whole, _UP_SECONDS, "the cluster does not come up")
        self._do("create the queues", self._create_queues, _LIVE_SECONDS)
        self._work()
        self._recover()
        self._do("drain", self._drain, _DRAIN_SECONDS)
        self._until(partial(are_letters_through, self.cluster), 10, "letters never arrive")
        self._until(partial(are_replicas_equal, self.cluster), 10, "the replicas differ")
        calls = sum(worker.calls for worker in self.workers)
        seconds = (self.work.now_ns - began_ns) / NS_PER_SECOND
        return Report(self.work.seed, calls, self.faults.count, seconds, self.work.trace_hash)

    def _until(self, is_over: Callable[[], bool], seconds: float, problem: str) -> None:
        end_ns = self.work.now_ns + round(seconds * NS_PER_SECOND)
        while not is_over():
            if self.work.now_ns >= end_ns:
                raise Violation(f"{problem}, {seconds:g} s are over")
            self.work.run(self.work.now_ns + 50 * NS_PER_MS)
            check_kept_rows(self.cluster)

    def _do(self, what: str, script: Script, seconds: float) -> None:
        """One client does something from beginning to end."""
        done: list[bool] = []

        async def act() -> None:
            await script(self.workers[0])
            done.append(True)

        self._begin(self._loops[0], act())
        self._until(lambda: bool(done), seconds, f"it takes too long to {what}")

    def _begin(self, loop: SimLoop, coroutine: Coroutine[Any, Any, None]) -> None:
        def check(task: "asyncio.Task[None]") -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.work.fail(error)

        with running(loop):
            loop.create_task(coroutine).add_done_callback(check)

    def _is_whole(self) -> bool:
        """All are up, every group is led, and retries are recognised everywhere."""
        self._start_again()
        nodes = self.cluster.nodes.values()
        # Whoever has just joined may never hear one who has left.
        has_joiner = any(one.joins for one in nodes)
        for one in nodes:
            if one.is_lost:
                continue
            node = one.node
            if node is None or not one.is_ready or not node.is_ready:
                return False
            if not (node.service.gates.recognises_retries or has_joiner):
                return False
        return True

    def _work(self) -> None:
        until_ns = self.work.now_ns + self._seconds * NS_PER_SECOND
        working = len(self.workers)

        def finished() -> None:
            nonlocal working
            working -= 1

        for worker, loop in zip(self.workers, self._loops, strict=False):
            worker.on_done = finished
            self._begin(loop, worker.run(until_ns))
        if self._fault_ms:
            self._begin(self._loops[-1], self.faults.run(until_ns, self._fault_ms))
            self._until(lambda: self.faults.is_over, self._seconds + 10, "faults go on")
        # A call that was begun may have to wait for its last attempt.
        self._until(lambda: not working, self._seconds + 300, "a call never ends")

    def _recover(self) -> None:
        for one in self.cluster.nodes.values():
            self.cluster.resume(one)
        self._until(self._are_members_settled, _LIVE_SECONDS, "members do not change")
        self._until(self._is_whole, _LIVE_SECONDS, "the cluster does not recover")

    def _are_members_settled(self) -> bool:
        self._start_again()
        return not self.faults.members.are_changing

    def _start_again(self) -> None:
        """A sync that is to fail may have waited until now for something to sync."""
        for one in self.cluster.nodes.values():
            if not one.is_up and not one.is_lost:
                self.cluster.start(one)

    # --- what clients do first and last ---------------------------------------------------------

    async def _create_queues(self, worker: Worker) -> None:
        random, names = self._random, list[str]()
        # Names that begin like each other have their rows beside each other.
        are_alike = self.work.varies("names") is not None
        for at in range(random.randrange(1, 4)):
            kind = self._draw_kind()
            end = ("0" * at if are_alike else str(at)) + (".fifo" if kind.is_fifo else "")
            name, dead_letters = f"q{end}", ""
            queue = self.model.add_queue(name, kind)
            if kind.receives_max:
                dead_letters = f"d{end}"
                other = Kind(kind.is_fifo, visibility_seconds=3, source=name)
                await worker.create(self.model.add_queue(dead_letters, other), "")
                names.append(dead_letters)
            await worker.create(queue, dead_letters)
            names.append(name)
        for one in self.workers:
            one.queues = names

    def _draw_kind(self) -> Kind:
        random = self._random
        is_fifo = random.randrange(2) == 0
        return Kind(
            is_fifo=is_fifo,
            partitions=random.choice((1, 1, 2, 4)) if is_fifo else 1,
            visibility_seconds=random.choice((2, 4, 8)),
            delay_seconds=random.choice((0, 0, 0, 1)),
            receives_max=random.choice((0, 0, 2, 3)),
        )

    async def _drain(self, worker: Worker) -> None:
        """Take and delete everything, until every queue says that it is empty."""
        began_ns = self.work.now_ns
        drained: set[str] = set()
        left: list[QueueModel] = []
        for queue in self.model.queues.values():
            is_somebody_away = any(one.is_lost for one in self.cluster.nodes.values())
            allowed = no_partitions(queue) if is_somebody_away else ()
            if await worker.create(queue, self._dead_letters_of(queue), allowed):
                left.append(queue)
        while left:
            for queue in left:
                for taken in await worker.take(queue, 10, 1, 30):
                    message = self.model.by_token[taken.token]
                    if taken.token in drained and not self.model.may_be_doubled(message):
                        raise Violation(f"{taken.token} is there twice")
                    if await worker.remove(taken):
                        drained.add(taken.token)
            left = [queue for queue in left if not await worker.is_empty(queue)]
            left = [queue for one in left for queue in one.family]
        for message in self.model.by_token.values():
            is_kept = message.is_surely_there(began_ns, began_ns)
            if is_kept and message.token not in drained:
                raise Violation(f"{message.token} is lost")

    def _dead_letters_of(self, queue: QueueModel) -> str:
        return next((one.name for one in queue.family if one.kind.source == queue.name), "")
