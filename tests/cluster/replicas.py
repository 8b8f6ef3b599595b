"""Whether the replicas of a stopped cluster hold the same state.

`fastnode check` proves that every row can be read and gives a checksum of all rows. One row tells
how far the log was applied, and nodes that stop one after the other elect each other meanwhile,
which adds empty entries to the logs of those that remain: where only that differs, the rows are
compared without it. A difference is shown row by row.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from fastnode.store.engine import RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.keyspace import APPLIED_KEY
from tests.cluster.harness import Cluster, run_command

TRIES = 3
PAGE_ROWS = 1_000
ROWS_SHOWN = 3
_END = b"\xff"


def verify_replicas(cluster: Cluster) -> None:
    """Start what does not run, let all catch up, stop all, compare. What a leader did by itself
    while all were stopping, the others have not applied: they get it at the next start. A replica
    that went its own way never comes back.
    """
    for _ in range(TRIES):
        cluster.make_whole()
        cluster.await_same_applied()
        cluster.stop()
        differences = compare([member.data_dir for member in cluster.members.values()])
        if not differences:
            break
    assert not differences, "replicas differ: " + "; ".join(differences)


def compare(directories: Sequence[Path]) -> list[str]:
    """What differs; empty when all hold the same."""
    reports = [checked(directory) for directory in directories]
    if len(set(reports)) == 1:
        return []
    return [
        f"{first.name} and {second.name}: {difference}"
        for first, second in pairwise(directories)
        for difference in differing_groups(first, second)
    ]


def checked(directory: Path) -> str:
    """The lines of `fastnode check`, one per group."""
    ended = run_command("check", "--data-dir", str(directory))
    assert ended.returncode == 0, f"{directory.name} is damaged: {ended.stderr}"
    return ended.stdout


def differing_groups(first: Path, second: Path) -> Iterable[str]:
    names = sorted(path.name for path in (first / "groups").iterdir())
    for name in names:
        rows, others = (rows_of(directory / "groups" / name) for directory in (first, second))
        differing = sorted(key for key in rows | others if rows.get(key) != others.get(key))
        if differing:
            shown = [(key, rows.get(key), others.get(key)) for key in differing[:ROWS_SHOWN]]
            yield f"group {name} in {len(differing)} rows, such as {shown}"


def rows_of(path: Path) -> dict[bytes, bytes]:
    """All rows but the one that counts entries."""
    engine = RocksEngine(path, EngineShared(), is_read_only=True)
    rows: dict[bytes, bytes] = {}
    try:
        start = b""
        while page := engine.scan(start, _END, PAGE_ROWS):
            rows.update(page)
            start = page[-1][0] + b"\x00"
    finally:
        engine.close()
    rows.pop(APPLIED_KEY, None)
    return rows
