"""Virtual time and the event loops that live in it. Nothing here knows nodes or queues.

One `Clockwork` has all that will happen, in order. Every process of the simulation has a `SimLoop`
of its own, an asyncio event loop whose timers, sockets and threads are made up: its callbacks run
one at a time with it as the running loop. A loop can be paused, which is what SIGSTOP does to a
process, and killed, which is what kill -9 does.

What happens at the same moment happens in the order in which it was asked for, so a run depends on
its seed alone.
"""

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextvars import Context
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from fastnode.clock import NS_PER_MS

if TYPE_CHECKING:
    from tests.sim.network import Network

NS_PER_SECOND: Final = 1_000_000_000
# So much happens in a millisecond, or in a run, only if somebody wakes himself again and again: it
# is many times as much as in any good run.
EVENTS_AT_ONCE_MAX: Final = 10_000
EVENTS_MAX: Final = 500_000


class Bug(Exception):
    """A process of the simulation failed in a way that ends a real one."""


class Clock(Protocol):
    def boottime_ns(self) -> int: ...

    def until_ns(self, boottime_ns: int) -> int:
        """How long it takes, in true time, until the clock shows that."""
        ...


class TrueClock:
    """Of clients, who have no reason to be wrong."""

    def __init__(self, work: "Clockwork") -> None:
        self._work = work

    def boottime_ns(self) -> int:
        return self._work.now_ns

    def until_ns(self, boottime_ns: int) -> int:
        return boottime_ns - self._work.now_ns


