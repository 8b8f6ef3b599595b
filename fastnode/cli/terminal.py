"""What a person sees: tables, a progress bar, a question. Scripts get none of the last two."""

import json
import sys
from collections.abc import Sequence
from typing import Final

from fastnode.errors import UsageError

_BAR_WIDTH: Final = 30
_CLEAR_LINE: Final = "\r\x1b[K"
CLEAR_SCREEN: Final = "\x1b[H\x1b[2J"


def as_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of one width each; a column whose cells are all numbers stands to the right."""
    shown = [[printable(cell) for cell in row] for row in (head, *rows)]
    columns = list(zip(*shown, strict=True))
    widths = [max(map(len, column)) for column in columns]
    is_right = [all(map(_is_number, column[1:])) and len(column) > 1 for column in columns]
    return "".join(_line(row, widths, is_right) for row in shown)


def _line(row: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]) -> str:
    cells = zip(row, widths, is_right, strict=True)
    padded = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells]
    return "  ".join(padded).rstrip() + "\n"


def _is_number(text: str) -> bool:
    return text.strip("+-").replace(",", "").replace(".", "").isdigit() or text == "-"


def printable(text: str) -> str:
    """On one line and without control characters: a message's body must not steer a terminal."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def confirm(question: str, *, is_confirmed: bool) -> None:
    """Returns if the answer is yes; a script has to say so beforehand."""
    if is_confirmed:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{question} Add --yes to say so")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was changed")


class Progress:
    """A bar on stderr, if that is a terminal. `done` may be shown with a total that grows."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._is_shown = sys.stderr.isatty()

    def show(self, done: int, total: int) -> None:
        if self._is_shown:
            sys.stderr.write(_CLEAR_LINE + bar(done, total, self._unit))
            sys.stderr.flush()

    def end(self) -> None:
        if self._is_shown:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()


def bar(done: int, total: int, unit: str) -> str:
    if total <= 0:
        return f"{done:,} {unit}"
    part = min(done / total, 1.0)
    filled = "#" * int(part * _BAR_WIDTH)
    return f"[{filled:<{_BAR_WIDTH}}] {part:4.0%}  {done:,} of {total:,} {unit}"
