"""What is known about when something took effect: not before it was asked for, not after it was
answered. Whoever got no answer knows no end: it may still happen.
"""

from typing import Final

NEVER: Final = 1 << 62


class Violation(Exception):
    """An answer, or the lack of one, that no correct queue gives."""


class Span:
    """`began` and `ended` are nanoseconds. `is_sure`: it took effect between them; `is_void`: it
    never did and never will. While it is neither, it may have. It was asked `repeats` times more.
    """

    __slots__ = ("began", "ended", "is_sure", "is_void", "repeats")

    def __init__(self, began: int) -> None:
        self.began = began
        self.ended = NEVER
        self.is_sure = False
        self.is_void = False
        self.repeats = 0

    @property
    def is_open(self) -> bool:
        return not self.is_sure and not self.is_void

    def succeed(self, at: int) -> None:
        self.ended = at
        self.is_sure = True

    def fail(self) -> None:
        self.is_void = True

    def is_surely_before(self, at: int) -> bool:
        return self.is_sure and self.ended < at

    def may_be_before(self, at: int) -> bool:
        return not self.is_void and self.began <= at
