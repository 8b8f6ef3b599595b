"""Coroutines without an event loop."""

from typing import Any

import pytest

from fastnode.flow import Suspension, start


class Recorder:
    def __init__(self) -> None:
        self.ends: list[tuple[Any, BaseException | None]] = []

    def __call__(self, result: Any, error: BaseException | None) -> None:
        self.ends.append((result, error))


def test_a_flow_that_never_waits_ends_inside_start() -> None:
    async def handler() -> int:
        return 7

    recorder = Recorder()
    start(handler(), recorder)
    assert recorder.ends == [(7, None)]


def test_a_flow_goes_on_with_the_value_it_is_resumed_with() -> None:
    first, second = Suspension(), Suspension()

    async def handler() -> tuple[Any, Any]:
        return await first, await second

    recorder = Recorder()
    start(handler(), recorder)
    first.resume("a")
    assert recorder.ends == []
    second.resume("b")
    assert recorder.ends == [(("a", "b"), None)]


def test_an_error_is_raised_where_the_flow_waits() -> None:
    suspension = Suspension()

    async def handler() -> str:
        try:
            await suspension
        except KeyError:
            return "caught"
        return "not reached"

    recorder = Recorder()
    start(handler(), recorder)
    suspension.fail(KeyError("k"))
    assert recorder.ends == [("caught", None)]


def test_an_error_that_nobody_catches_ends_the_flow() -> None:
    suspension = Suspension()

    async def handler() -> None:
        await suspension

    recorder = Recorder()
    start(handler(), recorder)
    error = KeyError("k")
    suspension.fail(error)
    assert recorder.ends == [(None, error)]


def test_what_happened_before_the_wait_is_kept() -> None:
    done, failed = Suspension(), Suspension()
    done.resume(3)
    failed.fail(KeyError("k"))

    async def handler() -> int:
        value: int = await done
        with pytest.raises(KeyError):
            await failed
        return value

    recorder = Recorder()
    start(handler(), recorder)
    assert recorder.ends == [(3, None)]


def test_a_suspension_is_resumed_once() -> None:
    suspension = Suspension()
    suspension.resume()
    with pytest.raises(AssertionError):
        suspension.resume()
