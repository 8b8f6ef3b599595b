"""The checker bites: a row without a case, a case without a row, a proof that does not exist."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import contract
from tests.conformance.contract import ROOT, Citation, Row

ROWS = {
    "1.a": Row("1.a", "1", "stated", ("recorded",)),
    "1.b": Row("1.b", "1", "stated for JSON", ("recorded",), protocols=("json",)),
    "2.a": Row("2.a", "2", "not served", ("recorded",), status="later", reason="because"),
    "2.b": Row("2.b", "2", "shown elsewhere", ("wild",), status="elsewhere", test="absent.py::f"),
}
COVERED = [
    Citation("one", "json", ("1.a", "1.b"), has_passed=True),
    Citation("two", "query", ("1.a",), has_passed=False),
]


def test_covered_rows_are_no_reason_to_complain() -> None:
    assert contract.uncovered_rows(ROWS, COVERED) == []
    assert contract.unknown_rows(ROWS, COVERED) == []


def test_a_row_needs_a_case_by_each_of_its_protocols() -> None:
    assert contract.uncovered_rows(ROWS, COVERED[:1]) == ["1.a (query): stated"]
    assert contract.uncovered_rows(ROWS, COVERED[1:]) == [
        "1.a (json): stated",
        "1.b (json): stated for JSON",
    ]


@pytest.mark.parametrize("row", ["1.z", "2.a"], ids=["unknown", "later"])
def test_a_case_may_cite_only_rows_that_are_served(row: str) -> None:
    assert len(contract.unknown_rows(ROWS, [Citation("one", "json", ("1.a", row))])) == 1


def test_a_proof_elsewhere_must_exist() -> None:
    assert len(contract.missing_tests(ROWS)) == 1
    own = f"{Path(__file__).relative_to(ROOT)}::test_a_proof_elsewhere_must_exist"
    found = Row("1.c", "1", "shown here", ("wild",), status="elsewhere", test=own)
    assert contract.missing_tests({"1.c": found}) == []


def test_failed_cases_are_counted_apart() -> None:
    assert contract.table(ROWS, COVERED)[1:] == [
        "1       json          2       2      1      0         0     0",
        "1       query         1       1      0      1         0     0",
        "2       json          2       0      0      0         1     1",
        "2       query         2       0      0      0         1     1",
        "all     both          7       3      1      1         2     2",
    ]


@pytest.mark.parametrize(
    "text",
    [
        '["1"]\na = { says = "x", evidence = "hearsay" }',
        '["1"]\na = { says = "x", evidence = "wild", on = "soap" }',
        '["1"]\na = { says = "x", evidence = "wild", status = "later" }',
        '["1"]\na = { says = "x", evidence = "wild", status = "elsewhere" }',
        '["1"]\na = { says = "x", evidence = "wild", color = "red" }',
    ],
)
def test_a_row_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "rows.toml").write_text(text)
    with pytest.raises(AssertionError):
        contract.load_rows(tmp_path)


def test_a_planted_row_fails_the_run(tmp_path: Path) -> None:
    for path in contract.ROWS_FOLDER.glob("*.toml"):
        (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "planted.toml").write_text('["99"]\na = { says = "planted", evidence = "wild" }')
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/conformance"]
    options = ["--whole-contract", "--contract-rows", str(tmp_path), "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout
    assert "no case covers 99.a (json): planted" in ended.stdout
