"""A soak of seconds finds nothing wrong; its judge finds what was planted, also after a while."""

from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bench import soak, soak_judge, soak_watch
from bench.soak_judge import HORIZON_SECONDS, Judge
from bench.soak_watch import Histogram, Sample, Usage, Watched
from tests.cluster.history import Deleted, Drained, Event, Message, Received, Sent

LATER = 2 * HORIZON_SECONDS


def life(number: int, at: float = 0.0, group: str = "") -> tuple[Sent, Received, Deleted]:
    """A message that is sent, received within the second, and deleted."""
    body, place = f"q/a/{number}", number if group else -1
    ids = (f"id-{number}", group, place, str(number) if group else "")
    message = Message(ids[0], body, group, ids[3])
    return (
        Sent("q", body, at, at + 0.1, *ids),
        Received("q", at + 0.2, at + 0.3, 5, (message,)),
        Deleted("q", ids[0], at + 0.2, 5, at + 0.4, at + 0.5, True),
    )


def judged(*histories: Iterable[Event]) -> Judge:
    """Each history is told when the one before it has been judged and retired."""
    judge = Judge()
    for history in histories:
        judge.add(history)
        judge.settle(LATER)
    return judge


def test_messages_that_are_done_with_are_retired_and_counted() -> None:
    judge = judged([event for number in range(100) for event in life(number)])
    assert (judge.live, judge.sent, list(judge.complaints)) == (0, 100, [])
    assert not judge.queues["q"].received
    assert not judge.queues["q"].deleted


def test_messages_that_are_not_done_with_stay() -> None:
    recent = life(1, at=LATER - HORIZON_SECONDS)
    sent, received, _ = life(2)
    judge = judged([*recent, sent, received])
    assert judge.live == 2
    assert len(judge.queues["q"].deleted) == 1


def test_an_answer_keeps_the_messages_that_are_still_there() -> None:
    (sent, received, deleted), (other_sent, other_received, _) = life(1), life(2)
    both = received._replace(messages=received.messages + other_received.messages)
    judge = judged([sent, other_sent, both, deleted])
    assert [answer.messages for answer in judge.queues["q"].received] == [other_received.messages]


def test_an_answer_that_is_told_before_the_send_of_its_message_waits_for_it() -> None:
    sent, received, deleted = life(1)
    judge = Judge()
    judge.add([received, deleted])
    judge.settle(received.ended + 1.0)
    judge.add([sent])
    judge.settle(LATER)
    assert (judge.live, list(judge.complaints)) == (0, [])


def test_a_retired_message_that_comes_back_is_complained_about() -> None:
    _, received, _ = life(1)
    judge = judged(life(1), [received._replace(began=LATER, ended=LATER)])
    judge.settle(2 * LATER)
    assert list(judge.complaints) == ["q: phantom: q/a/1: delivered and never sent"]


def test_a_message_that_nobody_ever_received_is_lost_at_the_end() -> None:
    sent, _, _ = life(2)
    judge = judged([*life(1), sent], [Drained("q", (0, 0, 0), 0, (0, 0, 0))])
    assert list(judge.complaints) == ["q: lost: q/a/2: acknowledged and never delivered"]


def test_a_message_whose_answer_is_still_held_is_not_lost() -> None:
    judge, (sent, received, deleted) = Judge(), life(1)
    judge.add([sent, received, deleted, Drained("q", (0, 0, 0), 0, (0, 0, 0))])
    judge.settle(received.ended + 1.0)
    judge.settle(LATER)
    assert not judge.complaints


def test_the_last_message_of_a_group_is_remembered_for_the_next() -> None:
    later = life(3, at=LATER, group="g")
    assert list(judged(life(2, group="g"), later).complaints) == []
    complaints = judged(life(4, group="g"), [later[0]._replace(number=5)]).complaints
    assert any(complaint.startswith("q: fifo_sent_order: q/a/3") for complaint in complaints)


def test_a_message_that_comes_before_its_delay_is_complained_about() -> None:
    sent = Sent("q", "q/a/1+3", 10.0, 10.1, "id")
    received = Received("q", 12.0, 12.9, 5, (Message("id", "q/a/1+3"),))
    assert list(judged([sent, received]).complaints) == [
        "q: q/a/1+3 was delivered before its delay was over"
    ]
    assert not judged([sent, received._replace(ended=13.0)]).complaints


