"""What is done once everything that was applied together is told to those who wait for it. Pure.

Whoever is told looks at once at what there is: told after the first of many messages, a receive
would take one where it could take ten.
"""

from collections.abc import Callable


class Afterwards:
    __slots__ = ("_is_telling", "_steps")

    def __init__(self) -> None:
        self._is_telling = False
        # In the order of their first mention.
        self._steps: dict[Callable[[], None], None] = {}

    def __call__(self, step: Callable[[], None]) -> None:
        """At once, unless more is still being told."""
        if self._is_telling:
            self._steps[step] = None
        else:
            step()

    def __enter__(self) -> None:
        self._is_telling = True

    def __exit__(self, *_error: object) -> None:
        self._is_telling = False
        steps, self._steps = self._steps, {}
        for step in steps:
            step()
