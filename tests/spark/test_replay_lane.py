"""Whole lanes against a server that behaves, and against servers that do not.

The lanes are threads here; nothing of Spark is needed for what they do.
"""

import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from spark_load.errors import LoadError
from spark_load.replay import control
from spark_load.replay.attempts import RetryPolicy
from spark_load.replay.plan import Plan
from spark_load.replay.progress import Board
from spark_load.schema import Queue
from tests.certificates import make_certificate, make_signer
from tests.spark.lanes import (
    RUN,
    TRACE_ID,
    history,
    operation,
    quick,
    replay,
    sends,
    settings,
    trace,
)
from tests.spark.stub_sqs import Faults, StubSqs


def of(rows: list[dict[str, Any]], action: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["action"] == action]


def keys(rows: list[dict[str, Any]], outcome: str = "ok") -> list[str]:
    return [
        message["key"]
        for row in rows
        for message in row["messages"]
        if message["outcome"] == outcome
    ]


def test_trace_is_sent_received_and_deleted_and_recorded(tmp_path: Path) -> None:
    """Two producer lanes, one for the consumers of a FIFO and a standard queue."""
    operations = [
        operation(0, 0, "a.fifo", group="g0"),
        operation(1, 1_000, "plain", messages=3),
        *(operation(op, op * 5_000, "a.fifo", group=f"g{op % 3}") for op in range(2, 40)),
    ]
    consumers = quick(count=2, failure_share=0.1, extend_share=0.2, think_ms=1)
    queues = (
        Queue("a.fifo", consumers=consumers),
        Queue("plain", consumers=quick(delete="single")),
    )
    with StubSqs() as stub:
        plan = Plan(trace(operations, *queues), settings(stub.url, lanes=2))
        summaries = replay(tmp_path, operations, plan)
        assert all(not queue.messages for queue in stub.queues.values())
    rows = history(tmp_path)
    sent = of(rows, "SendMessage") + of(rows, "SendMessageBatch")
    received = of(rows, "ReceiveMessage")
    deleted = of(rows, "DeleteMessageBatch") + of(rows, "DeleteMessage")
    assert sorted(row["op"] for row in sent) == list(range(40))
    assert sorted(keys(sent)) == sorted(set(keys(received))) == sorted(keys(deleted))
    assert len(keys(received)) > len(keys(deleted)), "some are forgotten at first"
    assert {row["outcome"] for row in rows} == {"ok"}
    assert {row["role"] for row in rows} == {"producer", "consumer", "control"}
    assert {row["endpoint"] for row in rows} == {stub.url}
    assert [summary.is_complete for summary in summaries] == [True] * 3
    assert summaries[2].is_drained
    assert sum(summary.rows for summary in summaries) == len(rows)
    extended = of(rows, "ChangeMessageVisibility")
    assert extended
    assert {row["visibility"] for row in extended + received} == {1}
    # Every FIFO group was sent by one lane.
    lanes = {(row["messages"][0]["group"], row["lane"]) for row in of(rows, "SendMessage")}
    assert len(lanes) == 3


def test_rows_of_receives_say_what_was_delivered_and_what_it_cost(tmp_path: Path) -> None:
    operations = sends(4, 1_000, "a.fifo", groups=1)
    with StubSqs() as stub:
        plan = Plan(trace(operations, Queue("a.fifo", consumers=quick())), settings(stub.url))
        replay(tmp_path, operations, plan)
    rows = history(tmp_path)
    sequences = {key: row["messages"][0] for row in of(rows, "SendMessage") for key in keys([row])}
    found = [(row, m) for row in of(rows, "ReceiveMessage") for m in row["messages"]]
    assert [message["key"] for _, message in found] == [f"{TRACE_ID}-{op}-0" for op in range(4)]
    for row, message in found:
        assert message["sequence"] == sequences[message["key"]]["sequence"]
        assert message["message_id"] == sequences[message["key"]]["message_id"]
        assert (message["group"], message["receives"]) == ("g0", 1)
        assert (row["partitions"], row["rows"], row["choose_us"], row["remote"]) == (2, 7, 90, 1)
    receipts = {m["receipt"] for row in of(rows, "DeleteMessageBatch") for m in row["messages"]}
    assert receipts == {message["receipt"] for _, message in found}


