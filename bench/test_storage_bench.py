"""The storage bench still works, and its verdicts follow its figures; speed is not judged here."""

from pathlib import Path

import msgspec
import pytest

from bench import storage, storage_engine
from bench.storage_engine import PRESENT, Pattern, Run
from fastnode import config
from fastnode.store import engine


def state(engine_bytes: int, log_bytes: int, receive_us: float) -> storage.State:
    return storage.State(engine_bytes, log_bytes, receive_us)


def engine_run(way: str, *, cpu_us: float, left: int) -> Run:
    return Run(way, cpu_us, 2.0, 1_000, left, 10.0, 20.0, 5.0)


def test_space_and_latency_are_judged_against_what_they_were() -> None:
    segment = config.LOG_SEGMENT_BYTES
    before, after = state(0, 2 * segment, 100.0), state(segment, 5 * segment, 120.0)
    space, engines, latency = storage.consumption_lines(before, after, 20 * segment, 3.0, 500)
    assert (space.value, space.verdict) == (2.0, "MISSED")
    assert (engines.value, engines.verdict) == (0.05, "met")
    assert (latency.value, latency.verdict) == (1.2, "met")


def test_a_purge_is_judged_by_the_median_of_its_turns() -> None:
    line = storage.purge_line([(100.0, 150.0), (100.0, 900.0), (100.0, 190.0)], 1_000)
    assert (line.value, line.verdict) == (1.9, "met")
    assert storage.purge_line([(100.0, 210.0)], 1_000).verdict == "MISSED"


def test_the_present_way_is_compared_with_ways_that_return_the_space() -> None:
    pattern = Pattern("p", 10, 10, 0.0)
    present = engine_run(PRESENT, cpu_us=10.0, left=10)
    wasteful = engine_run("wasteful", cpu_us=1.0, left=900)
    lines = storage_engine.pattern_lines(
        pattern, [present, wasteful, engine_run("tidy", cpu_us=8.0, left=20)]
    )
    by_name = {line.name.rpartition(": ")[2]: line for line in lines[:3]}
    assert by_name["share left"].value == 0.01
    assert by_name["CPU / best"].value == 1.25
    assert all(line.is_met for line in lines)


def test_a_neighbour_is_another_queue_of_the_same_group() -> None:
    assert storage.neighbour_of("purged") != "purged"
    assert storage.neighbour_of("purged") == storage.neighbour_of("purged")


def test_the_engine_returns_to_its_own_options_after_a_run(tmp_path: Path) -> None:
    options_for = vars(engine)["options_for"]
    result = storage_engine.run(tmp_path / "engine", "universal", Pattern("p", 300, 300, 0.0))
    assert vars(engine)["options_for"] is options_for
    assert result.peak_bytes > 0 and result.write_ratio > 0 and result.cursor_scan_us > 0


def test_the_whole_table_comes_out_with_every_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "storage.json"
    arguments = ["--short", "--data-under", str(tmp_path), "--json", str(file)]
    assert storage.main(arguments) == 0
    results = msgspec.json.decode(file.read_bytes())
    table = capsys.readouterr().out
    assert len(results["lines"]) == 4 + 2 * (3 + len(storage_engine.WAYS))
    assert all(line["value"] > 0 and line["name"] in table for line in results["lines"])
    assert {run["way"] for run in results["engine_runs"]} == set(storage_engine.WAYS)
