"""The rows of the contract, the mark by which a case cites them, and what is left uncovered.

Pure, except that rows are read from the TOML files in `rows/`. Running cases is pytest's part
(`conftest.py`); what a row demands is in the cases.
"""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pytest

ROOT: Final = Path(__file__).parents[2]
ROWS_FOLDER: Final = Path(__file__).parent / "rows"
PROTOCOLS: Final = ("json", "query")
EVIDENCE: Final = frozenset({"recorded", "validated", "documented", "wild", "unverified"})
FIELDS: Final = frozenset({"says", "evidence", "on", "status", "reason", "test"})

Status = Literal["case", "elsewhere", "later"]


@dataclass(frozen=True)
class Row:
    """One observable rule. Cases cover it, unless another test of the tree does (`elsewhere`) or
    what it speaks of is not served yet (`later`).
    """

    id: str
    section: str
    statement: str
    evidence: tuple[str, ...]
    protocols: tuple[str, ...] = PROTOCOLS
    status: Status = "case"
    reason: str = ""
    test: str = ""


@dataclass(frozen=True)
class Citation:
    """A case that ran by one protocol, the rows it cites, and whether it passed (None: not run)."""

    case: str
    protocol: str
    rows: tuple[str, ...]
    has_passed: bool | None = None


def covers(*rows: str, only: str = "") -> pytest.MarkDecorator:
    """Cite the rows that a case proves; `only` names the protocol if it is not for both."""
    return pytest.mark.contract(*rows, only=only)


# --- reading rows -------------------------------------------------------------------------------


def load_rows(folder: Path = ROWS_FOLDER) -> dict[str, Row]:
    paths = sorted(folder.glob("*.toml"))
    documents = [tomllib.loads(path.read_text(encoding="utf-8")) for path in paths]
    reasons = {key: text for one in documents for key, text in one.pop("reasons", {}).items()}
    rows: dict[str, Row] = {}
    for row in (row for document in documents for row in _rows_of(document, reasons)):
        assert row.id not in rows, f"row {row.id} is listed twice"
        rows[row.id] = row
    return rows


def _rows_of(
    document: Mapping[str, Mapping[str, str]], reasons: Mapping[str, str]
) -> Iterator[Row]:
    for section, table in document.items():
        for key, fields in table.items():
            yield _row(section, key, fields, reasons)


def _row(section: str, key: str, fields: object, reasons: Mapping[str, str]) -> Row:
    assert isinstance(fields, dict) and fields.keys() <= FIELDS, f"{section}.{key}: {fields}"
    evidence = tuple(fields["evidence"].split())
    assert evidence and EVIDENCE.issuperset(evidence), f"{section}.{key}: evidence {evidence}"
    row = Row(
        id=f"{section}.{key}",
        section=section,
        statement=fields["says"],
        evidence=evidence,
        protocols=(fields["on"],) if "on" in fields else PROTOCOLS,
        status=fields.get("status", "case"),
        reason=reasons[fields["reason"]] if "reason" in fields else "",
        test=fields.get("test", ""),
    )
    assert set(row.protocols) <= set(PROTOCOLS), f"{row.id}: {row.protocols}"
    assert (row.status == "later") == bool(row.reason), f"{row.id}: what is later has a reason"
    assert (row.status == "elsewhere") == bool(row.test), f"{row.id}: elsewhere names its test"
    return row


# --- judging ------------------------------------------------------------------------------------


def unknown_rows(rows: Mapping[str, Row], citations: Iterable[Citation]) -> list[str]:
    """Cases that cite no row of the list, or one that must not count as covered."""
    return [
        f"{citation.case} cites {name}, which "
        + ("is not served yet" if name in rows else "is no row of the contract")
        for citation in citations
        for name in citation.rows
        if name not in rows or rows[name].status == "later"
    ]


def uncovered_rows(rows: Mapping[str, Row], citations: Iterable[Citation]) -> list[str]:
    """Rows that a protocol they apply to has no case for."""
    cited = {(name, citation.protocol) for citation in citations for name in citation.rows}
    return [
        f"{row.id} ({protocol}): {row.statement}"
        for row in rows.values()
        if row.status == "case"
        for protocol in row.protocols
        if (row.id, protocol) not in cited
    ]


def missing_tests(rows: Mapping[str, Row], root: Path = ROOT) -> list[str]:
    """Rows that are proved elsewhere, by a test that does not exist."""
    return [
        f"{row.id} is said to be proved by {row.test}, which does not exist"
        for row in rows.values()
        if row.status == "elsewhere" and not _has_test(root, row.test)
    ]


def _has_test(root: Path, node: str) -> bool:
    path, _, name = node.partition("::")
    if not (root / path).is_file():
        return False
    tree = ast.parse((root / path).read_text(encoding="utf-8"))
    return any(isinstance(one, ast.FunctionDef) and one.name == name for one in ast.walk(tree))


def failed_cases(citations: Iterable[Citation]) -> list[str]:
    return [one.case for one in citations if one.has_passed is False]


# --- counting -----------------------------------------------------------------------------------


def table(rows: Mapping[str, Row], citations: Sequence[Citation]) -> list[str]:
    """Counts per section and protocol: rows, rows covered, cases passed and failed, the rest."""
    lines = ["section protocol   rows covered passed failed elsewhere later"]
    totals: Counter[str] = Counter()
    for section in dict.fromkeys(row.section for row in rows.values()):
        for protocol in PROTOCOLS:
            counts = _counts(rows, citations, section, protocol)
            if counts["rows"]:
                totals.update(counts)
                lines.append(_line(section, protocol, counts))
    return [*lines, _line("all", "both", totals)]


def _counts(
    rows: Mapping[str, Row], citations: Sequence[Citation], section: str, protocol: str
) -> Counter[str]:
    counts: Counter[str] = Counter()
    here = [row for row in rows.values() if row.section == section and protocol in row.protocols]
    own = {row.id for row in here}
    citing = [one for one in citations if one.protocol == protocol and own.intersection(one.rows)]
    cited = own.intersection(*[{name for one in citing for name in one.rows}])
    counts["rows"] = len(here)
    counts["covered"] = len(cited)
    counts["passed"] = sum(one.has_passed is True for one in citing)
    counts["failed"] = sum(one.has_passed is False for one in citing)
    counts["elsewhere"] = sum(row.status == "elsewhere" for row in here)
    counts["later"] = sum(row.status == "later" for row in here)
    return counts


def _line(section: str, protocol: str, counts: Mapping[str, int]) -> str:
    columns = ("rows", "covered", "passed", "failed", "elsewhere", "later")
    widths = (6, 7, 6, 6, 9, 5)
    cells = [f"{counts[name]:>{width}}" for name, width in zip(columns, widths, strict=True)]
    return f"{section:<7} {protocol:<8} {' '.join(cells)}"
