"""The parts of a campaign that need no nodes: its plan, its record, its picture."""

from itertools import pairwise
from pathlib import Path

import pytest

from spark_load import small
from spark_load.verify import verify
from tests.chaos.plan import LINKS, PROCESSES, Fault, plan
from tests.chaos.recorded import HISTORY, TRACE, Recording
from tests.chaos.timeline import BINS, draw, gaps, rates
from tests.cluster.history import Deleted, Drained, Event, Message, Received, Sent

QUEUE = "plain-a"


def test_a_plan_follows_from_its_seed_and_has_one_wrong_clock() -> None:
    faults = plan(7, 3_600, 5)
    assert faults == plan(7, 3_600, 5) != plan(8, 3_600, 5)
    assert {fault.kind for fault in faults} == {*PROCESSES, *LINKS}
    assert len({fault.node for fault in faults if fault.kind == "clock"}) == 1
    assert all(fault.node != fault.other for fault in faults if fault.kind in LINKS)


@pytest.mark.parametrize("row", [PROCESSES, LINKS])
def test_faults_of_a_row_do_not_overlap(row: dict[str, float]) -> None:
    faults = [fault for fault in plan(3, 3_600, 3) if fault.kind in row]
    assert all(one.ends < two.begins for one, two in pairwise(faults))


def test_what_cannot_be_done_is_left_out() -> None:
    assert not any(fault.kind == "clock" for fault in plan(7, 3_600, 3, ["clock"]))


def history(*, is_deleted: bool = True) -> list[Event]:
    received = Received(QUEUE, 2.0, 2.1, 2, (Message("id-1", "body-1"),))
    deleted = Deleted(QUEUE, "id-1", 2.0, 2, 2.2, 2.3, is_deleted)
    end = Drained(QUEUE, (0, 0, 0), 0, (0, 0, 0))
    return [Sent(QUEUE, "body-1", 1.0, 1.1, "id-1"), received, deleted, end]


def judged(events: list[Event], directory: Path) -> dict[str, int]:
    Recording(7, events, epoch=1_000.0).write(directory, [(1.5, "kill of node 1")])
    with small.open_small(directory / TRACE, directory / HISTORY) as source:
        assert [mark.at_us for mark in source.history.faults] == [1_001_500_000]
        verdict = verify(source, directory / HISTORY, directory / "verdict")
    return {finding.check: finding.count for finding in verdict.findings if finding.count}


def test_a_recorded_history_is_judged_by_the_checks_of_the_load_pipeline(tmp_path: Path) -> None:
    assert judged(history(), tmp_path) == {}


def test_offences_survive_the_recording(tmp_path: Path) -> None:
    again = Received(QUEUE, 3.0, 3.1, 2, (Message("id-1", "body-1"),))
    lost = Sent(QUEUE, "body-2", 1.0, 1.1, "id-2")
    assert judged([*history(), again, lost], tmp_path) == {"lost": 1, "resurrected": 1}


def test_nothing_gets_done_between_successes_that_are_seconds_apart() -> None:
    """Calls without an answer and receives that found nothing are no successes."""
    answered = [Sent(QUEUE, f"body-{at}", at, at, "id") for at in (1.0, 2.5, 8.0)]
    idle = Received(QUEUE, 3.0, 5.0, 2, ())
    unknown = Deleted(QUEUE, "id-1", 2.0, 2, 5.0, 6.0, False)
    assert gaps([*answered, idle, unknown], 0.0, 11.0) == [(2.5, 8.0), (8.0, 11.0)]
    assert gaps(answered, 1.0, 8.0) == [(1.5, 7.0)]


def test_a_picture_shows_rates_standstills_and_every_fault() -> None:
    series = rates(history(is_deleted=False), 1.0, 4.0)
    assert {name: sum(line) * 4.0 / BINS for name, line in series.items()} == pytest.approx(
        {"sent": 1, "received": 1, "no answer": 1}
    )
    faults = [Fault("kill", 0.5, 1.0, 1, 2, 0.0), Fault("cut", 1.0, 2.0, 1, 3, 0.0)]
    picture = draw("three nodes", series, [(0.5, 3.0)], faults, 4.0)
    assert all(str(fault) in picture for fault in faults)
    assert "0.5 s to 3.0 s: nothing got done" in picture and "1 times nothing got" in picture
    assert ">seconds<" in picture and ">minutes<" in draw("long", series, [], faults, 1_200.0)
