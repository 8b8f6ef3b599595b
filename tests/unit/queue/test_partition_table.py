"""The table of docs/partitions.md names tests that exist, and every row names some."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "partitions.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(?:tests/[\w/]+/)?(test_\w+\.py)(?:::(\w+))?`")
# As many rows as the two lists have that the table answers.
ROWS = 26


@cache
def names_in(file: str) -> frozenset[str]:
    """The tests of the files of that name, functions and cases."""
    names: set[str] = set()
    for path in (ROOT / "tests").rglob(file):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign):
                names.update(one.id for one in node.targets if isinstance(one, ast.Name))
    return frozenset(names)


def missing(text: str) -> list[str]:
    """What the text names and nobody has."""
    named = set(NAMED.findall(text))
    gone = [file for file, _ in named if not list((ROOT / "tests").rglob(file))]
    known = [(file, name) for file, name in named if file not in gone and name]
    return gone + [f"{file}::{name}" for file, name in known if name not in names_in(file)]


def rows() -> list[str]:
    table = PAGE.split("| theirs |")[1]
    return [line for line in table.splitlines() if line.startswith("| `")]


def test_every_test_that_is_named_exists() -> None:
    assert missing(PAGE) == []


def test_every_row_has_a_test() -> None:
    assert len(rows()) == ROWS
    for row in rows():
        theirs, _, ours = row.strip("| ").split(" | ")
        assert theirs and any(name for _, name in NAMED.findall(ours)), row


@pytest.mark.parametrize(
    "text", ["`test_nowhere.py`", "`test_partition_table.py::test_nothing`", "`test_no.py::test_a`"]
)
def test_what_is_missing_is_found(text: str) -> None:
    assert len(missing(text)) == 1
