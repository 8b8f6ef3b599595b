"""Every state that a small model can come to, and the shortest way to the first bad one.

A model is a function from a state to the states that may follow, each with the words for what
happened, and a function that says what is wrong with a state. States are values that can be hashed.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)
Follow = Callable[[S], Iterable[tuple[str, S]]]
# What is wrong, or nothing; the second argument says whether nothing can follow.
Judge = Callable[[S, bool], str]

STATES_MAX = 400_000


class Explored(NamedTuple):
    states: int
    # What is wrong with the first bad state, and how it came to be.
    wrong: str
    way: tuple[str, ...]


def explore(first: S, follow: Follow[S], judge: Judge[S]) -> Explored:
    """Breadth first, so that the way to what is wrong is a shortest one."""
    came_from: dict[S, tuple[S, str] | None] = {first: None}
    waiting = deque((first,))
    while waiting:
        state = waiting.popleft()
        following = list(follow(state))
        if wrong := judge(state, not following):
            return Explored(len(came_from), wrong, _way(came_from, state))
        for words, after in following:
            if after not in came_from:
                came_from[after] = state, words
                waiting.append(after)
        assert len(came_from) < STATES_MAX, "the model is too large to be explored"
    return Explored(len(came_from), "", ())


def _way(came_from: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    steps: list[str] = []
    while (before := came_from[state]) is not None:
        state, words = before
        steps.append(words)
    return tuple(reversed(steps))
