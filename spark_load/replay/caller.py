"""Calls and their attempts: signed, sent, recorded, tried again by policy.

Every attempt becomes a row of the history. A call knows nothing of who waits for it: producers
count its end, consumers await it.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol, Self

from spark_load.replay.answers import MessageRow
from spark_load.replay.attempts import Lost, RetryPolicy
from spark_load.replay.clock import LaneClock
from spark_load.replay.connections import Pool
from spark_load.replay.http1 import Answer
from spark_load.replay.judgement import RECEIVE, judge
from spark_load.replay.plan import Endpoint, Settings
from spark_load.replay.requests import Held
from spark_load.replay.signing import Signer
from spark_load.replay.tally import Tally
from spark_load.schema import Outcome, Role

TURN_SECONDS: Final = 0.01
SWEEP_TURNS: Final = 20


class Recorder(Protocol):
    """Takes the rows of the history, in the order of `schema.CALL_COLUMNS`."""

    def add(self, row: tuple[object, ...]) -> None: ...


class Call:
    """One call. `messages` are those it is about; their rows are settled when it ends."""

    __slots__ = (
        "_caller", "action", "answer", "attempt", "body", "done", "ended_us", "held",
        "intended_us", "messages", "op", "outcome", "pool", "queue", "role", "serial",
        "started_us", "timeout_us", "visibility", "wire",
    )  # fmt: skip

    def __init__(
        self,
        caller: "Caller",
        role: Role,
        action: str,
        queue: str,
        body: bytes,
        done: "Callable[[Call], None]",
        messages: Sequence[MessageRow] = (),
        op: int | None = None,
        visibility: int | None = None,
    ) -> None:
        self._caller = caller
        self.role = role
        self.action = action
        self.queue = queue
        self.body = body
        self.done = done
        self.messages = messages
        self.op = op
        self.visibility = visibility
        self.serial = next(caller.serials)
        self.timeout_us = caller.timeout_us
        self.attempt = 0
        self.intended_us = 0
        self.started_us = 0
        self.ended_us = 0
        self.wire = b""
        self.answer = b""
        self.outcome: Outcome = "unsent"
        self.held: Sequence[Held] = ()
        self.pool = caller.pool_of(self.serial)

    def ended(self, result: Answer | Lost) -> None:
        self._caller.attempt_ended(self, result)


class Caller:
    """All calls of one lane."""

    def __init__(
        self,
        settings: Settings,
        lane: int,
        run: str,
        clock: LaneClock,
        recorder: Recorder,
        tally: Tally,
    ) -> None:
        self.timeout_us = int(settings.call_seconds * 1e6)
        self.tally = tally
        self._lane = lane
        self._name = f"{lane}."
        self._run = run
        self._clock = clock
        self._recorder = recorder
        self._policy: RetryPolicy = settings.retries
        self._is_open_loop = settings.is_open_loop
        self._signer = Signer(settings.credentials)
        self._pools = [
            Pool(endpoint, settings.connections, clock, ssl_context(settings, endpoint))
            for endpoint in settings.endpoints
        ]
        self.serials = count()
        self._invocation = f"{run}-{lane:04x}-4000-8000-".encode()
        self._later: list[tuple[int, int, Call]] = []
        self._is_closed = False

    def pool_of(self, turn: int) -> Pool:
        """The endpoints in turn."""
        return self._pools[(self._lane + turn) % len(self._pools)]

    def _pool_that_is_up(self, turn: int) -> Pool:
        """In turn from there on; if all are down, the first."""
        turns = range(turn, turn + len(self._pools))
        up = (pool for pool in map(self.pool_of, turns) if not pool.is_down)
        return next(up, self.pool_of(turn))

    def sign(self, call: Call) -> None:
        """Makes the bytes of the call's next attempt."""
        call.wire = self._signer.request(
            call.pool.authority,
            call.action,
            call.body,
            b"%b%012x" % (self._invocation, call.serial),
            call.attempt + 1,
            self._clock.now_us() // 1_000_000,
            call.action == RECEIVE,
        )

    def start(self, call: Call) -> None:
        """The first attempt. The call is due at its `intended_us`."""
        if call.pool.is_down:
            # It was well when the request was made for it.
            call.pool = self._pool_that_is_up(call.serial)
            call.wire = b""
        if not call.wire:
            self.sign(call)
        call.pool.submit(call)

    async def perform(
        self,
        role: Role,
        action: str,
        queue: str,
        body: bytes,
        *,
        messages: Sequence[MessageRow] = (),
        visibility: int | None = None,
        wait_seconds: int = 0,
    ) -> Call:
        """A call that is due now; returns when it has ended, well or not."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(_: Call) -> None:
            if not ended.done():
                ended.set_result(None)

        call = Call(
            self,
            role=role,
            action=action,
            queue=queue,
            body=body,
            done=done,
            messages=messages,
            visibility=visibility,
        )
        call.timeout_us += wait_seconds * 1_000_000
        call.intended_us = self._clock.now_us()
        self.start(call)
        await ended
        return call

    def run_due(self, now_us: int) -> None:
        """The attempts whose pause is over."""
        while self._later and self._later[0][0] <= now_us:
            call = heappop(self._later)[2]
            self.sign(call)
            call.pool.submit(call)

    async def warm(self, count: int) -> None:
        for pool in self._pools:
            await pool.warm(count)

    async def __aenter__(self) -> Self:
        self._keeping = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._keeping.cancel()
        await self.close()

    async def _keep(self) -> None:
        """Repeats what is to be repeated, gives up what takes too long."""
        for turn in count():
            await asyncio.sleep(TURN_SECONDS)
            now_us = self._clock.now_us()
            self.run_due(now_us)
            if turn % SWEEP_TURNS == 0:
                for pool in self._pools:
                    pool.sweep(now_us)

    async def close(self) -> None:
        """Calls that have not ended end with what they know; nothing is tried again."""
        self._is_closed = True
        for pool in self._pools:
            await pool.close()
        while self._later:
            call = heappop(self._later)[2]
            call.done(call)

    def attempt_ended(self, call: Call, result: Answer | Lost) -> None:
        now_us = self._clock.now_us()
        outcome, status, error, messages, cost, call.held = judge(
            call.action, call.messages, result
        )
        if isinstance(result, Answer):
            call.answer = result.body
        if not self._is_open_loop and call.attempt == 0:
            call.intended_us = call.started_us
        self._recorder.add(
            (
                f"{self._name}{call.serial}", call.attempt, self._lane, call.role, call.op,
                call.action, call.queue, call.pool.url, call.intended_us, call.started_us,
                now_us, outcome, status, error, call.visibility, *cost, messages,
            )
        )  # fmt: skip
        call.outcome = outcome
        call.ended_us = now_us
        self.tally.attempt_ended(call, outcome, error, messages)
        if outcome == "ok":
            call.done(call)
        else:
            self._try_again(call, now_us, outcome, error)

    def _try_again(self, call: Call, now_us: int, outcome: Outcome, error: str | None) -> None:
        """If the policy has it so."""
        pause_us = None
        if not self._is_closed:
            name = f"{self._run}.{self._lane}.{call.serial}"
            pause_us = self._policy.pause_us(name, call.attempt, outcome, error)
        if pause_us is None:
            call.done(call)
            return
        call.attempt += 1
        # Another endpoint, if there is one: this one may be gone.
        call.pool = self._pool_that_is_up(call.serial + call.attempt)
        heappush(self._later, (now_us + pause_us, call.serial, call))


def ssl_context(settings: Settings, endpoint: Endpoint) -> ssl.SSLContext | None:
    if endpoint.scheme == "http":
        return None
    return ssl.create_default_context(cafile=settings.ca_file)
