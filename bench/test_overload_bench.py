"""The overload benchmark still works: its table comes out whole, and an open loop keeps its pace.

Speed is not judged here.
"""

from pathlib import Path

import msgspec
import pytest

from bench import load, overload, server_process, sqs_requests
from bench.load import Load, LoadError, Outcome
from bench.report import Line
from bench.test_node_load import signer

TINY = overload.Plan(
    rounds=1, slice_seconds=0.2, warmup_seconds=0.05, connections=8, many=32, crowd=64
)


def outcome(statuses: dict[int, int], measured: int, p99_us: float = 2e3) -> Outcome:
    step = load.Step("request", measured, statuses, 1e3, p99_us, p99_us, p99_us)
    sent = sum(statuses.values())
    groups = [load.Group("cycle", 8, 0, 0, 0, [step])]
    return Outcome(1.0, 0.1, 0.5, sent, sent, 0, None, groups)


def slices(**rates: int) -> dict[str, list[overload.Slice]]:
    found = {
        name: [overload.Slice(outcome({200: rate}, rate), 50_000_000, 0.0)]
        for name, rate in rates.items()
    }
    return found


def line(lines: list[Line], name: str) -> Line:
    return next(each for each in lines if each.name == name)


def test_the_whole_table_comes_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "overload.json"
    arguments = ["--short", "--json", str(file), "--data-under", str(tmp_path)]
    assert overload.main(arguments, plan=TINY) == 0
    results = msgspec.json.decode(file.read_bytes())
    table = capsys.readouterr().out
    assert len(results["lines"]) == 14
    assert all(each["name"] in table for each in results["lines"])
    assert {len(found) for found in results["slices"].values()} == {1}


def test_a_collapse_is_a_missed_target() -> None:
    fine = slices(peak=1_000, open=900, many=1_000, crowd=800, after=1_000)
    assert all(each.is_met for each in overload.lines_of(fine))
    collapsed = slices(peak=1_000, open=100, many=1_000, crowd=800, after=700)
    lines = overload.lines_of(collapsed)
    assert not line(lines, "thrice the peak: goodput / peak").is_met
    assert not line(lines, "after it: goodput / peak").is_met
    assert line(lines, "many connections: goodput / peak").is_met


def test_slow_service_and_growing_memory_are_missed_targets() -> None:
    found = slices(peak=1_000, open=1_000, many=1_000, crowd=1_000, after=1_000)
    found["crowd"] = [overload.Slice(outcome({200: 9}, 1_000, p99_us=3e6), 900_000_000, 0.0)]
    lines = overload.lines_of(found)
    assert not line(lines, "crowd: p99 ms of what is served").is_met
    assert not line(lines, "resident MB more").is_met


@pytest.mark.parametrize(
    "seen",
    [outcome({200: 1, 500: 1}, 1), msgspec.structs.replace(outcome({200: 5}, 1), answered=4)],
)
def test_another_status_or_no_answer_at_all_ends_the_measurement(seen: Outcome) -> None:
    with pytest.raises(LoadError):
        overload.check(seen)
    overload.check(outcome({200: 1, 503: 5}, 1))


def test_an_open_loop_sends_what_is_due_and_no_more(tmp_path: Path) -> None:
    load.build()
    with server_process.echo_server(core=None) as echo:
        file = tmp_path / "sends.http"
        url = f"http://{echo.address}/000000000000/bench"
        file.write_bytes(sqs_requests.sends(signer(echo), url, count=3))
        seen = load.run(Load(echo.address, 0.5, cycles=[(16, file)], rate=200))
        assert 90 <= seen.sent + seen.unsent <= 20 + 200 * seen.elapsed_s
        assert seen.answered == seen.sent
        flood = load.run(Load(echo.address, 0.5, cycles=[(1, file)], rate=1_000_000))
    assert flood.unsent > flood.sent, "one connection cannot send so much"
    assert flood.answered == flood.sent