def test_lane_needs_nothing_but_python_and_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_load.replay.lane.uvloop", None)
    monkeypatch.setattr("spark_load.replay.http1.IS_QUICK", False)
    monkeypatch.setattr("spark_load.replay.http1.QuickReader", None)
    operations = sends(20, 400)
    with StubSqs() as stub:
        plan = Plan(trace(operations, Queue("plain", consumers=quick())), settings(stub.url))
        replay(tmp_path, operations, plan)
    rows = history(tmp_path)
    assert {row["outcome"] for row in rows} == {"ok"}
    assert sorted(keys(of(rows, "SendMessage"))) == sorted(keys(of(rows, "DeleteMessageBatch")))


def test_calls_begin_when_they_are_due_and_scale_with_the_speed(tmp_path: Path) -> None:
    operations = [operation(op, op * 400_000) for op in range(5)]
    with StubSqs() as stub:
        plan = Plan(trace(operations), settings(stub.url, speed=4.0))
        (summary,) = replay(tmp_path, operations, plan)
    rows = sorted(history(tmp_path), key=lambda row: int(row["op"]))
    assert [row["intended_us"] - summary.start_us for row in rows] == [
        op * 100_000 for op in range(5)
    ]
    for row in rows:
        assert row["intended_us"] <= row["started_us"] <= row["ended_us"]


def slow_calls(directory: Path, *, is_open_loop: bool) -> int:
    """How many calls took more than 100 ms: 200/s over two connections, to a server that pauses for
    a second.
    """
    operations = sends(260, 200)
    with StubSqs(Faults(pause_after_seconds=0.1, pause_seconds=1.0)) as stub:
        changes = settings(stub.url, connections=2, is_open_loop=is_open_loop, measures_clock=False)
        replay(directory, operations, Plan(trace(operations), changes))
        assert stub.connections_max == 2
    return sum(row["ended_us"] - row["intended_us"] > 100_000 for row in history(directory))


def test_open_loop_counts_what_a_closed_loop_omits(tmp_path: Path) -> None:
    """A pause delays everything that was due in it. Who waits for an answer before the next
    request, and counts from there, sees it once per connection.
    """
    seen = slow_calls(tmp_path / "open", is_open_loop=True)
    omitted = slow_calls(tmp_path / "closed", is_open_loop=False)
    assert seen >= 150
    assert 1 <= omitted < 30


