"""The retry machine in every order of everything that can happen, and that each guard is needed."""

from functools import partial
from unittest.mock import patch

import pytest

from fastnode.queue import retry
from fastnode.queue.retry import End, Stage, Step
from tests.spec.explore import Explored, explore
from tests.spec.retry_model import Call, Guards, follow, judge

Gap = dict[tuple[Stage, End], tuple[Stage, Step]]


def explored(guards: Guards) -> Explored:
    return explore(Call(), partial(follow, guards=guards), judge)


def test_a_call_takes_effect_at_most_once_and_its_answer_is_true() -> None:
    outcome = explored(Guards())
    assert not outcome.wrong, outcome
    assert outcome.states > 1_000


@pytest.mark.parametrize(
    ("guards", "wrong"),
    [
        (Guards(decides_once=False), "took effect twice"),
        (Guards(keeps_identity=False), "took effect twice"),
        (Guards(looks_first=False), "is not found"),
        (Guards(answers_when_decided=False), "not there"),
    ],
)
def test_every_guard_is_needed(guards: Guards, wrong: str) -> None:
    outcome = explored(guards)
    assert wrong in outcome.wrong and outcome.way, outcome


@pytest.mark.parametrize(
    "gap",
    [
        {(Stage.FIRST, End.UNKNOWN): (Stage.FIRST, Step.FAIL)},
        {(Stage.FIRST, End.UNKNOWN): (Stage.FIRST, Step.AGAIN)},
        {(Stage.REUSE, End.REFUSED): (Stage.REUSE, Step.FAIL)},
        {(Stage.REUSE, End.CONFLICT): (Stage.FIRST, Step.AGAIN)},
        {(Stage.REUSE, End.UNKNOWN): (Stage.FIRST, Step.AGAIN)},
    ],
)
def test_every_transition_that_remembers_doubt_is_needed(gap: Gap) -> None:
    with patch.dict(retry.TRANSITIONS, gap):
        outcome = explored(Guards())
    assert "heard that nothing took effect" in outcome.wrong, outcome
