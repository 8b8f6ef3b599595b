"""Requests by action and outcome, how long they took, and a line in the log for the slow ones.

The time of a send is taken in C: two looks at a clock and two sums. Everything else is left to
whoever reads the metrics.
"""

import logging
from collections import Counter
from typing import Final

from fastnode.config import WAIT_SECONDS_MAX
from fastnode.errors import OperationError
from fastnode.meter import NS_PER_SECOND, from_counts
from fastnode.native import Times, now_ns
from fastnode.queue.errors import SqsError

UNKNOWN: Final = "unknown"
OK: Final = "ok"
_WAITING_ACTION: Final = "ReceiveMessage"
_THROTTLED: Final = "RequestThrottled"
_NEVER_NS: Final = 1 << 62
_NS_PER_MS: Final = 1_000_000
# When everything is slow, lines about it must not make it slower.
_LINES_PER_SECOND: Final = 10

log: Final = logging.getLogger("fastnode.slow")


class ActionMeter:
    __slots__ = ("failed", "times", "took")

    def __init__(self, slow_ns: int) -> None:
        self.times = Times(slow_ns)
        self.took = self.times.took
        self.failed: Counter[str] = Counter()


class RequestMeter:
    """`slow_ms` 0 means that no request is slow."""

    def __init__(
        self,
        *,
        slow_ms: int = 0,
    ) -> None:
        self._second = self._said = self._unsaid = 0
        self._slow_ms = slow_ms
        self._by_action: dict[str, ActionMeter] = {}
        # What was refused before anybody knew what it wanted.
        self.unknown: Counter[str] = Counter()

    def of(self, action: str) -> ActionMeter:
        """Of an action that exists: there are as many as the API has."""
        found = self._by_action.get(action)
        if found is None:
            found = self._by_action[action] = ActionMeter(_slow_ns(action, self._slow_ms))
        return found

    def ended(
        self, action: str, began_ns: int, request_id: str, error: BaseException | None
    ) -> None:
        meter = self.of(action)
        if error is not None:
            meter.failed[outcome_of(error)] += 1
        if meter.took(began_ns):
            self.slow(action, began_ns, request_id)

    def refuse(self, action: str | None, error: SqsError) -> None:
        """Refused before it was begun: it took no time to speak of."""
        failed = self.unknown
        if action is not None:
            failed = self.of(action).failed
            self.of(action).times.add(1)
        failed[outcome_of(error)] += 1

    def metrics(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for action, meter in self._by_action.items():
            times = from_counts(*meter.times.seen())
            if times.count:
                label = f'action="{action}"'
                outcomes = {OK: times.count - meter.failed.total(), **meter.failed}
                for outcome, count in outcomes.items():
                    found[f'fastnode_requests_total{{{label},outcome="{outcome}"}}'] = count
                found.update(times.samples("fastnode_request_seconds", label))
        for outcome, count in self.unknown.items():
            name = f'fastnode_requests_total{{action="{UNKNOWN}",outcome="{outcome}"}}'
            found[name] = count
        return found

    def slow(self, action: str, began_ns: int, request_id: str) -> None:
        """Say so, unless enough is said."""
        now = now_ns()
        second = now // NS_PER_SECOND
        if second != self._second:
            self._second, self._said = second, 0
        if self._said >= _LINES_PER_SECOND:
            self._unsaid += 1
            return
        self._said += 1
        fields = {
            "action": action,
            "milliseconds": (now - began_ns) // _NS_PER_MS,
            "request_id": request_id,
        }
        if self._unsaid:
            fields["more_were_slow"] = self._unsaid
            self._unsaid = 0
        log.warning("slow request", extra=fields)


def _slow_ns(action: str, slow_ms: int) -> int:
    """A receive that waits for a message is not slow."""
    if not slow_ms:
        return _NEVER_NS
    waits_ns = WAIT_SECONDS_MAX * NS_PER_SECOND if action == _WAITING_ACTION else 0
    return slow_ms * _NS_PER_MS + waits_ns


def outcome_of(error: BaseException) -> str:
    if isinstance(error, SqsError):
        is_throttled = error.row.shape == _THROTTLED
        return "throttled" if is_throttled else "refused"
    return "unavailable" if isinstance(error, OperationError) else "bug"