def test_burst_beyond_every_bound_is_sent_late_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is due at once; the bounds leave room for a few at a time."""
    monkeypatch.setattr("spark_load.replay.pacer.PREPARED_MAX", 32)
    monkeypatch.setattr("spark_load.replay.pacer.UNDER_WAY_MAX", 8)
    monkeypatch.setattr("spark_load.replay.pacer.BURST_MAX", 4)
    operations = [operation(op, 0) for op in range(300)]
    with StubSqs() as stub:
        plan = Plan(trace(operations), settings(stub.url, measures_clock=False))
        (summary,) = replay(tmp_path, operations, plan)
        # More are open than are used at a time: those that were opened ahead.
        assert stub.connections_max <= 16
    rows = history(tmp_path)
    assert sorted(keys(rows)) == sorted(f"{TRACE_ID}-{op}-0" for op in range(300))
    assert {row["intended_us"] for row in rows} == {summary.start_us}
    moments = [(row["started_us"], 1) for row in rows] + [(row["ended_us"], -1) for row in rows]
    assert max(accumulate(change for _, change in sorted(moments))) <= 8
    assert summary.tally.late_us_max == max(row["started_us"] for row in rows) - summary.start_us


def test_lost_answers_are_unknown_and_repeated_under_one_invocation(tmp_path: Path) -> None:
    operations = sends(30, 300)
    with StubSqs() as stub:
        plan = Plan(trace(operations), settings(stub.url, measures_clock=False))
        stub.faults.lose_every = 0
        targets_before = len(stub.seen)
        stub.faults = Faults(lose_every=5)
        replay(tmp_path, operations, plan)
        seen = [found for found in stub.seen[targets_before:] if found.action == "SendMessage"]
    rows = history(tmp_path)
    calls = {row["call"]: row["op"] for row in rows}
    assert sorted(calls.values()) == list(range(30))
    lost = [row for row in rows if row["outcome"] == "unknown"]
    assert lost
    assert {message["outcome"] for row in lost for message in row["messages"]} == {"unknown"}
    assert len(rows) == 30 + len(lost)
    invocations = Counter(found.headers["amz-sdk-invocation-id"] for found in seen)
    assert len(invocations) == 30
    for found in seen:
        number = int(found.headers["amz-sdk-request"].removeprefix("attempt="))
        assert number <= invocations[found.headers["amz-sdk-invocation-id"]]
    for row in rows:
        first = min(other["intended_us"] for other in rows if other["call"] == row["call"])
        assert row["intended_us"] == first, "latency counts from when the call was due"


def test_throttled_calls_are_refused_and_repeated_and_wrong_ones_are_not(tmp_path: Path) -> None:
    operations = sends(20, 400)
    with StubSqs(Faults(refuse_every=4)) as stub:
        replay(tmp_path / "a", operations, Plan(trace(operations), settings(stub.url)))
    rows = history(tmp_path / "a")
    assert len(keys(rows)) == 20
    assert {row["error"] for row in rows if row["outcome"] == "refused"} == {"RequestThrottled"}
    wrong = (400, "com.amazonaws.sqs#InvalidMessageContents")
    with StubSqs(Faults(refuse_every=4, refusal=wrong)) as stub:
        plan = Plan(trace(operations), settings(stub.url, measures_clock=False))
        replay(tmp_path / "b", operations, plan)
    rows = history(tmp_path / "b")
    assert len(rows) == 20
    assert Counter(row["outcome"] for row in rows) == {"ok": 15, "refused": 5}


def test_failed_server_leaves_an_unknown_outcome_and_the_attempts_end(tmp_path: Path) -> None:
    operations = sends(1, 1)
    broken = Faults(refuse_every=1, refusal=(503, "x#ServiceUnavailable"))
    with StubSqs(broken) as stub:
        changes = settings(
            stub.url, retries=RetryPolicy(attempts=3, pause_ms=5), measures_clock=False
        )
        replay(tmp_path, operations, Plan(trace(operations), changes))
    rows = history(tmp_path)
    assert [(row["attempt"], row["status"]) for row in rows] == [(0, 503), (1, 503), (2, 503)]
    assert {row["outcome"] for row in rows} == {"unknown"}


def test_call_that_takes_too_long_is_unknown(tmp_path: Path) -> None:
    operations = sends(1, 1)
    with StubSqs(Faults(pause_after_seconds=0.0, pause_seconds=6.0)) as stub:
        changes = settings(
            stub.url, call_seconds=1.0, retries=RetryPolicy(attempts=1), measures_clock=False
        )
        replay(tmp_path, operations, Plan(trace(operations), changes))
    (row,) = history(tmp_path)
    assert (row["outcome"], row["error"], row["status"]) == ("unknown", "timeout", 0)


def test_other_endpoint_takes_what_one_cannot(tmp_path: Path) -> None:
    """What never left is `unsent`; its next attempt goes elsewhere, and for a second so does
    everything else.
    """
    operations = sends(20, 14)
    with StubSqs() as stub, unused_port() as port:
        dead = f"http://127.0.0.1:{port}"
        plan = Plan(trace(operations), settings(stub.url, dead, measures_clock=False))
        replay(tmp_path, operations, plan)
    rows = history(tmp_path)
    assert sorted(keys(rows)) == sorted(f"{TRACE_ID}-{op}-0" for op in range(20))
    unsent = [row for row in rows if row["endpoint"] == dead]
    seconds = (rows[-1]["ended_us"] - rows[0]["started_us"]) / 1e6
    assert 1 <= len(unsent) < 3 + seconds
    assert {row["outcome"] for row in unsent} == {"unsent"}
    assert {message["outcome"] for row in unsent for message in row["messages"]} == {"refused"}


def test_history_has_the_clock_of_the_server(tmp_path: Path) -> None:
    operations = sends(3, 300)
    with StubSqs(Faults(clock_ahead_ms=-7_000)) as stub:
        (summary,) = replay(tmp_path, operations, Plan(trace(operations), settings(stub.url)))
        assert list(stub.queues) == ["plain"], "the queue of the measurement is gone"
        sent_ms = [message.sent_ms for message in stub.queues["plain"].messages.values()]
    assert abs(summary.offset_us + 7_000_000) < 1_000_000
    for row, stamp in zip(history(tmp_path), sorted(sent_ms), strict=True):
        assert row["started_us"] - 1_000_000 <= stamp * 1_000 <= row["ended_us"] + 1_000_000


def test_https_endpoint_has_to_prove_who_it_is(tmp_path: Path) -> None:
    files = make_certificate(make_signer(tmp_path / "signer"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    operations = sends(3, 300)
    with StubSqs(context=context) as stub:
        plan = Plan(trace(operations), settings(stub.url, ca_file=files.authority))
        replay(tmp_path, operations, plan)
        with pytest.raises(LoadError, match=r"cannot be reached: .*CERTIFICATE_VERIFY_FAILED"):
            control.prepare(Plan(trace(operations), settings(stub.url)), RUN, "")
    assert len(keys(history(tmp_path))) == 3


def test_drain_gives_up_on_a_queue_that_stays_full(tmp_path: Path) -> None:
    operations = sends(3, 300)
    with StubSqs(Faults(hold_deleted=True)) as stub:
        plan = Plan(
            trace(operations, Queue("plain", consumers=quick())),
            settings(stub.url, drain_seconds=4.0),
        )
        summaries = replay(tmp_path, operations, plan)
    assert not summaries[1].is_drained
    assert summaries[1].is_complete
    # Deleted and delivered again: what the verifier is to find.
    received = keys(of(history(tmp_path), "ReceiveMessage"))
    assert len(received) > len(set(received))


def test_stopped_run_keeps_what_was_recorded(tmp_path: Path) -> None:
    """Two minutes of trace, stopped before they begin."""
    operations = sends(1_200, 10)
    consumed = Queue("plain", consumers=quick(wait_seconds=20))
    with StubSqs() as stub:
        plan = Plan(trace(operations, consumed), settings(stub.url))
        board = Board(tmp_path)
        board.open()
        board.request_stop()
        summaries = replay(tmp_path, operations, plan)
    assert [summary.is_complete for summary in summaries] == [False, False]
    rows = history(tmp_path)
    assert len(of(rows, "SendMessage")) < 100
    assert len(rows) == sum(summary.rows for summary in summaries)


def test_wrong_credentials_are_told_in_one_line() -> None:
    with StubSqs(Faults(access_key="other")) as stub:
        with pytest.raises(LoadError, match=f"{stub.url} refuses the credentials: InvalidClient"):
            control.prepare(Plan(trace([]), settings(stub.url)), RUN, "")


def test_unreachable_endpoint_is_told_in_one_line() -> None:
    with unused_port() as port:
        plan = Plan(trace([]), settings(f"http://127.0.0.1:{port}"))
        with pytest.raises(LoadError, match=r"cannot be reached: .*refused"):
            control.prepare(plan, RUN, "")


def test_server_that_hangs_up_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        plan = Plan(trace([]), settings(f"http://127.0.0.1:{server.getsockname()[1]}"))
        with pytest.raises(LoadError, match=r"ListQueues|cannot be reached"):
            control.prepare(plan, RUN, "")
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_queue_with_messages_is_not_replayed_onto() -> None:
    with StubSqs() as stub:
        plan = Plan(trace([]), settings(stub.url))
        targets = control.prepare(plan, RUN, "")
        assert control.count(plan.settings, RUN, targets)["plain"] == {
            "ApproximateNumberOfMessages": 0,
            "ApproximateNumberOfMessagesNotVisible": 0,
            "ApproximateNumberOfMessagesDelayed": 0,
        }
        stub._send(stub.queues["plain"], {"MessageBody": "old"})
        with pytest.raises(LoadError, match="holds 1 messages"):
            control.prepare(plan, RUN, "")
        assert control.prepare(plan, RUN, "my-")["plain"].url.endswith("/my-plain")


def test_dead_letter_queue_gets_its_policy() -> None:
    queues = (Queue("a", dead_letter="b", max_receives=3), Queue("b"))
    with StubSqs() as stub:
        control.prepare(Plan(trace([], *queues), settings(stub.url)), RUN, "")
        assert stub.queues["a"].attributes["RedrivePolicy"] == (
            '{"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:b", "maxReceiveCount": 3}'
        )


@contextmanager
def unused_port() -> Iterator[int]:
    """A port that nobody listens on while the context lasts."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
