"""Samples → the page that Prometheus reads, and several workers' samples → one node's. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from fastnode.http.metric_families import FAMILIES, Family, family_of

_TYPE: Final = b"Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"

Samples = Mapping[str, float]


def rendered_metrics(samples: Samples) -> tuple[int, bytes, bytes]:
    return 200, _TYPE, metrics_text(samples).encode()


def metrics_text(samples: Samples) -> str:
    """Families in the order of their table; the lines of one stay in the order they came in."""
    lines: dict[Family, list[str]] = {family: [] for family in FAMILIES}
    for name, value in samples.items():
        lines.setdefault(family_of(name), []).append(f"{name} {_number(value)}\n")
    return "".join(_head(family) + "".join(found) for family, found in lines.items() if found)


def _head(family: Family) -> str:
    return f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"


def _number(value: float) -> str:
    """All digits of a whole number, and as many of another as make it that number again."""
    return repr(value)


def merge_metrics(every: Iterable[Samples]) -> dict[str, float]:
    """Of all workers."""
    merged: dict[str, float] = {}
    for samples in every:
        for name, value in samples.items():
            merged[name] = _merged(name, merged[name], value) if name in merged else value
    return merged


def _merged(name: str, one: float, other: float) -> float:
    merge = family_of(name).merge
    if merge == "sum":
        return one + other
    return max(one, other) if merge == "max" else min(one, other)
