"""What the checks found, as values, JSON and text. Pure; `verify.py` runs the checks.

A history that was cut short can be found guilty but not innocent: some checks need its end.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from spark_load.schema import VERSION

VERDICT: Final = "verdict.json"
EXIT_CODES: Final = {"clean": 0, "violations": 1, "incomplete": 2}
SHOWN_IN_TEXT: Final = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; `examples` are a few of `count` offences, `rows` holds them all."""

    check: str
    meaning: str
    count: int
    is_judged: bool = True
    examples: tuple[Mapping[str, Any], ...] = ()
    rows: str | None = None

    @property
    def status(self) -> Literal["passed", "failed", "not judged"]:
        if self.count:
            return "failed"
        return "passed" if self.is_judged else "not judged"


@dataclass(frozen=True, slots=True)
class Verdict:
    trace_id: str
    is_complete: bool
    # What was counted: calls, attempts, messages by what became of them.
    counts: Mapping[str, int]
    findings: tuple[Finding, ...]

    @property
    def word(self) -> Literal["clean", "violations", "incomplete"]:
        if any(finding.count for finding in self.findings):
            return "violations"
        return "clean" if self.is_complete else "incomplete"

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.word]

    def to_json(self) -> str:
        checks = [{"status": finding.status} | asdict(finding) for finding in self.findings]
        fields = {
            "version": VERSION,
            "verdict": self.word,
            "trace_id": self.trace_id,
            "is_complete": self.is_complete,
            "counts": dict(self.counts),
            "checks": checks,
        }
        return json.dumps(fields, indent=2) + "\n"


def summary(verdict: Verdict) -> str:
    """For a terminal. The last line is the verdict."""
    return "\n".join(_lines(verdict)) + "\n"


def _lines(verdict: Verdict) -> Iterator[str]:
    yield "  ".join(f"{count:,} {what}" for what, count in verdict.counts.items())
    for finding in verdict.findings:
        amount = f"{finding.count:,}" if finding.count else finding.status
        yield f"  {finding.check:<18} {amount:>10}  {finding.meaning}"
        for example in finding.examples[:SHOWN_IN_TEXT]:
            name = example["key"] or ""
            yield f"    {example['queue']} {name}: {example['detail']}".rstrip()
        if finding.rows:
            yield f"    all of them: {finding.rows}"
    yield _last_line(verdict)


def _last_line(verdict: Verdict) -> str:
    if verdict.word == "violations":
        total = sum(finding.count for finding in verdict.findings)
        checks = ", ".join(finding.check for finding in verdict.findings if finding.count)
        return f"verdict: {total:,} violations ({checks})"
    if verdict.word == "incomplete":
        return "verdict: incomplete: the history was cut short; nothing wrong up to there"
    return "verdict: clean"
