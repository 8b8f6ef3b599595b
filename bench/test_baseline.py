"""What counts as worse than a baseline, what as noise, and how a baseline is renewed."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import baseline, gate, program, ratios, twins
from bench.baseline import Run
from bench.machine import Machine
from bench.ratios import Change, Ratio
from bench.report import Line, ratio_line

MACHINE = Machine("a cpu", 2, "6.0", "ext4", "3.11", {})
VALUES = st.floats(0.01, 100)


def change(was: float, now: float, *, noise: float = 0.1, is_cost: bool = False) -> Change:
    return Change("row", Ratio(was, noise, is_cost), Ratio(now, noise, is_cost))


def write_run(file: Path, rows: dict[str, Ratio], problems: dict[str, str] | None = None) -> Path:
    program.write(file, Run(datetime(2026, 1, 2, tzinfo=UTC), MACHINE, rows, problems or {}))
    return file


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (change(1.0, 1.0), "as before"),
        (change(1.0, 0.92), "as before"),
        (change(1.0, 0.90), "WORSE"),
        (change(1.0, 1.12), "better"),
        (change(1.0, 1.12, is_cost=True), "WORSE"),
        (change(1.0, 0.90, is_cost=True), "better"),
        (change(1.0, 0.70, noise=0.5), "as before"),
        (Change("row", None, Ratio(1.0, 0.1)), "new"),
        (Change("row", Ratio(1.0, 0.1), None), "not measured"),
    ],
)
def test_a_row_is_judged_by_its_direction_and_its_noise(found: Change, verdict: str) -> None:
    assert found.verdict == verdict
    assert (ratios.worse([found]) == [found]) == (verdict == "WORSE")


@given(VALUES, VALUES, st.booleans())
def test_what_is_worse_one_way_is_better_the_other(a: float, b: float, is_cost: bool) -> None:
    there, back = change(a, b, is_cost=is_cost), change(b, a, is_cost=is_cost)
    assert there.worsening == pytest.approx(1 / back.worsening)


def test_the_gate_lets_pass_what_is_less_than_twice_as_bad() -> None:
    found = [change(1.0, 0.51), change(1.0, 0.49), change(1.0, 2.1, is_cost=True)]
    assert ratios.worse(found, factor=gate.FACTOR_MAX) == found[1:]


def test_noise_follows_the_turns_within_bounds() -> None:
    steady = ratio_line("steady", [1.0, 1.01, 1.02], at_least=1.0)
    uneven = ratio_line("uneven", [0.8, 1.0, 1.2], at_most=1.0)
    wild = ratio_line("wild", [0.1, 1.0, 9.0])
    found = ratios.of_lines([steady, uneven, wild, Line("no ratio", 5.0)])
    assert {name: ratio.noise for name, ratio in found.items()} == {
        "steady": ratios.NOISE_MIN,
        "uneven": 0.2,
        "wild": ratios.NOISE_MAX,
    }
    assert [ratio.is_cost for ratio in found.values()] == [False, True, False]


def test_of_two_tries_the_better_counts() -> None:
    first = {"rate": Ratio(1.0, 0.1), "cost": Ratio(1.0, 0.1, is_cost=True)}
    second = {"rate": Ratio(0.5, 0.1), "cost": Ratio(0.5, 0.1, is_cost=True), "new": Ratio(1, 0.1)}
    merged = ratios.better_of(first, second)
    assert {name: ratio.value for name, ratio in merged.items()} == {
        "rate": 1.0,
        "cost": 0.5,
        "new": 1,
    }


def test_a_worse_row_fails_the_comparison_and_a_renewed_baseline_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = write_run(tmp_path / "base.json", {"kept": Ratio(1.0, 0.1), "lost": Ratio(2.0, 0.1)})
    last = write_run(tmp_path / "last.json", {"kept": Ratio(0.5, 0.1), "added": Ratio(3.0, 0.1)})
    options = ["--json", str(last), "--baseline", str(base)]
    assert baseline.main(["compare", *options]) == program.MISSED
    table = capsys.readouterr().out
    rows = ["kept 1.00 0.50 10% WORSE", "lost 2.00 - 10% not measured", "added - 3.00 0% new"]
    assert all(row in " ".join(table.split()) for row in rows)
    assert baseline.main(["renew", *options]) == 0
    assert baseline.main(["compare", *options]) == 0


def test_a_run_with_gaps_is_no_baseline(tmp_path: Path) -> None:
    last = write_run(tmp_path / "last.json", {"row": Ratio(1.0, 0.1)}, {"send": "no server"})
    base = write_run(tmp_path / "base.json", {"row": Ratio(1.0, 0.1)})
    options = ["--json", str(last), "--baseline", str(base)]
    assert baseline.main(["renew", *options]) == program.NOT_RUN
    assert baseline.main(["compare", *options]) == program.NOT_RUN
    assert baseline.main(["compare", "--json", str(tmp_path / "none")]) == program.NOT_RUN


def test_only_benchmarks_with_a_twin_are_rows() -> None:
    found = twins.of_report(
        [
            {"name": "test_compiled[key]", "extra_info": {twins.FACTOR: 3.5}},
            {"name": "test_get", "extra_info": {}},
        ]
    )
    assert found == {"compiled[key]": Ratio(3.5, twins.NOISE)}


def test_the_committed_baseline_has_rows_for_the_gate() -> None:
    rows = baseline.read(baseline.BASELINE).rows
    assert sum(name.startswith("gate: ") for name in rows) >= 10
    assert all(ratio.value > 0 and ratio.noise >= ratios.NOISE_MIN for ratio in rows.values())
