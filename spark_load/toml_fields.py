"""Reads the tables of a workload file key by key, and says what is wrong in one line.

What keys there are, and what they mean, is `workload.py`'s.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from spark_load.errors import LoadError
from spark_load.names import nearest

_UNITS_US: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)")


class Fields:
    """One table. Every key is taken once; `end` complains about those that nobody took."""

    def __init__(self, place: str, table: object) -> None:
        if not isinstance(table, Mapping):
            raise LoadError(f"{place} must be a table, not {table!r}")
        self.place = place
        self._left: dict[str, Any] = dict(table)
        self._known: list[str] = []

    def error(self, name: str, problem: str) -> LoadError:
        return LoadError(f"{self.place}: {name} {problem}")

    def is_table(self, name: str) -> bool:
        return isinstance(self._left.get(name), Mapping)

    def any(self, name: str, default: Any = None) -> Any:
        self._known.append(name)
        return self._left.pop(name, default)

    def integer(self, name: str, default: int, low: int = 0, high: int = 2**53) -> int:
        value = self.any(name, default)
        if type(value) is not int or not low <= value <= high:
            raise self.error(name, f"must be an integer from {low} to {high}, not {value!r}")
        return value

    def number(self, name: str, default: float | None, low: float = 0, high: float = 1e12) -> float:
        value = self.any(name, default)
        if type(value) not in (int, float) or not low <= value <= high:
            raise self.error(name, f"must be a number from {low:g} to {high:g}, not {value!r}")
        return float(value)

    def share(self, name: str) -> float:
        return self.number(name, 0.0, 0, 1)

    def text(self, name: str, default: str | None, choices: Sequence[str] = ()) -> str:
        value = self.any(name, default)
        if not isinstance(value, str):
            raise self.error(name, f"must be text, not {value!r}")
        if choices and value not in choices:
            raise self.error(name, f"cannot be {value!r}{nearest(value, choices)}")
        return value

    def duration_us(self, name: str, default: str | None) -> int:
        value = self.any(name, default)
        duration = parse_duration_us(value)
        if duration is None:
            raise self.error(name, f'must be a duration as "90s" or "5m", not {value!r}')
        return duration

    def seconds(self, name: str, default: str, high: int) -> int:
        value = self.duration_us(name, default)
        if value % 1_000_000 or value > high * 1_000_000:
            raise self.error(name, f"must be whole seconds, at most {high}")
        return value // 1_000_000

    def pair(self, name: str, default: int, low: int, high: int) -> tuple[int, int]:
        """`7` or `[3, 9]`: from and up to."""
        value = self.any(name, default)
        ends = [value, value] if type(value) is int else value
        is_pair = isinstance(ends, list) and [type(end) for end in ends] == [int, int]
        if not is_pair or not low <= ends[0] <= ends[1] <= high:
            raise self.error(name, f"must be a number or [from, to] in {low}…{high}, not {value!r}")
        return ends[0], ends[1]

    def table(self, name: str) -> "Fields | None":
        value = self.any(name)
        return None if value is None else Fields(f"{self.place}.{name}", value)

    def tables(self, name: str) -> "dict[str, Fields]":
        whole = self.any(name, {})
        if not isinstance(whole, Mapping):
            raise self.error(name, f"must be tables, written [{name}.NAME]")
        return {key: Fields(f"{name}.{key}", value) for key, value in whole.items()}

    def end(self) -> None:
        for name in self._left:
            raise LoadError(f"{self.place}: unknown key {name!r}{nearest(name, self._known)}")


def parse_duration_us(value: object) -> int | None:
    """`"1.5s"` in µs; a bare number is seconds."""
    if type(value) in (int, float):
        return round(value * 1_000_000) if value >= 0 else None  # type: ignore[operator]  # narrowed by type() above
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return round(float(match[1]) * _UNITS_US[match[2]]) if match else None
