"""The machine that says what becomes of a call after an attempt: every row, every bound."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import config
from fastnode.errors import (
    Busy,
    DeadlineExceeded,
    DiskFull,
    NotLed,
    OperationError,
    Overloaded,
    PlanAgain,
    Unavailable,
    Unsettled,
)
from fastnode.flow import start
from fastnode.queue.errors import queue_does_not_exist
from fastnode.queue.retry import TRANSITIONS, Attempts, End, Gates, Stage, Step, carried_out, end_of

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "retries.md"
# One error for each end that is no answer.
ERRORS = {
    End.CONFLICT: PlanAgain("overtaken"),
    End.REFUSED: Overloaded("too much to do"),
    End.UNKNOWN: Unsettled("the leader was lost"),
}


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (None, End.ANSWERED),
        (queue_does_not_exist(), End.ANSWERED),
        (PlanAgain(""), End.CONFLICT),
        (Overloaded(""), End.REFUSED),
        (Busy(""), End.REFUSED),
        (DiskFull(""), End.REFUSED),
        (Unavailable(""), End.REFUSED),
        (NotLed(""), End.REFUSED),
        (Unsettled(""), End.UNKNOWN),
        (DeadlineExceeded(""), End.UNKNOWN),
    ],
    ids=repr,
)
def test_how_an_attempt_ended_follows_from_its_error(error: BaseException | None, end: End) -> None:
    assert end_of(error) is end


def test_every_kind_of_failure_has_its_end() -> None:
    """One that is new must be thought about: is it known that nothing was written?"""
    kinds = {PlanAgain, Overloaded, Busy, DiskFull, Unavailable, NotLed, Unsettled}
    kinds |= {DeadlineExceeded}
    ours = {kind for kind in _descendants(OperationError) if kind.__module__ == "fastnode.errors"}
    assert ours == kinds


def _descendants(kind: type) -> set[type]:
    below: set[type] = set(kind.__subclasses__())
    return below.union(*map(_descendants, below))


def test_the_table_has_every_row_and_no_way_back() -> None:
    assert set(TRANSITIONS) == {(stage, end) for stage in Stage for end in End}
    for (stage, end), (then, step) in TRANSITIONS.items():
        if stage is Stage.REUSE:
            assert then is Stage.REUSE, "what may have taken effect stays so"
            assert step is not Step.FAIL, "nobody may say that nothing has taken effect"
        else:
            assert (then is Stage.REUSE) is (end is End.UNKNOWN)
            assert step is not Step.GIVE_UP, "nothing can have taken effect"
        assert (step is Step.DONE) is (end is End.ANSWERED)


def test_a_call_that_is_answered_is_done() -> None:
    assert Attempts(repeats=True).after(None) is Step.DONE


def test_a_refused_call_fails_as_long_as_nothing_can_have_taken_effect() -> None:
    assert Attempts(repeats=True).after(ERRORS[End.REFUSED]) is Step.FAIL


def test_a_conflict_is_planned_anew_and_not_for_ever() -> None:
    attempts = Attempts(repeats=False)
    steps = [attempts.after(ERRORS[End.CONFLICT]) for _ in range(config.PLANS_MAX)]
    assert steps == [Step.AGAIN] * (config.PLANS_MAX - 1) + [Step.FAIL]
    assert attempts.stage is Stage.FIRST


def test_an_unknown_outcome_is_repeated_and_not_for_ever() -> None:
    attempts = Attempts(repeats=True)
    steps = [attempts.after(ERRORS[End.UNKNOWN]) for _ in range(config.PLANS_MAX)]
    assert steps == [Step.AGAIN] * (config.PLANS_MAX - 1) + [Step.GIVE_UP]
    assert attempts.stage is Stage.REUSE


def test_who_may_not_repeat_gives_up_at_once_and_says_that_it_may_have_taken_effect() -> None:
    attempts = Attempts(repeats=False)
    assert attempts.after(ERRORS[End.UNKNOWN]) is Step.GIVE_UP
    assert attempts.stage is Stage.REUSE


def test_after_an_unknown_outcome_a_refusal_is_no_failure() -> None:
    attempts = Attempts(repeats=True)
    assert attempts.after(ERRORS[End.UNKNOWN]) is Step.AGAIN
    assert attempts.after(ERRORS[End.REFUSED]) is Step.GIVE_UP


def test_after_an_unknown_outcome_a_conflict_is_planned_anew_then_answered() -> None:
    attempts = Attempts(repeats=True)
    ends = [ERRORS[End.UNKNOWN], ERRORS[End.CONFLICT], ERRORS[End.UNKNOWN], None]
    assert [attempts.after(end) for end in ends] == [Step.AGAIN] * 3 + [Step.DONE]
    assert attempts.stage is Stage.REUSE


HISTORIES = st.lists(st.sampled_from(list(End)), max_size=2 * config.PLANS_MAX)


@given(HISTORIES, st.booleans())
def test_no_history_is_long_and_none_says_what_it_cannot_know(
    history: Sequence[End], repeats: bool
) -> None:
    attempts, made, seen = Attempts(repeats=repeats), 0, set[End]()
    step = Step.AGAIN
    for end in history:
        if step is not Step.AGAIN:
            break
        step, made = attempts.after(ERRORS.get(end)), made + 1
        seen.add(end)
    assert made <= config.PLANS_MAX
    if step is Step.FAIL:
        assert End.UNKNOWN not in seen
    if step is Step.GIVE_UP:
        assert End.UNKNOWN in seen
    if not repeats and End.UNKNOWN in seen:
        assert step is Step.GIVE_UP


# --- for another node ----------------------------------------------------------------------------


class Handler:
    """Ends its attempts as it is told; the last end is that of all further ones."""

    def __init__(self, *ends: BaseException | str) -> None:
        self._ends = ends
        self.attempts = 0
        self.outcome: object = None

    async def attempt(self) -> str:
        end = self._ends[min(self.attempts, len(self._ends) - 1)]
        self.attempts += 1
        if isinstance(end, BaseException):
            raise end
        return end

    def run(self) -> None:
        def finish(result: str | None, error: BaseException | None) -> None:
            self.outcome = error or result

        start(carried_out(self.attempt), finish)


@pytest.mark.parametrize("end", [End.UNKNOWN, End.REFUSED])
def test_who_carries_out_a_call_for_another_node_never_repeats_it(end: End) -> None:
    handler = Handler(ERRORS[end], "landed")
    handler.run()
    assert (handler.attempts, handler.outcome) == (1, ERRORS[end])


def test_who_carries_out_a_call_plans_it_anew_where_nothing_was_written() -> None:
    handler = Handler(ERRORS[End.CONFLICT], ERRORS[End.CONFLICT], "landed")
    handler.run()
    assert (handler.attempts, handler.outcome) == (3, "landed")


def test_who_carries_out_a_call_leaves_it_to_its_owner_in_the_end() -> None:
    handler = Handler(ERRORS[End.CONFLICT])
    handler.run()
    assert (handler.attempts, handler.outcome) == (config.PLANS_MAX, ERRORS[End.CONFLICT])


def test_a_clients_error_is_an_answer() -> None:
    handler = Handler(queue_does_not_exist())
    handler.run()
    assert handler.attempts == 1


def test_both_gates_are_open_until_somebody_closes_them() -> None:
    gates = Gates()
    assert gates.repeats_calls and gates.recognises_retries
    assert (gates.repeated, gates.recognised) == (0, 0)


# --- the document --------------------------------------------------------------------------------


def table_in_words() -> str:
    rows = [
        f"| {stage.name} | {end.value} | {then.name} | {step.value} |"
        for (stage, end), (then, step) in TRANSITIONS.items()
    ]
    return "\n".join(["| stage | the attempt | stage then | step |", "|---|---|---|---|", *rows])


def diagram() -> str:
    """The table as a state diagram: what ends a call leads to the end."""
    lines = ["stateDiagram-v2", "    [*] --> FIRST"]
    for (stage, end), (then, step) in TRANSITIONS.items():
        target = then.name if step is Step.AGAIN else "[*]"
        lines.append(f"    {stage.name} --> {target}: {end.value} / {step.value}")
    return "\n".join(["```mermaid", *lines, "```"])


def test_every_test_that_the_document_names_is_there() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", DOCUMENT.read_text())
    files = {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}
    assert named
    for file, name in named:
        assert f"def {name}(" in files[file].read_text(), f"{file}::{name}"


def test_the_document_shows_the_table_and_the_diagram_that_are_in_force() -> None:
    text = DOCUMENT.read_text()
    assert table_in_words() in text
    assert diagram() in text
