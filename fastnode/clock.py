"""Time and chance. A leaf.

Here: the protocols through which the rest of the node sees the machine's clocks and randomness,
their real versions, and the arithmetic of the group clock that a leader stamps transactions with.
Not here: timers and deadlines, which belong to the shells, and any decision about what a timestamp
means.

A timestamp is a u64 hybrid logical clock: milliseconds since 1970 << 16 | counter.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from fastnode.native import boottime_ns, message_id_text

COUNTER_BITS: Final = 16
TIMESTAMP_MAX: Final = (1 << 64) - 1
SLEW_PPM_MAX: Final = 500
# Often enough that a drifting crystal is followed, rarely enough that the wall clock is not read
# for every stamp.
STEER_INTERVAL_NS: Final = 100_000_000
NS_PER_MS: Final = 1_000_000
_LAST_BYTES: Final = tuple(f"{number:02x}" for number in range(256))
# What two divisions may lose.
_ROUNDING_NS: Final = 2


class Clock(Protocol):
    """What the machine can tell about time."""

    def boottime_ns(self) -> int:
        """Nanoseconds that only ever grow, suspended time included; unrelated to the calendar."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since 1970 as the operator's clock has it; may step in either direction."""
        ...


class IdSource(Protocol):
    """Bytes that nobody can guess: call identities, queue secrets, hash seeds."""

    def take(self, count: int) -> bytes: ...


class Rng(Protocol):
    """Small choices that must differ between nodes, such as election jitter."""

    def below(self, bound: int) -> int:
        """A number in [0, bound)."""
        ...


class SystemClock:
    """CLOCK_BOOTTIME, because a suspended laptop's messages age too, and CLOCK_REALTIME.

    Functions, not methods: the group clock reads the time once per transaction.
    """

    def __init__(self) -> None:
        self.boottime_ns = boottime_ns
        self.wall_ns = partial(time.clock_gettime_ns, time.CLOCK_REALTIME)


class SystemIdSource:
    """The kernel's generator, read in blocks: a slice is cheaper than a system call per request.

    Make it after forking: two processes that share a block would mint the same identities.
    """

    BLOCK_BYTES = 4096

    def __init__(self) -> None:
        self._block = b""
        self._offset = 0

    def take(self, count: int) -> bytes:
        assert 0 < count <= self.BLOCK_BYTES
        end = self._offset + count
        if end > len(self._block):
            self._block = os.urandom(self.BLOCK_BYTES)
            end = count
        self._offset = end
        return self._block[end - count : end]


class RequestIds:
    """Texts in the form of UUIDs, one for each request. They name requests and protect nothing, so
    the last byte of one in 256 that is drawn by chance counts the others.
    """

    __slots__ = ("_drawn", "_ids", "_used")

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._drawn = ""
        self._used = len(_LAST_BYTES)

    def __call__(self) -> str:
        used = self._used
        if used == len(_LAST_BYTES):
            self._drawn = message_id_text(self._ids.take(16))[:-2]
            used = 0
        self._used = used + 1
        return self._drawn + _LAST_BYTES[used]