def test_quantiles_are_right_within_a_bucket() -> None:
    histogram = Histogram()
    for milliseconds in range(1, 1_001):
        histogram.add(milliseconds / 1e3)
    assert histogram.quantile(0.5) == pytest.approx(0.5, rel=0.03)
    assert histogram.quantile(0.99) == pytest.approx(0.99, rel=0.03)


def watched(
    *, megabytes_per_hour: float = 0.0, slower: float = 1.0, disk: float = 10.0, cache: float = 1.0
) -> Watched:
    """An hour with saw teeth, and a block cache that grows by so much in each minute; the last
    quarter is slower and needs more disk.
    """
    found = Watched()
    for minute in range(60):
        is_last = minute >= 45
        rest = 200 + megabytes_per_hour * minute / 60 + 8 * (minute % 5)
        cached = cache * minute
        usage = Usage(rest + cached, cached, 100, disk if is_last else 10.0, 0.0)
        found.samples.append(Sample(minute * 60.0, usage, 0.5, 1_000, 990, 0, 0, 0, {}))
        histogram = Histogram()
        for _ in range(100):
            histogram.add(0.01 * (slower if is_last else 1.0))
        found.histograms.append({"SendMessage": histogram})
    return found


@pytest.mark.parametrize(
    ("run", "missed"),
    [
        (watched(), []),
        (watched(megabytes_per_hour=40, slower=1.3, disk=70), []),
        (watched(megabytes_per_hour=120), ["resident memory without block cache, MB/hour"]),
        (watched(cache=1.5), ["block cache, MB"]),
        (watched(slower=1.8), ["p99, last quarter / second"]),
        (watched(disk=100), ["disk, last quarter / second"]),
    ],
)
def test_what_is_not_flat_is_missed(run: Watched, missed: list[str]) -> None:
    lines = soak_watch.verdicts(run, rate=1_000, nodes=1)
    assert [line.name for line in lines if not line.is_met] == missed
    assert all(line.target for line in lines)


def test_a_rate_counts_for_as_long_as_it_was_measured() -> None:
    usage = Usage(100, 0, 100, 10, 0)
    samples = [
        Sample(at, usage, 0.5, rate, rate, 0, 0, 0, {})
        for at, rate in ((90.0, 100.0), (91.0, 900.0), (92.0, 900.0), (100.0, 100.0))
    ]
    assert soak_watch.rate_line(samples, 100.0).value == pytest.approx(1.16)


def test_a_node_that_does_not_keep_up_is_missed() -> None:
    assert not soak_watch.verdicts(watched(), rate=1_200, nodes=1)[-1].is_met


def test_the_memory_of_a_judge_is_that_of_its_window() -> None:
    judge = Judge()
    for second in range(200):
        judge.add(event for number in range(10) for event in life(second * 10 + number, second))
        judge.settle(float(second))
        assert judge.live <= (HORIZON_SECONDS + 2) * 10
    assert (judge.sent, list(judge.complaints)) == (2_000, [])


def test_a_soak_of_seconds_is_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: tmp_path / f"soak.{name}" for name in ("svg", "json")}
    arguments = ["--minutes", "0.05", "--rate", "200", "--data-under", str(tmp_path)]
    arguments += ["--svg", str(files["svg"]), "--json", str(files["json"])]
    assert soak.main(arguments) == 0, capsys.readouterr()
    results = msgspec.json.decode(files["json"].read_bytes(), type=soak.Results)
    assert len(results.lines) == 8
    assert results.judge.sent > 50
    assert {"SendMessage", "SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch"} <= {
        action for sample in results.samples for action in sample.latencies
    }
    assert all(sample.usage.resident_mb > 0 < sample.usage.disk_mb for sample in results.samples)
    ElementTree.fromstring(files["svg"].read_text())


def test_the_judge_answers_once_at_the_end() -> None:
    with soak.judging() as judge:
        judge.send((1.0, life(1)))
        judge.send(None)
        assert judge.poll(soak.VERDICT_SECONDS_MAX)
        verdict = judge.recv()
    assert (verdict.sent, verdict.complaints) == (1, [])
    assert isinstance(verdict, soak_judge.Verdict)
