"""docs/security.md names tests that exist, and every dependency with its reason."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_the_named_tests_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", DOCUMENT)
    assert len(named) > 25
    for path, test in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert "def test_" in text, path
        assert f"def {test}(" in text or not test, f"{path}::{test}"


def test_every_boundary_is_shown_by_a_test() -> None:
    chapter = DOCUMENT.split("## Boundaries\n")[1].split("\n## ")[0]
    rows = [line for line in chapter.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    for row in rows:
        assert "`tests/" in row.split(" | ")[-1], row


def test_every_dependency_has_a_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    crates = tomllib.loads((ROOT / "rust_ext" / "Cargo.toml").read_text())["dependencies"]
    chapter = DOCUMENT.split("## Dependencies\n")[1]
    named = re.findall(r"`([\w-]+)`", "".join(re.findall(r"^\|([^|]+)\|", chapter, re.MULTILINE)))
    pinned = {text.partition("==")[0] for text in project["dependencies"]}
    assert set(named) == pinned | set(crates)


def test_documents_point_at_each_other() -> None:
    assert "docs/security.md" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "security.md" in (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
