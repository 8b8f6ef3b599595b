"""A value that is told to whoever asks, and which values it may be.

Reads are linearizable: what was acknowledged before a read began is what it tells, or something
younger.
"""

from tests.model.spans import Span, Violation


class Register:
    """An attribute or a tag of a queue. `initial` is what a new queue has; empty means nothing."""

    def __init__(self, name: str, initial: str = "") -> None:
        self._name = name
        self._initial = initial
        first = Span(0)
        first.succeed(0)
        self._changes = [(first, initial)]

    def begin_change(self, value: str, at: int) -> Span:
        span = Span(at)
        self._changes.append((span, value))
        return span

    def possible(self, began: int, ended: int) -> set[str]:
        """All that no other change has surely taken the place of when the read begins."""
        sure = [span.began for span, _ in self._changes if span.is_surely_before(began)]
        latest = max(sure, default=0)
        changes = [one for one in self._changes if one[0].may_be_before(ended)]
        return {value for span, value in changes if span.ended >= latest}

    def check(self, began: int, ended: int, told: str, *, may_be_new: bool) -> None:
        """`may_be_new`: the queue may have been made anew."""
        possible = self.possible(began, ended) | ({self._initial} if may_be_new else set())
        if told not in possible:
            raise Violation(f"{self._name} is {told!r}, not one of {sorted(possible)}")
