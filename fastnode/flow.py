"""Coroutines without an event loop: how a call waits for its transaction. A leaf: imports nothing
of ours.

A handler is an `async def` that awaits nothing but `Suspension`s. Whoever owns the event (a
committed entry, a freed latch, a woken long poll) resumes it, from its own loop over a plain list.
So a call costs no task and no future, and the same handlers run under the simulator, where there is
no event loop at all.
"""

from collections.abc import Callable, Coroutine, Generator, Iterable
from functools import partial
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
OnDone = Callable[[Any, BaseException | None], None]


class Resumable(Protocol):
    """Who is told an outcome, once. Before that it may be asked to prepare for going on, which then
    is likely and nothing more.
    """

    def prepare(self) -> None: ...
    def resume(self, value: Any) -> None: ...
    def fail(self, error: Any) -> None: ...


class Suspension:
    """A point where a handler waits; resumed exactly once, with a value or with an error.

    It may be resumed before it is awaited: the outcome is kept until then.
    """

    __slots__ = ("_error", "_flow", "_value", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._flow: _Flow | None = None
        self._value: Any = None
        self._error: BaseException | None = None

    def prepare(self) -> None:
        """A handler that waits can do nothing."""

    def resume(self, value: Any = None) -> None:
        assert not self.is_done, "a suspension is resumed once"
        self.is_done = True
        self._value = value
        if self._flow is not None:
            self._flow.advance(value)

    def fail(self, error: BaseException) -> None:
        assert not self.is_done, "a suspension is resumed once"
        self.is_done = True
        self._error = error
        if self._flow is not None:
            self._flow.raise_in(error)

    def __await__(self) -> Generator["Suspension", Any, Any]:
        if self.is_done:
            if self._error is not None:
                raise self._error
            return self._value
        return (yield self)


class _Flow:
    __slots__ = ("_coroutine", "_on_done")

    def __init__(self, coroutine: Coroutine[Suspension, Any, Any], on_done: OnDone) -> None:
        self._coroutine = coroutine
        self._on_done = on_done

    def advance(self, value: Any) -> None:
        try:
            suspension = self._coroutine.send(value)
        except StopIteration as stop:
            self._on_done(stop.value, None)
        except Exception as error:
            self._on_done(None, error)
        else:
            suspension._flow = self

    def raise_in(self, error: BaseException) -> None:
        try:
            suspension = self._coroutine.throw(error)
        except StopIteration as stop:
            self._on_done(stop.value, None)
        except Exception as raised:
            self._on_done(None, raised)
        else:
            suspension._flow = self


def start(coroutine: Coroutine[Suspension, Any, T], on_done: OnDone) -> None:
    """Run to the first suspension. `on_done(result, error)` is called once, possibly before `start`
    returns.
    """
    _Flow(coroutine, on_done).advance(None)


async def gather(coroutines: Iterable[Coroutine[Suspension, Any, T]]) -> list[T]:
    """Run together, to the end of the last; results in order, or the first error."""
    outcomes: dict[int, tuple[Any, BaseException | None]] = {}
    ended = Suspension()
    begun = list(coroutines)

    def finish(at: int, result: Any, error: BaseException | None) -> None:
        outcomes[at] = result, error
        if len(outcomes) == len(begun):
            ended.resume()

    for at, coroutine in enumerate(begun):
        start(coroutine, partial(finish, at))
    if begun:
        await ended
    for at in range(len(begun)):
        error = outcomes[at][1]
        if error is not None:
            raise error
    return [outcomes[at][0] for at in range(len(begun))]
