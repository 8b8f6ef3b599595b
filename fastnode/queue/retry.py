"""What becomes of a call after an attempt that did not end it. Pure: ends in, steps out.

A call keeps its identity for its whole life, and what has landed under it is found by whoever looks
for it (`repeats.py`). So the only question after an attempt is who may try again:

- *FIRST*: nothing of the call can have taken effect before this attempt.
- *REUSE*: an earlier attempt ended and nobody knows how. Every further one finds what landed, or
  lands itself; until one of them says which, the call has no answer.

Only the owner, the node that took the call from its client, goes from FIRST to REUSE. Whoever
carries out a call for another node plans anew where nothing was written, and leaves the rest to it.
"""

from collections.abc import Callable, Coroutine, Mapping
from enum import Enum
from typing import Any, Final, TypeVar

from fastnode import config
from fastnode.errors import DeadlineExceeded, OperationError, PlanAgain, Unsettled
from fastnode.flow import Suspension

T = TypeVar("T")


class Stage(Enum):
    FIRST = "first"
    REUSE = "reuse"


class End(Enum):
    """How an attempt ended."""

    # With an answer, be it the client's own error: applied now, or found as it had landed before.
    ANSWERED = "answered"
    # The state changed under the plan, or the call was here before: nothing was written now.
    CONFLICT = "conflict"
    # Nobody leads, too much to do, no room: nothing was written now.
    REFUSED = "refused"
    # The leader was lost, or did not answer.
    UNKNOWN = "unknown"


class Step(Enum):
    DONE = "done"
    # Plan anew, or look for the new leader, under the same identity.
    AGAIN = "again"
    # Nothing has taken effect.
    FAIL = "fail"
    # Something may have.
    GIVE_UP = "give up"


TRANSITIONS: Final[Mapping[tuple[Stage, End], tuple[Stage, Step]]] = {
    (Stage.FIRST, End.ANSWERED): (Stage.FIRST, Step.DONE),
    (Stage.FIRST, End.CONFLICT): (Stage.FIRST, Step.AGAIN),
    (Stage.FIRST, End.REFUSED): (Stage.FIRST, Step.FAIL),
    (Stage.FIRST, End.UNKNOWN): (Stage.REUSE, Step.AGAIN),
    (Stage.REUSE, End.ANSWERED): (Stage.REUSE, Step.DONE),
    (Stage.REUSE, End.CONFLICT): (Stage.REUSE, Step.AGAIN),
    (Stage.REUSE, End.REFUSED): (Stage.REUSE, Step.GIVE_UP),
    (Stage.REUSE, End.UNKNOWN): (Stage.REUSE, Step.AGAIN),
}


def end_of(error: BaseException | None) -> End:
    if isinstance(error, PlanAgain):
        return End.CONFLICT
    if isinstance(error, Unsettled | DeadlineExceeded):
        return End.UNKNOWN
    return End.REFUSED if isinstance(error, OperationError) else End.ANSWERED


class Attempts:
    """Of one call. `repeats` says whether whoever asks may repeat what ended unknown."""

    __slots__ = ("_left", "_repeats", "stage")

    def __init__(self, *, repeats: bool) -> None:
        self.stage = Stage.FIRST
        self._repeats = repeats
        self._left = config.PLANS_MAX

    def after(self, error: BaseException | None) -> Step:
        """What to do after an attempt that ended so."""
        end = end_of(error)
        self.stage, step = TRANSITIONS[self.stage, end]
        if step is not Step.AGAIN:
            return step
        self._left -= 1
        if self._left > 0 and (end is End.CONFLICT or self._repeats):
            return step
        return Step.GIVE_UP if self.stage is Stage.REUSE else Step.FAIL


async def carried_out(attempt: Callable[[], Coroutine[Suspension, Any, T]]) -> T:
    """For another node, which owns the call: planned anew as long as nothing was written."""
    attempts = Attempts(repeats=False)
    while True:
        try:
            return await attempt()
        except OperationError as error:
            if attempts.after(error) is not Step.AGAIN:
                raise


class Gates:
    """Which attempts this node writes under an identity that others must understand: those that it
    repeats itself, and those that a client's SDK repeats. To find what has landed has no gate.
    """

    __slots__ = ("deduplicated", "recognised", "recognises_retries", "repeated", "repeats_calls")

    def __init__(self) -> None:
        self.repeats_calls = True
        self.recognises_retries = True
        # How often calls were repeated here, and found to have landed before.
        self.repeated = 0
        self.recognised = 0
        # Messages of FIFO queues that had been sent before.
        self.deduplicated = 0
