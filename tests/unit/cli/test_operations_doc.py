"""docs/operations.md says what the code does."""

from pathlib import Path

from fastnode.settings import OPTIONS, Option

DOCUMENT = Path(__file__).parents[3] / "docs" / "operations.md"
HEADING = "| flag | variable | key | default | meaning |\n|---|---|---|---|---|\n"


def row(option: Option) -> str:
    value = "" if option.is_switch else " " + option.metavar.replace("|", "\\|")
    return (
        f"| `{option.flag}{value}` | `{option.variable}` | `{option.field}` "
        f"| `{option.default_text}` | {option.summary} |\n"
    )


def test_table_of_options_is_the_one_of_the_code() -> None:
    expected = HEADING + "".join(map(row, OPTIONS))
    assert expected + "\n" in DOCUMENT.read_text(encoding="utf-8"), "paste this:\n" + expected