class Clockwork:
    """All that will happen, and a fingerprint of all that has."""

    def __init__(self, seed: int, *, is_plain: bool = False) -> None:
        self.seed = seed
        self.is_plain = is_plain
        self.now_ns = NS_PER_SECOND
        self.events = 0
        # Since when so many, for at most a millisecond.
        self._recent_since_ns = self.now_ns
        self._recent_events = 0
        self.problem: BaseException | None = None
        # Lines for somebody who looks at one run; None: nobody does.
        self.story: Callable[[str], None] | None = None
        self._trace = blake2b(digest_size=8)
        self._due: deque[tuple[SimLoop, asyncio.Handle]] = deque()
        self._later: list[tuple[int, int, SimLoop, asyncio.Handle]] = []
        self._count = 0

    def random(self, purpose: str) -> Random:
        """Chance of its own for each purpose, so that one more choice here moves nothing there."""
        return Random(f"{self.seed} {purpose}")

    def varies(self, purpose: str) -> Random | None:
        """In every other run, and not in a plain one: chance for what came to the simulator later.
        Seeds that found something before are plain, and do what they did.
        """
        random = self.random(purpose)
        return None if self.is_plain or not random.randrange(2) else random

    def note(self, what: str) -> None:
        """Something happened that belongs to the run's fingerprint."""
        self._trace.update(b"%d %b\n" % (self.now_ns, what.encode()))
        if self.story is not None:
            self.story(f"{self.now_ns / NS_PER_SECOND:12.6f} {what}")

    def note_bytes(self, who: str, content: bytes) -> None:
        self._trace.update(b"%d %b %d\n" % (self.now_ns, who.encode(), len(content)))
        self._trace.update(content)

    @property
    def trace_hash(self) -> str:
        return self._trace.hexdigest()

    def soon(self, loop: "SimLoop", handle: asyncio.Handle) -> None:
        self._due.append((loop, handle))

    def later(self, delay_ns: int, loop: "SimLoop", handle: asyncio.Handle) -> None:
        self._count += 1
        at_ns = self.now_ns + max(delay_ns, 0)
        heapq.heappush(self._later, (at_ns, self._count, loop, handle))

    def run(self, until_ns: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """Until that time, or until it is over, or until something is wrong."""
        due, later = self._due, self._later
        while self.problem is None and not is_over():
            if not due:
                if not later or later[0][0] > until_ns:
                    self.now_ns = max(self.now_ns, until_ns)
                    break
                self._advance(later[0][0])
                while later and later[0][0] == self.now_ns:
                    due.append(heapq.heappop(later)[2:])
            loop, handle = due.popleft()
            if loop.is_paused:
                loop.held.append(handle)
            elif not loop.is_dead and not handle.cancelled():
                self._count_event(loop, handle)
                loop.run_handle(handle)
        if self.problem is not None:
            raise self.problem

    def _advance(self, now_ns: int) -> None:
        self.now_ns = now_ns
        if now_ns >= self._recent_since_ns + NS_PER_MS:
            self._recent_since_ns = now_ns
            self._recent_events = 0

    def _count_event(self, loop: "SimLoop", handle: asyncio.Handle) -> None:
        self.events += 1
        self._recent_events += 1
        if self._recent_events > EVENTS_AT_ONCE_MAX or self.events > EVENTS_MAX:
            self.fail(Bug(f"{loop.host} does not come to rest: {handle!r}"))

    def fail(self, problem: BaseException) -> None:
        """The run is over; the first problem counts."""
        self.problem = self.problem or problem


@contextlib.contextmanager
def running(loop: "SimLoop") -> Iterator[None]:
    """What happens within happens in that process."""
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


class SimLoop(asyncio.BaseEventLoop):
    """The event loop of one process on one host."""

    def __init__(self, work: Clockwork, network: "Network", host: str, clock: Clock) -> None:
        super().__init__()
        self.work = work
        self.host = host
        self.is_dead = False
        self.is_paused = False
        self.held: list[asyncio.Handle] = []
        # How long something takes that a thread does, in nanoseconds.
        self.thread_ns: Callable[[], int] = lambda: NS_PER_MS
        # Whether a thread has its effect when it begins; otherwise when it ends.
        self.is_thread_quick: Callable[[], bool] = lambda: True
        self.on_bug: Callable[[BaseException], None] = work.fail
        self._network = network
        self._clock = clock
        self._readers: dict[int, asyncio.Handle] = {}
        self._tasks: list[asyncio.Task[Any]] = []

    # --- time -----------------------------------------------------------------------------------

    def time(self) -> float:
        return self._clock.boottime_ns() / NS_PER_SECOND

    def call_soon(  # type: ignore[override]  # without a type for each argument
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self.work.soon(self, handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # as above

    def call_later(  # type: ignore[override]  # without a type for each argument
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # without a type for each argument
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        delay_ns = self._clock.until_ns(int(when * NS_PER_SECOND) + 1)
        self.work.later(delay_ns, self, handle)
        return handle

    def after_ns(self, delay_ns: int, callback: Callable[..., Any], *args: Any) -> None:
        """By true time, for what the world does to this process."""
        self.work.later(delay_ns, self, asyncio.Handle(callback, args, self))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A handle that is cancelled is left out when its time comes."""

    # --- running --------------------------------------------------------------------------------

    def run_handle(self, handle: asyncio.Handle) -> None:
        asyncio._set_running_loop(self)
        try:
            handle._run()
        finally:
            asyncio._set_running_loop(None)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, context=context)
        self._tasks.append(task)
        if len(self._tasks) > 1_000:
            self._tasks = [one for one in self._tasks if not one.done()]
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What ends a real node ends the run."""
        if self.is_dead:
            return
        error = context.get("exception")
        bug = Bug(f"{self.host}: {context.get('message')}: {error!r}")
        bug.__cause__ = error
        self.on_bug(bug)

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Debugging asyncio costs time and finds nothing that a failed run does not."""

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self.is_dead

    # --- processes ------------------------------------------------------------------------------

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        held, self.held = self.held, []
        for handle in self._in_any_order(held):
            self.work.soon(self, handle)

    def _in_any_order(self, held: list[asyncio.Handle]) -> list[asyncio.Handle]:
        """What waits in several sockets is read in no order in particular: a process that goes on
        may see a client's request before it hears that others lead now. Timers that have run out
        meanwhile come in between, or after all that can be read, as asyncio has it.
        """
        purpose = f"resume {self.host} {self.work.now_ns}"
        places = [at for at, handle in enumerate(held) if self._network.is_arrival(handle)]
        arrivals = [held[at] for at in places]
        self.work.random(purpose).shuffle(arrivals)
        for at, handle in zip(places, arrivals, strict=True):
            held[at] = handle
        if self.work.varies(purpose):
            held.sort(key=lambda handle: isinstance(handle, asyncio.TimerHandle))
        return held

    def kill(self) -> None:
        """Nothing of it happens any more."""
        self.is_dead = True
        self.is_paused = False
        self.held.clear()
        self._readers.clear()
        self._network.host_died(self)

    def bury(self) -> None:
        """Unwind what was under way when it was killed, without effect on anybody."""
        assert self.is_dead
        with running(self):
            for task in self._tasks:
                if not task.done():
                    # asyncio would complain about a task that nobody waits for.
                    setattr(task, "_log_destroy_pending", False)  # noqa: B010
                    close_coroutine(task.get_coro())
        self._tasks.clear()

    # --- threads and files ----------------------------------------------------------------------

    def run_in_executor(  # type: ignore[override]  # without its overloads
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        outcome: list[Callable[[], None]] = []

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:
                failure = error
                outcome.append(lambda: future.set_exception(failure))
            else:
                outcome.append(lambda: future.set_result(result))

        def finish() -> None:
            if not outcome:
                work()
            if not future.cancelled():
                outcome[0]()

        if self.is_thread_quick():
            work()
        self.after_ns(self.thread_ns(), finish)
        return future

    def add_reader(  # type: ignore[override]  # without a type for each argument
        self, fd: Any, callback: Callable[..., Any], *args: Any
    ) -> None:
        self._readers[fd] = asyncio.Handle(callback, args, self)

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None

    def readable(self, fd: int) -> None:
        """The descriptor has something to read."""
        if handle := self._readers.get(fd):
            handle._run()

    # --- sockets --------------------------------------------------------------------------------

    async def create_server(self, *args: Any, **options: Any) -> Any:
        factory, host, port = args
        return self._network.listen(self, factory, host, port)

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        factory, host, port = args
        return await self._network.dial(self, factory, host, port)


def close_coroutine(coroutine: Any) -> None:
    """Its `finally`s run, as far as they can in a dead process."""
    # Whatever goes wrong in a dead process concerns nobody.
    with contextlib.suppress(Exception):
        coroutine.close()
