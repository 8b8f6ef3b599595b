"""Whether it is worth asking a leader that did not answer: a circuit breaker. Pure.

Closed, it lets everything pass; three failures in a row open it. Open, it refuses at once, for a
time that doubles with each failed probe. Then one call is let through as a probe, and its end
decides. It belongs to one leader in one term: another leader begins with a clean slate.

Each of these states is an *era*, and only calls of the present one count: when a leader dies, a
thousand calls that were on their way to it say no more than three of them.
"""

from typing import Final

FAILURES_MAX: Final = 3
OPEN_SECONDS_MIN: Final = 0.1
OPEN_SECONDS_MAX: Final = 2.0

# A leader, and the term in which it leads.
Identity = tuple[int, int]


class Breaker:
    __slots__ = ("_era", "_failures", "_identity", "_is_probing", "_open_seconds", "_open_until")

    def __init__(self) -> None:
        self._identity: Identity = (0, 0)
        self._era = 0
        self._failures = 0
        self._is_probing = False
        self._open_seconds = OPEN_SECONDS_MIN
        self._open_until = 0.0

    def admit(self, identity: Identity, now: float) -> int | None:
        """None: do not ask now. Otherwise the era, for whoever is admitted to tell how it ended, by
        `settle` or `withdraw`.
        """
        if identity != self._identity:
            self._identity = identity
            self._close()
        elif self._failures >= FAILURES_MAX:
            if self._is_probing or now < self._open_until:
                return None
            self._is_probing = True
            self._era += 1
        return self._era

    def settle(self, era: int, now: float, *, is_failure: bool) -> None:
        if era != self._era:
            return
        if is_failure:
            self._failures += 1
            if self._failures >= FAILURES_MAX:
                self._open(now)
        elif self._is_probing:
            self._close()
        else:
            self._failures = 0

    def withdraw(self, era: int) -> None:
        """The caller has gone: that says nothing about the leader."""
        if era == self._era:
            self._is_probing = False

    def _open(self, now: float) -> None:
        self._era += 1
        self._is_probing = False
        self._open_until = now + self._open_seconds
        self._open_seconds = min(2 * self._open_seconds, OPEN_SECONDS_MAX)

    def _close(self) -> None:
        self._era += 1
        self._failures = 0
        self._is_probing = False
        self._open_seconds = OPEN_SECONDS_MIN
        self._open_until = 0.0
