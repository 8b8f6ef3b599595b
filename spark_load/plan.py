"""How a trace is cut for Spark: cells of all streams in the order of time, in pieces of equal work.

Pure. Its size follows from the number of time slices, which has a bound, and never from the number
of operations. What the operations are does not depend on the cut.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from spark_load.arrivals import Cell, cells, slice_width_us
from spark_load.errors import LoadError
from spark_load.workload import Workload

OPERATIONS_MAX: Final = 10**12


class Piece(NamedTuple):
    """The work of one task: whole slices, and the number of the first operation in them."""

    number: int
    first_op: int
    cells: list[Cell]


class Plan(NamedTuple):
    slice_us: int
    cells: list[Cell]

    @property
    def operations(self) -> int:
        return sum(cell.operations for cell in self.cells)


class Recorded(Protocol):
    """A stream whose moments are known already."""

    def count(self) -> int: ...
    def cells(self, slice_us: int) -> list[Cell]: ...


def make_plan(workload: Workload, recorded: Sequence[Recorded] = ()) -> Plan:
    expected = sum(stream.operations_expected for stream in workload.streams)
    expected += sum(recording.count() for recording in recorded)
    if expected > OPERATIONS_MAX:
        raise LoadError(f"workload {workload.name} has more than {OPERATIONS_MAX:.0e} operations")
    slice_us = slice_width_us(workload.duration_us, expected)
    drawn = [
        cell
        for number, stream in enumerate(workload.streams)
        for cell in cells(
            stream.segments,
            slice_us,
            stream=number,
            seed=workload.seed,
            is_poisson=stream.is_poisson,
        )
    ]
    known = [cell for recording in recorded for cell in recording.cells(slice_us)]
    return Plan(slice_us, sorted(drawn + known, key=attrgetter("slice", "stream", "first")))


def cut_pieces(cells: Sequence[Cell], count: int) -> list[Piece]:
    """At most `count` pieces. A slice is never cut: its operations are numbered together."""
    total = sum(cell.operations for cell in cells)
    pieces: list[Piece] = []
    done = 0
    for _, group in groupby(cells, attrgetter("slice")):
        members = list(group)
        if not pieces or done * count >= total * len(pieces):
            pieces.append(Piece(len(pieces), done, []))
        pieces[-1].cells.extend(members)
        done += sum(cell.operations for cell in members)
    return pieces
