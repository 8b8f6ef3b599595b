"""What an attempt's end means, and whether the call is tried again. Pure.

`ok` took effect. `refused` and `unsent` had no effect: the server said so, or never got a byte.
`unknown` is everything else: a lost answer and a 5xx may have taken effect.
"""

import zlib
from dataclasses import dataclass
from typing import Final, NamedTuple

from spark_load.schema import Outcome

# Refusals that end by themselves. The names are those after the `#` of `__type`.
THROTTLED: Final = frozenset(
    {"RequestThrottled", "ThrottlingException", "Throttling", "TooManyRequestsException"}
)


class Lost(NamedTuple):
    """A request without an answer: never sent, or with an unknown effect."""

    outcome: Outcome
    reason: str


def outcome_of(status: int) -> Outcome:
    """Of an answer with this status."""
    if status >= 500:
        return "unknown"
    return "ok" if 200 <= status < 300 else "refused"


@dataclass(frozen=True)
class RetryPolicy:
    """How often, and how long after the last attempt. The pauses double and are spread by a hash of
    the call, so lanes that failed together do not return together, and a run can be repeated.
    """

    attempts: int = 5
    pause_ms: int = 100
    pause_ms_max: int = 5_000

    def pause_us(self, call: str, attempt: int, outcome: Outcome, error: str | None) -> int | None:
        """µs from the end of the attempt (counted from 0) to the next; None to leave it at that."""
        if attempt + 1 >= self.attempts or not may_repeat(outcome, error):
            return None
        longest = min(self.pause_ms << attempt, self.pause_ms_max) * 1_000
        spread = zlib.crc32(f"{call}/{attempt}".encode()) / 2**32
        return int(longest * (0.5 + 0.5 * spread))


def may_repeat(outcome: Outcome, error: str | None) -> bool:
    return outcome in ("unknown", "unsent") or error in THROTTLED