class SystemRng:
    """Choices drawn from an `IdSource`; with eight bytes the bias is below 2^-32."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids

    def below(self, bound: int) -> int:
        assert 0 < bound <= 1 << 32
        return int.from_bytes(self._ids.take(8), "big") % bound


def timestamp_from_ms(milliseconds: int) -> int:
    """The smallest timestamp of a millisecond."""
    return milliseconds << COUNTER_BITS


def milliseconds_of(timestamp: int) -> int:
    return timestamp >> COUNTER_BITS


class GroupClock:
    """The time of one Raft group, as its leader stamps it.

    Theory of operation. At the start of a leadership the clock is anchored at the later of the last
    applied timestamp and the target (the wall clock of a single voter, the voters' median
    otherwise). From there it advances with CLOCK_BOOTTIME. Every `STEER_INTERVAL_NS` it looks at
    the target again and, until the next look, runs at most `SLEW_PPM_MAX` faster or slower to come
    nearer. So a step of the wall clock never steps the group's time, it only bends it by half a
    millisecond a second, and time never stands still or runs backwards.

    Stamps are strictly increasing: when more than one falls into a millisecond the counter counts,
    and when the counter is used up the addition carries into the milliseconds.

    A busy group stamps many times in a millisecond: until the next one can have begun, however fast
    the clock runs, the last result is the result.
    """

    __slots__ = (
        "_anchor_boot_ns",
        "_anchor_ns",
        "_current",
        "_error_ns",
        "_last",
        "_same_until_boot_ns",
        "_target_ns",
        "boottime_ns",
    )

    def __init__(self, clock: Clock, target_ns: Callable[[int], int] | None = None) -> None:
        """`target_ns` is told how far the group's time has come."""
        self.boottime_ns = clock.boottime_ns
        self._target_ns = target_ns or (lambda _reached_ns: clock.wall_ns())
        self._last = 0
        self.lead(applied_ts=0)

    def lead(self, applied_ts: int) -> None:
        """Begin a leadership; `applied_ts` is the last timestamp that the log has applied."""
        self.observe(applied_ts)
        floor_ns = milliseconds_of(self._last) * NS_PER_MS
        target_ns = self._target_ns(floor_ns)
        self._anchor_boot_ns = self.boottime_ns()
        self._anchor_ns = max(floor_ns, target_ns)
        self._error_ns = target_ns - self._anchor_ns
        self._same_until_boot_ns = self._anchor_boot_ns

    def observe(self, applied_ts: int) -> None:
        """Never stamp at or below a timestamp that the log already holds."""
        assert 0 <= applied_ts <= TIMESTAMP_MAX
        if applied_ts > self._last:
            self._last = applied_ts

    def stamp(self) -> int:
        """Take the next timestamp: above every one taken or observed before."""
        boot_ns = self.boottime_ns()
        current = self._current if boot_ns < self._same_until_boot_ns else self._read(boot_ns)
        last = self._last
        self._last = stamped = current if current > last else last + 1
        assert stamped <= TIMESTAMP_MAX
        return stamped

    def now(self) -> int:
        """Look without taking: never below the last stamp, never above the next one."""
        boot_ns = self.boottime_ns()
        current = self._current if boot_ns < self._same_until_boot_ns else self._read(boot_ns)
        return max(current, self._last)

    def _read(self, boot_ns: int) -> int:
        """The first timestamp of the millisecond that the group's time is in."""
        elapsed_ns = boot_ns - self._anchor_boot_ns
        time_ns = self._anchor_ns + elapsed_ns + slew_ns(self._error_ns, elapsed_ns)
        if elapsed_ns >= STEER_INTERVAL_NS:
            # Anchoring anew at the time just computed keeps the line unbroken; only its slope
            # changes.
            self._anchor_boot_ns = boot_ns
            self._anchor_ns = time_ns
            self._error_ns = self._target_ns(time_ns) - time_ns
        milliseconds = time_ns // NS_PER_MS
        left_ns = (milliseconds + 1) * NS_PER_MS - time_ns
        self._same_until_boot_ns = min(
            boot_ns + left_ns - left_ns * SLEW_PPM_MAX // 1_000_000 - _ROUNDING_NS,
            self._anchor_boot_ns + STEER_INTERVAL_NS,
        )
        self._current = milliseconds << COUNTER_BITS
        return self._current


def slew_ns(error_ns: int, elapsed_ns: int) -> int:
    """How much of an error may be made good while `elapsed_ns` pass."""
    limit_ns = elapsed_ns * SLEW_PPM_MAX // 1_000_000
    if error_ns > limit_ns:
        return limit_ns
    return error_ns if error_ns > -limit_ns else -limit_ns
