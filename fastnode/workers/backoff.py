"""When a worker that has ended is started again, and how its end is told. Pure."""

import signal
from typing import Final

SECONDS_MIN: Final = 0.1
SECONDS_MAX: Final = 10.0
# A worker that has served so long ended for another reason than the one before.
STEADY_SECONDS: Final = 60.0


class BackOff:
    """Each end that follows soon on the one before doubles the wait, up to a bound. It never gives
    up: whoever is away may come back.
    """

    def __init__(self) -> None:
        self._seconds = SECONDS_MIN

    def after(self, served_seconds: float) -> float:
        """How long to wait after an end."""
        if served_seconds >= STEADY_SECONDS:
            self._seconds = SECONDS_MIN
        seconds = self._seconds
        self._seconds = min(2 * seconds, SECONDS_MAX)
        return seconds


def end_text(code: int) -> str:
    """Of a process, by its exit code, which is negative for a signal."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
