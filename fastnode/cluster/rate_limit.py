"""How fast bulk may go, so that it never takes the network and the disk from sends. Pure: the time
is an argument, and the caller does the waiting.
"""


class RateLimit:
    """A token bucket, kept as the moment at which everything that was granted is paid for. All
    streams of a node share one.
    """

    def __init__(self, bytes_per_second: int, burst_bytes: int) -> None:
        assert bytes_per_second > 0 and burst_bytes > 0
        self._rate = bytes_per_second
        self._burst_seconds = burst_bytes / bytes_per_second
        self._paid_at = float("-inf")

    def reserve(self, count: int, now: float) -> float:
        """Grant so many bytes; they may go after so many seconds."""
        assert count >= 0
        start = max(self._paid_at, now - self._burst_seconds)
        self._paid_at = start + count / self._rate
        return max(0.0, self._paid_at - now)
