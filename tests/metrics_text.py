"""A strict reader of Prometheus' text format (version 0.0.4): what `promtool check metrics` would
complain about is an AssertionError.
"""

import re
from typing import Final, NamedTuple

_NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL: Final = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE: Final = re.compile(rf"({_NAME})(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? (\S+)")
_LABELS: Final = re.compile(_LABEL)
_KINDS: Final = frozenset({"counter", "gauge", "histogram", "untyped"})
_PARTS: Final = ("_bucket", "_sum", "_count")


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


class Family(NamedTuple):
    kind: str
    samples: list[Sample]


def read_metrics(text: str) -> dict[str, Family]:
    assert text.endswith("\n"), "the last line does not end"
    families: dict[str, Family] = {}
    current, explained = "", ""
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            explained = line.split(" ", 3)[2]
            assert line.split(" ", 3)[3].strip(), f"{explained} is not explained"
        elif line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            assert kind in _KINDS and current == explained, line
            assert current not in families, f"{current} comes twice"
            families[current] = Family(kind, [])
        else:
            sample = _read_sample(line)
            key = sample.name, frozenset(sample.labels.items())
            assert key not in seen, f"twice: {line}"
            seen.add(key)
            assert _belongs(sample.name, current, families[current].kind), line
            families[current].samples.append(sample)
    for name, family in families.items():
        assert family.samples, f"{name} has no sample"
        if family.kind == "counter":
            assert name.endswith("_total"), f"{name} is a counter"
        if family.kind == "histogram":
            _check_histogram(name, family.samples)
    return families


def _read_sample(line: str) -> Sample:
    match = _SAMPLE.fullmatch(line)
    assert match, f"not a sample: {line!r}"
    pairs = [label.split("=", 1) for label in _LABELS.findall(match[2] or "")]
    labels = {name: value[1:-1] for name, value in pairs}
    assert len(labels) == len(pairs), f"a label twice: {line}"
    return Sample(match[1], labels, float(match[3]))


def _belongs(sample: str, family: str, kind: str) -> bool:
    if kind == "histogram":
        return sample in {family + part for part in _PARTS}
    return sample == family


def _check_histogram(name: str, samples: list[Sample]) -> None:
    """Of each set of labels: ends that grow, counts that do not fall, and a sum."""
    sets: dict[frozenset[tuple[str, str]], list[Sample]] = {}
    for sample in samples:
        others = {key: value for key, value in sample.labels.items() if key != "le"}
        sets.setdefault(frozenset(others.items()), []).append(sample)
    for found in sets.values():
        buckets = [sample for sample in found if sample.name == f"{name}_bucket"]
        ends = [float(sample.labels["le"]) for sample in buckets]
        counts = [sample.value for sample in buckets]
        assert ends == sorted(set(ends)) and ends[-1] == float("inf"), f"{name}: {ends}"
        assert counts == sorted(counts), f"{name}: {counts}"
        (count,) = (sample.value for sample in found if sample.name == f"{name}_count")
        (total,) = (sample.value for sample in found if sample.name == f"{name}_sum")
        assert count == counts[-1] and total >= 0
