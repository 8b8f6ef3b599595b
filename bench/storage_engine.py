"""Ways to compact under a queue's pattern, on the engine alone: insert all, delete all in order.

Every way runs the same writes in the same process, one after the other. What is compared is what a
queue feels: bytes and CPU per message, space that stays behind, and the cost of looking at the
front, from the cursor as the node does and from the queue's first key as a careless reader would.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from unittest.mock import patch

import msgspec
from rocksdict import DBCompactionStyle, Options

from bench.report import Line
from fastnode.store import engine, engine_options
from fastnode.store.engine import RocksEngine, WriteStalled
from fastnode.store.engine_options import EngineShared

BATCH = 100
# Bodies below and above the size from which a body gets a place of its own.
SMALL_BYTES = 300
LARGE_BYTES = 20_000
FLUSHES = 12
SCAN_ROWS = 10
STALL_SECONDS = 0.002
PRESENT = "present"
# Files whose messages are all gone must go; what stays is the manifest and the library's own log.
LEFT_SHARE_MAX = 0.05
COST_RATIO_MAX = 2.0


class Pattern(msgspec.Struct, frozen=True):
    """How much passes through, and how long the engine may tidy up afterwards."""

    name: str
    messages: int
    body_bytes: int
    settle_seconds: float


class Run(msgspec.Struct, frozen=True):
    """What one way of compacting did with one pattern."""

    way: str
    cpu_us: float
    write_ratio: float
    peak_bytes: int
    left_bytes: int
    cursor_scan_us: float
    front_scan_us: float
    empty_scan_us: float

    @property
    def left_share(self) -> float:
        return self.left_bytes / self.peak_bytes

    def detail(self) -> str:
        return (
            f"{self.cpu_us:.1f} µs CPU and {self.write_ratio:.1f} x its bytes written a message, "
            f"peak {self.peak_bytes / 1e6:.0f} MB; while draining, scans from the cursor "
            f"{self.cursor_scan_us:.0f} µs, from the first key {self.front_scan_us:.0f} µs"
        )


def without_collector(shared: EngineShared, memtable_bytes: int) -> Options:
    """The node's options but for compaction of files full of tombstones."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(engine_options.table_options(shared))
    engine_options.set_memory(options, shared, memtable_bytes)
    engine_options.set_files(options)
    options.set_max_background_jobs(engine_options.BACKGROUND_JOBS_MAX)
    options.set_avoid_unnecessary_blocking_io(True)
    return options


def universal(make: "MakeOptions") -> "MakeOptions":
    def made(shared: EngineShared, memtable_bytes: int) -> Options:
        options = make(shared, memtable_bytes)
        options.set_compaction_style(DBCompactionStyle.universal())
        return options

    return made


MakeOptions = Callable[[EngineShared, int], Options]
WAYS: dict[str, MakeOptions] = {
    PRESENT: engine_options.options_for,
    "level": without_collector,
    "universal": universal(without_collector),
    "universal, tombstones": universal(engine_options.options_for),
}


def measure(directory: Path, patterns: Sequence[Pattern]) -> tuple[list[Line], list[Run]]:
    """All ways with all patterns."""
    lines: list[Line] = []
    runs: list[Run] = []
    for pattern in patterns:
        of_pattern = [
            run(directory / f"{pattern.name}-{number}", way, pattern)
            for number, way in enumerate(WAYS)
        ]
        lines += pattern_lines(pattern, of_pattern)
        runs += of_pattern
    return lines, runs


def pattern_lines(pattern: Pattern, runs: Sequence[Run]) -> list[Line]:
    """The present way against targets and against the others that return the space."""
    present, *others = runs
    assert present.way == PRESENT
    tidy = [other for other in others if other.left_share <= LEFT_SHARE_MAX] or others
    cpu = present.cpu_us / min(other.cpu_us for other in tidy)
    written = present.write_ratio / min(other.write_ratio for other in tidy)
    scan = present.empty_scan_us
    name = f"engine, {pattern.name}"
    return [
        Line(
            f"{name}, {PRESENT}: share left",
            present.left_share,
            present.detail(),
            at_most=LEFT_SHARE_MAX,
        ),
        Line(
            f"{name}, {PRESENT}: CPU / best",
            cpu,
            "the best of those that return the space",
            at_most=COST_RATIO_MAX,
        ),
        Line(
            f"{name}, {PRESENT}: bytes written / best",
            written,
            "the best of those that return the space",
            at_most=COST_RATIO_MAX,
        ),
        Line(f"{name}, {PRESENT}: µs to scan the empty queue", scan, "from its first key"),
        *(
            Line(f"{name}, {other.way}: share left", other.left_share, other.detail())
            for other in others
        ),
    ]


