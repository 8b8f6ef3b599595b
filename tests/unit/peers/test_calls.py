"""Calls as callers and services see them, without a link."""

import pytest

from fastnode import flow
from fastnode.errors import OperationError, Overloaded
from fastnode.peers.calls import (
    ANSWER_LOST,
    BUG,
    OVERLOADED,
    Asked,
    CallCancelled,
    IncomingCall,
    LinkLost,
    OnDone,
    error_of,
)


class Wire:
    """The end of a link that calls go into and answers come out of."""

    def __init__(self) -> None:
        self.waiting: dict[int, OnDone] = {}
        self.answers: list[tuple[int, int, bytes]] = []

    def call(self, service: int, payload: bytes, seconds: float, on_done: OnDone) -> int:
        self.waiting[len(self.waiting) + 1] = on_done
        return len(self.waiting)

    def cancel(self, call_id: int) -> None:
        self.waiting[call_id](0, None, CallCancelled())

    def answer(self, call: IncomingCall, status: int, payload: bytes) -> bool:
        self.answers.append((call.id, status, payload))
        return True


def test_flow_waits_for_an_answer() -> None:
    wire, results = Wire(), list[object]()

    async def handler() -> object:
        return await Asked(wire, 1, b"ask", 5.0)

    flow.start(handler(), lambda result, error: results.append((result, error)))
    assert results == []
    wire.waiting[1](7, b"answer", None)
    assert results == [((7, b"answer"), None)]


def test_flow_gets_the_error_of_its_call() -> None:
    wire, errors = Wire(), list[BaseException | None]()

    async def handler() -> object:
        return await Asked(wire, 1, b"ask", 5.0)

    flow.start(handler(), lambda _, error: errors.append(error))
    lost = LinkLost("gone", was_written=True)
    wire.waiting[1](0, None, lost)
    assert errors == [lost]


def test_cancelled_flow_fails_once() -> None:
    wire = Wire()
    asked = Asked(wire, 1, b"ask", 5.0)
    asked.cancel()
    asked.cancel()
    assert asked.is_done


def test_call_is_answered_once() -> None:
    wire = Wire()
    call = IncomingCall(wire, 3, 0.0)
    assert call.answer(1, b"yes")
    assert wire.answers == [(3, 1, b"yes")]
    with pytest.raises(AssertionError):
        call.answer(1, b"again")


def test_cancelled_call_tells_its_handler_and_answers_nobody() -> None:
    wire, told = Wire(), list[str]()
    call = IncomingCall(wire, 3, 0.0)
    call.on_cancel = lambda: told.append("cancelled")
    call.cancel()
    assert told == ["cancelled"]
    assert not call.answer(1, b"late")
    assert wire.answers == []


def test_answered_call_is_not_cancelled() -> None:
    call = IncomingCall(Wire(), 3, 0.0)
    call.on_cancel = lambda: pytest.fail("told after its answer")
    call.answer(0)
    call.cancel()


def test_statuses_of_the_link_are_errors_and_those_of_services_are_not() -> None:
    assert isinstance(error_of(OVERLOADED), Overloaded)
    lost = error_of(ANSWER_LOST)
    assert isinstance(lost, LinkLost) and lost.was_written
    assert isinstance(lost, OperationError)
    assert error_of(0) is None and error_of(BUG) is None
