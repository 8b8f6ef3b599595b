"""What goes wrong in a campaign, and when: a pure function of its seed.

Faults of processes and faults of the network are two rows, so that one of each may last at the same
time; within a row they come one after the other, with time to recover in between.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

# How often what happens, in relation to each other.
PROCESSES: Final = {"kill": 6, "kill all": 1, "pause": 4, "stop": 2, "clock": 3, "full disk": 2}
LINKS: Final = {"isolate": 4, "cut": 3, "one way": 3, "delay": 2, "loss": 2, "transfer": 3}
# How long faults last and how long there is none, seconds.
LASTS: Final = (0.5, 12.0)
PAUSES: Final = (1.0, 10.0)
CLOCK_STEP_SECONDS: Final = 3_600
# Time is the median of the voters' clocks: what is promised holds while most of them are right. So
# one node alone has a clock that is set.
LIAR: Final = 1


class Fault(NamedTuple):
    """`begins` and `ends` are seconds from the beginning; `amount` is what its kind makes of it."""

    kind: str
    begins: float
    ends: float
    node: int
    other: int
    amount: float

    def __str__(self) -> str:
        what = f"{self.kind} of node {self.node}"
        if self.kind in ("cut", "one way", "transfer"):
            what = f"{self.kind} {self.node} to {self.other}"
        if self.kind in ("delay", "loss", "kill all"):
            what = self.kind
        return f"{self.begins:7.1f} s to {self.ends:7.1f} s: {what} ({self.amount:.2f})"


def plan(seed: int, seconds: float, nodes: int, without: Sequence[str] = ()) -> list[Fault]:
    """In the order of their beginnings. `without` are kinds that cannot be done here."""
    faults: list[Fault] = []
    for row in (PROCESSES, LINKS):
        kinds = {kind: weight for kind, weight in row.items() if kind not in without}
        if kinds:
            faults += _row(Random(f"{seed} {sorted(row)}"), kinds, seconds, nodes)
    return sorted(faults, key=lambda fault: fault.begins)


def _row(random: Random, kinds: Mapping[str, float], seconds: float, nodes: int) -> Iterator[Fault]:
    names, weights = list(kinds), list(kinds.values())
    at = random.uniform(*PAUSES)
    while at < seconds:
        (kind,) = random.choices(names, weights)
        lasts = random.uniform(*LASTS) if kind != "transfer" else 0.0
        node, other = random.sample(range(1, nodes + 1), 2)
        # The last node has the disk that can be filled.
        node = {"full disk": nodes, "clock": LIAR}.get(kind, node)
        end = min(at + lasts, seconds)
        yield Fault(kind, round(at, 1), round(end, 1), node, other, random.random())
        at = end + random.uniform(*PAUSES)