def run(path: Path, way: str, pattern: Pattern) -> Run:
    """One way on a fresh directory."""
    # The engine has one set of options and no setting for them, which is right for the node.
    with patch.object(engine, "options_for", WAYS[way]):
        store = RocksEngine(path, EngineShared())
    cpu, written = cpu_seconds(), written_bytes()
    drain = Drain(store, pattern)
    drain.fill()
    drain.empty()
    left = settled_bytes(path, drain.peak_bytes, pattern.settle_seconds)
    total_bytes = pattern.messages * pattern.body_bytes
    result = Run(
        way=way,
        cpu_us=(cpu_seconds() - cpu) * 1e6 / pattern.messages,
        write_ratio=(written_bytes() - written) / total_bytes,
        peak_bytes=drain.peak_bytes,
        left_bytes=left,
        cursor_scan_us=median(drain.cursor_scans) * 1e6,
        front_scan_us=median(drain.front_scans) * 1e6,
        empty_scan_us=drain.scan_seconds(0) * 1e6,
    )
    store.close()
    return result


class Drain:
    """The writes of a queue: a record each, then a state each when received, then both deleted."""

    def __init__(self, store: RocksEngine, pattern: Pattern) -> None:
        self._store = store
        self._pattern = pattern
        self._noise = os.urandom(1 << 20)
        self._flush_every = max(BATCH, pattern.messages // FLUSHES // BATCH * BATCH)
        self.peak_bytes = 1
        self.cursor_scans: list[float] = []
        self.front_scans: list[float] = []

    def fill(self) -> None:
        for first in range(0, self._pattern.messages, BATCH):
            self._write(
                [("put", record_key(n), self._body(n)) for n in range(first, first + BATCH)]
            )
            if first % self._flush_every == 0:
                self._flush()

    def empty(self) -> None:
        for first in range(0, self._pattern.messages, BATCH):
            numbers = range(first, first + BATCH)
            self._write([("put", state_key(n), bytes(32)) for n in numbers])
            self._write(
                [("delete", key(n), b"") for key in (record_key, state_key) for n in numbers]
            )
            if first % self._flush_every == 0:
                self.cursor_scans.append(self.scan_seconds(first + BATCH))
                self.front_scans.append(self.scan_seconds(0))
                self._flush()
        self._flush()

    def scan_seconds(self, first: int) -> float:
        began = time.perf_counter()
        self._store.scan(record_key(first), b"n", SCAN_ROWS)
        return time.perf_counter() - began

    def _body(self, number: int) -> bytes:
        """Bytes that no compression makes smaller."""
        length = self._pattern.body_bytes
        at = number * 7_919 % (len(self._noise) - length)
        return self._noise[at : at + length]

    def _flush(self) -> None:
        self._store.flush()
        self.peak_bytes = max(self.peak_bytes, directory_bytes(self._store.path))

    def _write(self, rows: Sequence[tuple[str, bytes, bytes]]) -> None:
        while True:
            batch = self._store.batch()
            for kind, key, value in rows:
                if kind == "put":
                    batch.put(key, value)
                else:
                    batch.delete(key)
            try:
                return self._store.write(batch)
            except WriteStalled:
                time.sleep(STALL_SECONDS)


def record_key(number: int) -> bytes:
    return b"m" + number.to_bytes(8, "big")


def state_key(number: int) -> bytes:
    return b"s" + number.to_bytes(8, "big")


def settled_bytes(path: Path, peak_bytes: int, seconds: float) -> int:
    """The size once most of it is gone, or after some seconds."""
    deadline = time.monotonic() + seconds
    while (size := directory_bytes(path)) > peak_bytes * 0.01 and time.monotonic() < deadline:
        time.sleep(0.05)
    return size


def directory_bytes(path: Path) -> int:
    """What its files occupy; files that go meanwhile count as gone."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system


def written_bytes() -> int:
    """What this process has passed to write calls."""
    for line in Path("/proc/self/io").read_text().splitlines():
        name, _, value = line.partition(": ")
        if name == "wchar":
            return int(value)
    raise AssertionError("the kernel counts no written bytes")
