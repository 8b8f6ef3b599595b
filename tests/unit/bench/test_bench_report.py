"""Figures, targets and verdicts of the whole-node benchmark, from slices made by hand."""

import msgspec

from bench import report
from bench.load import Group, Outcome, Step
from bench.report import Line, Sample


def sample(*, rate: int, cpu_us: float, fsyncs: float | None = None) -> Sample:
    step = Step("request", rate, {200: rate}, p50_us=1000, p99_us=2000, p999_us=3000, max_us=4000)
    group = Group("cycle", 64, 0, 0, 0, [step])
    outcome = Outcome(1.0, 0.5, rate * cpu_us / 1e6, rate, rate, 0, None, [group])
    return Sample(outcome, fsyncs)


def test_a_ratio_is_taken_within_each_turn_so_a_slow_turn_cancels_out() -> None:
    echo = [sample(rate=1000, cpu_us=10), sample(rate=100, cpu_us=100)]
    node = [sample(rate=500, cpu_us=20, fsyncs=50), sample(rate=50, cpu_us=200, fsyncs=5)]
    rate, cpu, fsync, latency = report.send_lines("send", node, echo, at_least=0.5)
    assert (rate.value, cpu.value) == (0.5, 0.5)
    assert rate.is_met and cpu.is_met
    assert (fsync.value, fsync.target) == (10.0, "")
    assert latency.value == 1.0


def test_a_batch_counts_its_ten_messages() -> None:
    echo = [sample(rate=1000, cpu_us=10)]
    node = [sample(rate=100, cpu_us=20)]
    line, cost = report.batch_lines("batch", node, echo, at_least=1.01)
    assert line.value == 1.0
    assert line.verdict == "MISSED"
    assert (cost.value, cost.verdict) == (5.0, "")


def test_the_client_limit_is_its_rate_at_a_full_core() -> None:
    line = report.client_line("client", [sample(rate=1000, cpu_us=10)])
    assert line.value == 0.5
    assert "2,000/s" in line.detail


def test_verdicts_follow_the_side_of_the_target() -> None:
    cases = {
        "met": [Line("a", 1.0, at_least=1.0), Line("a", 1.0, at_most=1.0)],
        "MISSED": [Line("a", 0.99, at_least=1.0), Line("a", 1.01, at_most=1.0)],
        "": [Line("a", 1.0)],
    }
    for verdict, lines in cases.items():
        assert [line.verdict for line in lines] == [verdict] * len(lines)
        assert all(line.is_met == (verdict != "MISSED") for line in lines)


def test_the_table_shows_name_figure_target_and_verdict_of_each_line() -> None:
    table = report.render([Line("one", 0.256, "why", at_least=0.3), Line("second", 7)])
    _, first, second = table.splitlines()
    assert first.split() == ["one", "0.26", "≥", "0.3", "MISSED", "why"]
    assert second.split() == ["second", "7.00"]


def test_an_outcome_is_read_from_the_json_of_the_load_generator() -> None:
    text = (
        '{"elapsed_s":2.0,"client_cpu_s":0.5,"watched_cpu_s":1.0,"sent":5,"answered":4,'
        '"connections_lost":1,"first_failure":null,"groups":[{"kind":"cycle","connections":1,'
        '"messages_received":0,"messages_deleted":0,"receives_empty":0,"steps":[{"name":"request",'
        '"measured":4,"statuses":{"200":4},"p50_us":1,"p99_us":2,"p999_us":2,"max_us":2.5}]}]}'
    )
    outcome = msgspec.json.decode(text, type=Outcome, strict=False)
    assert (outcome.rate, outcome.client_share, outcome.server_cpu_us) == (2.0, 0.25, 250000.0)
    assert outcome.step.statuses == {200: 4}
