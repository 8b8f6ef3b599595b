"""Servers that lose, reorder or bring back messages are convicted by what the replay recorded, and
one that does none of that is not.
"""

from pathlib import Path
from typing import Any

from spark_load.flat import queue_facts
from spark_load.replay.plan import Plan
from spark_load.schema import Queue
from spark_load.small import Offence, judge_calls
from tests.spark.lanes import (
    TRACE_ID,
    history,
    operation,
    quick,
    replay_whole,
    sends,
    settings,
    trace,
)
from tests.spark.stub_sqs import Faults, StubSqs


def judged(
    directory: Path,
    faults: Faults,
    operations: list[dict[str, Any]],
    queue: str,
    drain_seconds: float = 120.0,
) -> dict[str, list[Offence]]:
    """What the checks say of a replay against such a server."""
    attributes = {"VisibilityTimeout": "1"}
    with StubSqs(faults) as stub:
        plan = Plan(
            trace(operations, Queue(queue, attributes, consumers=quick(count=4))),
            settings(stub.url, measures_clock=False, drain_seconds=drain_seconds),
        )
        _, header = replay_whole(directory, operations, plan)
    return judge_calls(history(directory), queue_facts(plan.trace, header))


def test_one_message_of_ten_thousand_that_was_dropped_is_found(tmp_path: Path) -> None:
    operations = [operation(op, op * 3_000, messages=10) for op in range(1_000)]
    found = judged(tmp_path, Faults(drop_every=7_000), operations, "plain")
    assert {name: len(offences) for name, offences in found.items()} == {"lost": 1}
    (lost,) = found["lost"]
    # The 7,000th message, unless batches overtook each other on their ways.
    assert lost.key is not None
    trace_id, op, _ = lost.key.split("-")
    assert trace_id == TRACE_ID
    assert 600 < int(op) < 800


def test_group_that_was_reordered_is_found(tmp_path: Path) -> None:
    operations = sends(300, 200, "a.fifo", groups=4)
    found = judged(tmp_path, Faults(reorder_group="g1"), operations, "a.fifo")
    assert "fifo_sequence" in found
    keys = {offence.key for offence in found["fifo_sequence"]}
    assert {int(key.split("-")[1]) % 4 for key in keys if key is not None} == {1}
    assert set(found) <= {"fifo_sequence", "fifo_sent_order"}


def test_deletes_that_were_forgotten_are_found(tmp_path: Path) -> None:
    operations = sends(5, 100)
    found = judged(tmp_path, Faults(hold_deleted=True), operations, "plain", drain_seconds=6.0)
    assert {offence.key for offence in found["resurrected"]} == {
        f"{TRACE_ID}-{op}-0" for op in range(5)
    }


def test_correct_server_is_acquitted_whatever_its_answers_went_through(tmp_path: Path) -> None:
    """Lost answers and throttling are no offence."""
    operations = sends(300, 200, "a.fifo", groups=5)
    assert judged(tmp_path, Faults(lose_every=50, refuse_every=35), operations, "a.fifo") == {}
