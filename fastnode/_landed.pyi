"""The Python surface of `_landed.pyx`."""

from collections.abc import Callable, Sequence

from fastnode._entry import Entry
from fastnode._landed_ref import Batch, HeadChanges, Outcome, Sums

def write_landed(entry: Entry, outcomes: list[Outcome], batch: Batch, sums: Sums) -> bool: ...
def write_sums(
    added: dict[bytes, int],
    raised: dict[bytes, bytes],
    rows: dict[bytes, bytes | None],
    read: Callable[[bytes], bytes | None],
    put: Callable[[bytes, bytes], object],
) -> dict[bytes, bytes]: ...
def head_changes(
    entries: Sequence[tuple[Entry, list[Outcome]]], known: dict[bytes, bytes | None]
) -> HeadChanges: ...
