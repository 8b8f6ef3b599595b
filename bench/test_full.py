"""The table of targets: verdicts, sections that cannot run, and a few sections in earnest."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bench import flat, full, growth, rig, table
from bench.growth import Cost, Point
from bench.machine import Machine
from bench.report import Line
from bench.rig import Rig
from bench.server_process import ServerError
from bench.table import Results, Section

MET = Line("met | so far", 1.0, "why", at_least=1.0)
MISSED = Line("missed", 1234.5, at_most=1.0)
MACHINE = Machine("a cpu", 2, "6.0", "ext4", "3.11", {})


def sections(*lines: Line, problem: str | None = None) -> list[Section]:
    return [Section("one", 1.0, list(lines)), Section("other", 1.0, [], problem)]


@pytest.mark.parametrize(
    ("found", "is_short", "code"),
    [
        (sections(MET), False, 0),
        (sections(MET, MISSED), False, 1),
        (sections(MET, MISSED), True, 0),
        (sections(MET, problem="no server"), False, 2),
        (sections(MISSED, problem="no server"), True, 2),
    ],
)
def test_exit_codes_tell_met_missed_and_not_run(
    found: list[Section], is_short: bool, code: int
) -> None:
    assert table.exit_code(found, is_short=is_short) == code


def test_the_markdown_table_has_a_row_for_each_line_and_each_gap() -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    found = sections(MET, MISSED, problem="no\nserver")
    text = table.markdown(Results(when, MACHINE, rig.FULL, ["fsync on"], found))
    assert text.startswith("- a cpu, 2 cores")
    assert "- fsync on\n- measured on 2026-01-02\n" in text
    assert text.splitlines()[-3:] == [
        "| met / so far | ≥ 1 | 1.00 | met | why |",
        "| missed | ≤ 1 | 1,234 | MISSED |  |",
        "| other |  |  | could not run | no server |",
    ]


def failing(_: Rig) -> list[Line]:
    raise ServerError("it would not start")


def test_a_section_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen: dict[str, Callable[[Rig], list[Line]]] = {"bad": failing, "good": lambda _: [MISSED]}
    monkeypatch.setattr(full, "SECTIONS", chosen)
    file = tmp_path / "full.json"
    assert full.main(["--short", "--json", str(file), "--data-under", str(tmp_path)]) == 2
    bad, good = msgspec.json.decode(file.read_bytes(), type=Results).sections
    assert (bad.problem, good.lines) == ("it would not start", [MISSED])
    assert "| bad |  |  | could not run | it would not start |" in capsys.readouterr().out


def test_some_sections_run_in_earnest(tmp_path: Path) -> None:
    file = tmp_path / "full.json"
    names = "drain,poll,backlog"
    arguments = ["--short", "--json", str(file), "--data-under", str(tmp_path), "--only", names]
    assert full.main(arguments) == 0
    results = msgspec.json.decode(file.read_bytes(), type=Results)
    assert [section.name for section in results.sections] == ["drain", "poll", "backlog"]
    assert [len(section.lines) for section in results.sections] == [2, 1, 4]
    assert all(line.value > 0 and line.turns for line in results.lines)
    assert file.with_suffix(".md").read_text().count("\n|") == 2 + 7


def test_sizes_of_a_plot_grow_up_to_the_largest_that_is_wanted() -> None:
    sizes = flat.sizes_of(growth.BACKLOG, rig.FULL, 1_000_000)
    assert sizes == [1_000, 10_000, 100_000, 1_000_000]
    assert flat.sizes_of(growth.QUEUES, rig.FULL, 5_000_000) == [1, 100, 1_000, 10_000]
    assert flat.sizes_of(growth.IN_FLIGHT, rig.SHORT, 5_000_000) == [0, 2, 20, 200]


def test_a_plot_shows_the_median_ratio_of_each_size() -> None:
    cost = Cost(1.0, 2.0, 3.0, 4.0)
    turns = [[1.0, 1.0, 1.0, 1.0], [1.5, 1.0, 1.0, 1.0], [9.0, 1.0, 1.0, 1.0]]
    points = [Point(1_000, cost, [[1.0] * 4]), Point(10_000, cost, turns)]
    svg = flat.chart(growth.BACKLOG, points)
    titles = [title.text for title in ElementTree.fromstring(svg).iter() if "title" in title.tag]
    assert "send CPU: 1.5 at 10 k" in titles
    assert "1.50" in flat.render(growth.BACKLOG, points)


def test_a_cost_over_another_keeps_its_figures_apart() -> None:
    ratios = Cost(1.0, 4.0, 9.0, 16.0).over(Cost(1.0, 2.0, 3.0, 4.0))
    assert ratios == [1.0, 2.0, 3.0, 4.0]
