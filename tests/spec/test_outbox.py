"""Letters between two groups in every order of everything that can happen, and that each guard is
needed.
"""

from functools import partial

import pytest

from tests.spec.explore import Explored, explore
from tests.spec.outbox_model import Guards, World, follow, judge


def explored(guards: Guards) -> Explored:
    return explore(World(), partial(follow, guards=guards), judge)


def test_a_message_is_always_in_one_place() -> None:
    outcome = explored(Guards())
    assert not outcome.wrong, outcome
    assert outcome.states > 1_000


@pytest.mark.parametrize(
    ("guard", "wrong"),
    [
        ("posts_at_once", "is lost"),
        ("remembers_decided", "twice"),
        ("remembers_refusals", "is lost"),
        ("keeps_refusals", "is lost"),
        ("checks_target", "twice"),
        ("checks_source", "is in two places"),
        ("delivers_before_completing", "is lost"),
        ("returns_refused", "is lost"),
        ("numbers_rise", "out of order"),
    ],
)
def test_every_guard_is_needed(guard: str, wrong: str) -> None:
    outcome = explored(Guards()._replace(**{guard: False}))
    assert wrong in outcome.wrong and outcome.way, outcome
