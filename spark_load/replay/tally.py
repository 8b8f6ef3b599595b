"""What a lane has done so far, in numbers that do not grow: for progress and for the summary.

Lateness, how long after its due time a producer's call began, is kept in buckets of powers of two.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol

from spark_load.replay.answers import MessageRow
from spark_load.schema import SEND_ACTIONS, Outcome, Role

# The last bucket begins at 2^39 µs, six days.
BUCKETS: Final = 40
DELETE_ACTIONS: Final = ("DeleteMessage", "DeleteMessageBatch")


class Ended(Protocol):
    """What is counted of a call."""

    action: str
    role: Role
    attempt: int
    intended_us: int
    started_us: int


@dataclass
class Tally:
    """Counts of one lane; sums of them count several."""

    attempts: int = 0
    retries: int = 0
    refused: int = 0
    unknown: int = 0
    sent: int = 0
    received: int = 0
    deleted: int = 0
    late_us_max: int = 0
    # How far behind its schedule the lane is now.
    lag_us: int = 0
    late: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    errors: dict[str, int] = field(default_factory=dict)

    def attempt_ended(
        self, call: Ended, outcome: Outcome, error: str | None, messages: Sequence[MessageRow]
    ) -> None:
        self.attempts += 1
        if call.attempt:
            self.retries += 1
        elif call.role == "producer":
            self._began(call.started_us - call.intended_us)
        if outcome == "ok":
            self._succeeded(call.action, messages)
            return
        if outcome == "refused":
            self.refused += 1
        else:
            self.unknown += 1
        # Reasons come from servers: their number has a bound like everything else.
        reason = error or outcome
        if reason in self.errors or len(self.errors) < BUCKETS:
            self.errors[reason] = self.errors.get(reason, 0) + 1

    def _began(self, late_us: int) -> None:
        assert late_us >= 0, "nothing begins before it is due"
        self.late[min(late_us.bit_length(), BUCKETS - 1)] += 1
        if late_us > self.late_us_max:
            self.late_us_max = late_us

    def _succeeded(self, action: str, messages: Sequence[MessageRow]) -> None:
        if action in SEND_ACTIONS:
            self.sent += len(messages)
        elif action == "ReceiveMessage":
            self.received += len(messages)
        elif action in DELETE_ACTIONS:
            self.deleted += len(messages)

    def late_us(self, share: float) -> int:
        """A time that this share of the calls was not later than: the upper end of its bucket."""
        left = share * sum(self.late)
        for bucket, number in enumerate(self.late):
            left -= number
            if number and left <= 0:
                return int(min((1 << bucket) - 1, self.late_us_max))
        return self.late_us_max

    def fields(self) -> dict[str, Any]:
        return asdict(self)


def total(tallies: Sequence[Tally]) -> Tally:
    """Sums; the largest of what is a maximum."""
    whole = Tally()
    for tally in tallies:
        for name in ("attempts", "retries", "refused", "unknown", "sent", "received", "deleted"):
            setattr(whole, name, getattr(whole, name) + getattr(tally, name))
        whole.late_us_max = max(whole.late_us_max, tally.late_us_max)
        whole.lag_us = max(whole.lag_us, tally.lag_us)
        whole.late = [a + b for a, b in zip(whole.late, tally.late, strict=True)]
        for reason, number in tally.errors.items():
            whole.errors[reason] = whole.errors.get(reason, 0) + number
    return whole
