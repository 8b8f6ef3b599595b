"""A replay reduced to what a report shows of it: a value of bounded size, to JSON and back. Pure.

Latency counts from the moment a call was due. Durations are µs; slots are equal parts of the run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from spark_load.schema import VERSION

# Slots of the time axis, at most: more would show single calls, and a plot has no room for them.
SLOTS_MAX: Final = 120
# Bins of a distribution: so many for each power of ten.
BINS_PER_DECADE: Final = 10
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
END_TO_END: Final = "end to end"
_STEPS: Final = (1, 2, 5)

# Number by name, one of a table's rows.
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """One replay. All lists have a bound; the SQL in `aggregates.py` names their columns."""

    trace_id: str
    workload: str
    began_us: int
    ended_us: int
    step_us: int
    is_complete: bool
    speed: float
    planned: int
    budget_us: int
    verdict: str | None = None
    violations: Mapping[str, int] = field(default_factory=dict)
    faults: Sequence[Row] = ()
    # Kind → its calls by outcome, messages and latency.
    totals: Mapping[str, Row] = field(default_factory=dict)
    errors: Sequence[Row] = ()
    answers: Sequence[Row] = ()  # by slot, kind and endpoint
    latencies: Sequence[Row] = ()  # by slot and kind
    lateness: Sequence[Row] = ()  # by slot
    distributions: Sequence[Row] = ()  # by kind and bin
    arrivals: Sequence[Row] = ()  # by slot: messages that came, and that left
    leases: Sequence[Row] = ()  # by slot: deliveries that began, and that ended
    endpoints: Sequence[Row] = ()
    queues: Sequence[Row] = ()
    groups: Sequence[Row] = ()  # the largest message groups
    group_count: int = 0
    grouped_messages: int = 0
    tenants: Sequence[Row] = ()
    choosing: Sequence[Row] = ()  # by slot
    choosing_bins: Sequence[Row] = ()
    partitions: Sequence[Row] = ()
    rows_seen: Sequence[Row] = ()
    over_budget: int = 0
    version: int = VERSION

    @property
    def seconds(self) -> float:
        return max(self.ended_us - self.began_us, 1) / 1e6

    @property
    def slots(self) -> int:
        return -(-max(self.ended_us - self.began_us, 1) // self.step_us)

    def total(self, kind: str, column: str) -> int:
        return int(self.totals.get(kind, {}).get(column) or 0)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":")) + "\n"


def names(runs: Sequence[Run]) -> list[str]:
    """What tells them apart. Two replays of one trace differ by when they began."""
    short = [f"{run.workload} {run.trace_id}" for run in runs]
    if len(set(short)) == len(short):
        return short
    moments = (datetime.fromtimestamp(run.began_us / 1e6, UTC) for run in runs)
    return [f"{name}, {at:%Y-%m-%d %H:%M:%S}" for name, at in zip(short, moments, strict=True)]


def run_from_json(text: str) -> Run:
    """Raises ValueError or TypeError if it is not one."""
    values = json.loads(text)
    if not isinstance(values, dict) or values.get("version") != VERSION:
        raise ValueError(f"not the numbers of a run, version {VERSION}")
    return Run(**values)


def step_us(duration_us: int) -> int:
    """The shortest of 1, 2, 5, 10, … ms with which there are no more than SLOTS_MAX slots."""
    unit = 1000
    while True:
        for step in _STEPS:
            if step * unit * SLOTS_MAX >= duration_us:
                return step * unit
        unit *= 10


def bin_low_us(number: int) -> float:
    """Where a bin of a distribution begins."""
    return float(10 ** (number / BINS_PER_DECADE))
