"""The Python surface of `_landed.pyx`."""

from collections.abc import Sequence

from fastnode._entry import Entry
from fastnode._landed_ref import Batch, HeadChanges, Outcome, Sums

def write_landed(entry: Entry, outcomes: list[Outcome], batch: Batch, sums: Sums) -> bool: ...
def head_changes(
    entries: Sequence[tuple[Entry, list[Outcome]]], known: dict[bytes, bytes | None]
) -> HeadChanges: ...
