"""Which tenants of a fair queue are noisy: the rule alone, without storage or a clock.

A tenant is noisy from the moment it takes more than its share: over a tenth of the messages in
flight and not just a few of them, or over a tenth of the time that consumers recently spent. It is
quiet again when it has no backlog left, or when it has sent nothing for a while and takes no such
share any more.

A consumer's time with a message is from its receive to its delete; what nobody deletes in time
counts as in flight only. All of it is leader memory: after a restart nobody is known to hold
anything, and a noisy tenant is found out again by its next few messages.
"""

from collections.abc import Callable
from typing import Final

from fastnode import config

# Of messages without a tenant. Each of them is a tenant of its own, so together they are no one.
NOBODY: Final = ""
# What a tenant used less of than this part is forgotten when there are too many to remember.
_SMALL_PART: Final = 100


class Shares:
    __slots__ = ("_held", "_in_flight", "_times", "is_lenient", "noisy")

    def __init__(self) -> None:
        # Whose message it is, and since when somebody has it; as many as may be in flight.
        self._held: dict[int, tuple[str, int]] = {}
        self._in_flight: dict[str, int] = {}
        self._times = _Times()
        # When each of them sent something last, as far as that matters, in the order of discovery.
        self.noisy: dict[str, int] = {}
        # Nobody is noisy, whatever they take.
        self.is_lenient = False

    def holds(self, position: int) -> bool:
        return position in self._held

    def in_flight(self, tenant: str) -> int:
        return self._in_flight.get(tenant, 0)

    def hold(self, position: int, tenant: str, now_ms: int) -> None:
        self.let_go(position)
        self._held[position] = tenant, now_ms
        self._in_flight[tenant] = self.in_flight(tenant) + 1

    def let_go(self, position: int) -> tuple[str, int] | None:
        """Nobody has the message any more. Its tenant and since when somebody had it, if known."""
        held = self._held.pop(position, None)
        if held is not None:
            left = self._in_flight[held[0]] - 1
            if left:
                self._in_flight[held[0]] = left
            else:
                del self._in_flight[held[0]]
        return held

    def finish(self, position: int, now_ms: int) -> None:
        """A consumer is done with the message."""
        held = self.let_go(position)
        if held is not None:
            tenant, since_ms = held
            self._times.add(tenant, now_ms - since_ms, now_ms)

    def sent(self, tenant: str, now_ms: int) -> None:
        if tenant in self.noisy:
            self.noisy[tenant] = now_ms

    def is_noisy(self, tenant: str, now_ms: int) -> bool:
        if tenant not in self.noisy and self._takes_too_much(tenant, now_ms):
            self.noisy[tenant] = now_ms
        return tenant in self.noisy

    def quieten(self, now_ms: int, has_backlog: Callable[[str], bool]) -> list[str]:
        """Those that are noisy no more."""
        # Too many to look at: they are quiet as soon as they may be.
        is_crowded = len(self.noisy) > config.NOISY_TENANTS_MAX
        idle_since = now_ms - (0 if is_crowded else config.NOISY_IDLE_MS)
        quiet = [
            tenant
            for tenant, sent_ms in self.noisy.items()
            if self.is_lenient
            or not has_backlog(tenant)
            or (sent_ms <= idle_since and not self._takes_too_much(tenant, now_ms))
        ]
        for tenant in quiet:
            del self.noisy[tenant]
        return quiet

    def _takes_too_much(self, tenant: str, now_ms: int) -> bool:
        if tenant == NOBODY or self.is_lenient:
            return False
        count = self.in_flight(tenant)
        if count >= config.NOISY_IN_FLIGHT_MIN and _is_over(count, len(self._held)):
            return True
        return _is_over(*self._times.of(tenant, now_ms))


def _is_over(part: int, whole: int) -> bool:
    return part * config.NOISY_SHARE > whole


class _Times:
    """Milliseconds that consumers spent, by tenant, in this period and in the one before it."""

    __slots__ = ("_earlier", "_latest", "_period")

    def __init__(self) -> None:
        self._period = 0
        self._latest = _Sums()
        self._earlier = _Sums()

    def add(self, tenant: str, milliseconds: int, now_ms: int) -> None:
        self._turn(now_ms)
        if milliseconds > 0:
            self._latest.add(tenant, milliseconds)

    def of(self, tenant: str, now_ms: int) -> tuple[int, int]:
        """What the tenant took, and what all of them did."""
        self._turn(now_ms)
        latest, earlier = self._latest, self._earlier
        own = latest.parts.get(tenant, 0) + earlier.parts.get(tenant, 0)
        return own, latest.whole + earlier.whole

    def _turn(self, now_ms: int) -> None:
        period = now_ms // config.PROCESSING_PERIOD_MS
        if period > self._period:
            self._earlier = self._latest if period == self._period + 1 else _Sums()
            self._latest = _Sums()
            self._period = period


class _Sums:
    __slots__ = ("parts", "whole")

    def __init__(self) -> None:
        self.parts: dict[str, int] = {}
        self.whole = 0

    def add(self, tenant: str, amount: int) -> None:
        self.whole += amount
        if tenant == NOBODY:
            return
        self.parts[tenant] = self.parts.get(tenant, 0) + amount
        if len(self.parts) > config.PROCESSING_TENANTS_MAX:
            # Whoever takes too much is far above what is dropped.
            least = self.whole // _SMALL_PART
            self.parts = {name: part for name, part in self.parts.items() if part > least}
