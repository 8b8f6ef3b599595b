"""Rate limits of a queue: token buckets that pay for calls. Pure: the time is an argument.

The attributes are ours, not AWS's: three pairs of a capacity and a refill. Sends are paid from the
Send bucket, everything that a consumer does from the Recv bucket; whoever has no bucket of its own
pays from Default, and is free if there is none. Buckets live in the leader's memory and are full
when they are new. Amounts are whole billionths of a token, so that nothing is ever rounded.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from fastnode.config import BATCH_ENTRIES_MAX
from fastnode.queue.errors import invalid_attribute_value, request_throttled

_NUMBER_MATCH: Final = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,6}))?").fullmatch
_DECIMALS: Final = 6
# One billionth in a millisecond is one millionth in a second, the smallest refill.
_TOKEN: Final = 1_000_000_000
_PER_SECOND: Final = 1_000
_AMOUNT_MAX: Final = 100_000
_RETRY_SECONDS_MAX: Final = 3_600

_PAIRS: Final = ("ThrottleSend", "ThrottleRecv", "ThrottleDefault")
_CAPACITY: Final = "Capacity"
_REFILL: Final = "RefillPerSecond"
ATTRIBUTE_NAMES: Final = tuple(pair + part for pair in _PAIRS for part in (_CAPACITY, _REFILL))
OFF: Final = "0"


# --- Attributes ---------------------------------------------------------------------------------


class Limit(Struct, frozen=True, gc=False):
    """Billionths of a token: how many a full bucket holds, how many come back per millisecond."""

    capacity: int
    refill: int


class Limits(Struct, frozen=True):
    """The limits of one queue, at least one of them."""

    send: Limit | None
    receive: Limit | None
    default: Limit | None


def parse_amount(text: str) -> str | None:
    """Normal form of a capacity or a refill: a decimal number without needless zeros."""
    match = _NUMBER_MATCH(text)
    if match is None or _millionths(text) > _AMOUNT_MAX * 10**_DECIMALS:
        return None
    decimals = (match[2] or "").rstrip("0")
    return f"{int(match[1])}.{decimals}" if decimals else str(int(match[1]))


def limits_of(stored: Mapping[str, str]) -> Limits | None:
    """The limits that attributes in normal form describe; None if there are none."""
    limits = Limits(*(_limit(stored, pair) for pair in _PAIRS))
    return limits if limits.send or limits.receive or limits.default else None


def check_limits(stored: Mapping[str, str]) -> None:
    """The rules that tie a capacity to its refill."""
    for pair in _PAIRS:
        capacity, refill = (
            _millionths(stored.get(pair + part, OFF)) for part in (_CAPACITY, _REFILL)
        )
        reason = None
        if not capacity or not refill:
            reason = "The capacity and the refill are both zero or both positive."
        elif capacity < refill:
            reason = "The capacity is at least what is refilled in a second."
        elif capacity < BATCH_ENTRIES_MAX * 10**_DECIMALS:
            reason = f"The capacity is at least {BATCH_ENTRIES_MAX}, one full batch."
        if reason and (capacity or refill):
            raise invalid_attribute_value(pair + _CAPACITY, reason)


def _limit(stored: Mapping[str, str], pair: str) -> Limit | None:
    if pair + _CAPACITY not in stored:
        return None
    capacity, refill = _millionths(stored[pair + _CAPACITY]), _millionths(stored[pair + _REFILL])
    return Limit(capacity * (_TOKEN // 10**_DECIMALS), refill)


def _millionths(text: str) -> int:
    whole, _, decimals = text.partition(".")
    return int(whole + decimals.ljust(_DECIMALS, "0"))


# --- Buckets ------------------------------------------------------------------------------------


class Bucket:
    """Full when it is new, whatever the time is."""

    __slots__ = ("_level", "_limit", "_seen_ms")

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._level = limit.capacity
        self._seen_ms = 0

    def take(self, tokens: int, now_ms: int) -> int:
        """Take all of them, or none. 0, or the seconds after which there will be enough."""
        limit = self._limit
        elapsed_ms = max(now_ms - self._seen_ms, 0)
        self._level = min(self._level + elapsed_ms * limit.refill, limit.capacity)
        self._seen_ms += elapsed_ms
        missing = tokens * _TOKEN - self._level
        if missing > 0:
            seconds = -(-missing // (limit.refill * _PER_SECOND))
            return min(seconds, _RETRY_SECONDS_MAX)
        self._level = -missing
        return 0


class Throttle:
    """The buckets of one queue."""

    __slots__ = ("_receive", "_send", "limits")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        default = _bucket(limits.default)
        self._send = _bucket(limits.send) or default
        self._receive = _bucket(limits.receive) or default

    def charge_send(self, tokens: int, now_ms: int) -> None:
        _charge(self._send, tokens, now_ms)

    def charge_receive(self, tokens: int, now_ms: int) -> None:
        """For a receive, a delete or a change of visibility."""
        _charge(self._receive, tokens, now_ms)


def throttle_of(limits: Limits | None, current: Throttle | None) -> Throttle | None:
    """What a queue has once its limits are these; only other limits make other buckets."""
    if limits is None:
        return None
    return current if current is not None and current.limits == limits else Throttle(limits)


def _bucket(limit: Limit | None) -> Bucket | None:
    return None if limit is None else Bucket(limit)


def _charge(bucket: Bucket | None, tokens: int, now_ms: int) -> None:
    wait_seconds = bucket.take(tokens, now_ms) if bucket is not None else 0
    if wait_seconds:
        raise request_throttled(wait_seconds)
