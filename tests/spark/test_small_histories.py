"""Histories in files, judged and drawn by the commands without a session: verdicts, exit codes,
and one line for what cannot be judged.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from spark_load.cli import main
from spark_load.headers import write_history_header, write_trace_header
from spark_load.schema import CALLS, OPERATIONS, FaultMark, HistoryHeader
from spark_load.tables import CALLS_ARROW, OPERATIONS_ARROW
from tests.spark.calls import BEGAN_US, Calls, Row, ending, header, plain

EMPTY = ending(left={"q": 0})


def write(directory: Path, rows: Sequence[Row], end: HistoryHeader = EMPTY) -> list[str]:
    """The arguments by which a command reads it."""
    trace, history = directory / "trace", directory / "history"
    operations: list[Row] = [
        {
            "op": number,
            "at_us": 0,
            "queue": "q",
            "action": "SendMessage",
            "tenant": "<b>acme</b>",
            "group": None,
            "lane_key": "",
            "messages": [],
        }
        for number in range(3)
    ]
    write_trace_header(trace, header(plain(), messages=len(rows)))
    write_history_header(history, end)
    for path, table, schema in (
        (trace / OPERATIONS, operations, OPERATIONS_ARROW),
        (history / CALLS, list(rows), CALLS_ARROW),
    ):
        path.mkdir()
        parquet.write_table(pyarrow.Table.from_pylist(table, schema), path / "0.parquet")
    return [str(trace), str(history)]


def lives() -> list[Row]:
    calls = Calls()
    for number in range(3):
        calls.send(str(number), float(number), op=number).receive(number + 0.2, str(number))
        calls.delete(str(number), number + 0.3, of=number + 0.2)
    return calls.rows


def test_a_clean_history_is_worth_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = write(tmp_path, lives())
    assert main(["verify", *arguments]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "verdict: clean"
    verdict = json.loads((tmp_path / "history" / "verdict" / "verdict.json").read_text())
    assert verdict["verdict"] == "clean"
    assert {check["status"] for check in verdict["checks"]} == {"passed"}


def test_a_violation_is_worth_1_and_is_written_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = write(tmp_path, lives()[:-2])
    assert main(["verify", *arguments, "--out", str(tmp_path / "out")]) == 1
    out = capsys.readouterr().out
    assert "q 2: acknowledged and never delivered" in out
    assert out.splitlines()[-1] == "verdict: 1 violations (lost)"
    (row,) = parquet.read_table(tmp_path / "out" / "lost").to_pylist()
    assert (row["queue"], row["key"], row["message_id"]) == ("q", "2", "m2")
    # Once the fault is gone its rows are gone too.
    parquet.write_table(
        pyarrow.Table.from_pylist(lives(), CALLS_ARROW), tmp_path / "history" / CALLS / "0.parquet"
    )
    assert main(["verify", *arguments, "--out", str(tmp_path / "out")]) == 0
    assert not (tmp_path / "out" / "lost").exists()


def test_a_history_cut_short_is_never_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = write(tmp_path, lives()[:-2], ending(is_complete=False))
    assert main(["verify", *arguments]) == 2
    out = capsys.readouterr().out
    assert "verdict: incomplete" in out.splitlines()[-1]
    assert "lost               not judged" in out


def test_what_cannot_be_judged_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = write(tmp_path, lives())
    other = write(tmp_path / "other", lives(), replace(EMPTY, trace_id="ffffffff"))
    empty = write(tmp_path / "empty", [])
    (tmp_path / "bare").mkdir()
    for given, words in (
        ([arguments[0], str(tmp_path / "bare")], "is not a history"),
        ([arguments[0], other[1]], "is a replay of the trace ffffffff"),
        (empty, "nothing was sent"),
    ):
        assert main(["verify", *given]) == 2
        message = capsys.readouterr().err
        assert words in message
        assert len(message.splitlines()) == 1


def test_a_dry_run_judges_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = write(tmp_path, lives()[:-2])
    assert main(["verify", *arguments, "--dry-run"]) == 0
    assert "lost, phantom" in capsys.readouterr().out
    assert main(["report", *arguments, "--dry-run"]) == 0
    assert not (tmp_path / "history" / "verdict").exists()
    assert not (tmp_path / "history" / "report.html").exists()


def test_a_report_shows_the_run_and_nothing_from_outside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = (FaultMark(BEGAN_US + 1_000_000, "leader <killed>"),)
    arguments = write(tmp_path, lives(), replace(EMPTY, faults=faults))
    assert main(["verify", *arguments]) == 0
    assert main(["report", *arguments]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == str(tmp_path / "history" / "report.html")
    html = (tmp_path / "history" / "report.html").read_text(encoding="utf-8")
    assert "leader &lt;killed&gt;" in html
    assert "&lt;b&gt;acme&lt;/b&gt;" in html
    assert "<b>" not in html
    assert "<script" not in html
    assert "http" not in html.replace("http-equiv", "").replace("http://127.0.0.1:9324", "")
    numbers = str(tmp_path / "history" / "report.json")
    assert main(["report", *arguments, "--against", numbers]) == 0
    both = (tmp_path / "history" / "report.html").read_text(encoding="utf-8")
    assert both.count("<svg") == 2 * html.count("<svg") > 0
    assert "1.00 times" in both


def test_numbers_of_something_else_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = write(tmp_path, lives())
    numbers = tmp_path / "history" / "history.json"
    numbers.with_name("odd.json").write_text("[]")
    assert main(["report", *arguments, "--against", str(numbers.with_name("odd.json"))]) == 2
    assert "does not have the numbers of a report" in capsys.readouterr().err
