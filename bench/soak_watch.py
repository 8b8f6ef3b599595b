"""What a soak looks at every few seconds, and what is said about it in the end.

`Histogram` and the verdicts are pure; `look` asks the kernel about the nodes' processes and files.
A verdict compares parts of one run: the first quarter is for warming up, and what a run of minutes
shows about slopes is noise, so short runs are reported without a target.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median

import msgspec

from bench import plot, server_process
from bench.report import Line
from bench.server_process import cpu_seconds
from fastnode import config

# Neighbouring buckets of a histogram differ by this factor.
GROWTH = 1.05
# At 1,000 messages a second these are 17 bytes for each: one forgotten object is more.
MEMORY_MB_PER_HOUR_MAX = 60.0
LATENCY_RATIO_MAX = 1.5
# Segments of the log and files of the engine come and go by tens of megabytes.
DISK_RATIO_MAX, DISK_SLACK_MB = 1.5, 64.0
RATE_SHARE_MIN = 0.9
# What is remembered for five minutes is complete before the second half of such a run begins.
MINUTES_MIN = 15.0
# Fewer calls have no 99th percentile worth comparing.
CALLS_MIN = 500
POINTS_MAX = 60
# What is beyond its bound are entries that somebody holds while they are evicted.
CACHE_MB_MAX = 1.1 * config.BLOCK_CACHE_BYTES / 1e6
CACHE_LINE = re.compile(r'^fastnode_engine_bytes{kind="block_cache_bytes"} (\S+)$', re.MULTILINE)


class Histogram(msgspec.Struct):
    """Durations in logarithmic buckets; histograms can be added up."""

    counts: Counter[int] = msgspec.field(default_factory=Counter)

    def add(self, seconds: float) -> None:
        self.counts[round(math.log(max(seconds, 1e-6), GROWTH))] += 1

    def quantile(self, share: float) -> float:
        """Seconds that this share of all did not exceed; 0 of none."""
        left = share * self.counts.total()
        for bucket in sorted(self.counts):
            left -= self.counts[bucket]
            if left <= 0:
                return float(GROWTH**bucket)
        return 0.0


class Latency(msgspec.Struct, frozen=True):
    """Of the calls of one action, in milliseconds."""

    calls: int
    p50_ms: float
    p99_ms: float


class Usage(msgspec.Struct, frozen=True):
    """What all nodes together use; CPU seconds since they were started. The block cache is a part
    of the resident memory.
    """

    resident_mb: float
    cache_mb: float
    open_files: int
    disk_mb: float
    cpu_seconds: float


class Sample(msgspec.Struct, frozen=True):
    """One look; counts and latencies are of the time since the look before."""

    at_seconds: float
    usage: Usage
    cores: float
    sent_per_second: float
    deleted_per_second: float
    visible: int
    in_flight: int
    delayed: int
    latencies: dict[str, Latency]


class Watched(msgspec.Struct, frozen=True):
    """The samples of a run and, beside each, the histograms that its latencies are from."""

    samples: list[Sample] = msgspec.field(default_factory=list)
    histograms: list[dict[str, Histogram]] = msgspec.field(default_factory=list)


# --- looking -------------------------------------------------------------------------------------


def look(pids: Sequence[int], admins: Sequence[str], directories: Sequence[Path]) -> Usage:
    """All processes, nodes and directories together."""
    return Usage(
        cache_mb=sum(map(cache_bytes, admins)) / 1e6,
        resident_mb=sum(server_process.status_bytes(pid, "VmRSS") for pid in pids) / 1e6,
        open_files=sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
        disk_mb=sum(disk_bytes(directory) for directory in directories) / 1e6,
        cpu_seconds=cpu_seconds(pids),
    )


def cache_bytes(admin: str) -> float:
    """What the storage engines of a node keep of their files, as the node tells it."""
    page = server_process.fetch(admin, "/metrics")
    (found,) = CACHE_LINE.findall(page)
    return float(found)


def disk_bytes(directory: Path) -> int:
    """What its files take; one that vanishes meanwhile takes nothing."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def latencies_of(histograms: Mapping[str, Histogram]) -> dict[str, Latency]:
    """The figures of each action."""
    return {
        action: Latency(one.counts.total(), one.quantile(0.5) * 1e3, one.quantile(0.99) * 1e3)
        for action, one in sorted(histograms.items())
    }


# --- verdicts ------------------------------------------------------------------------------------


def verdicts(watched: Watched, rate: float, nodes: int) -> list[Line]:
    """Memory, latency, disk and rate over time."""
    samples = watched.samples
    if len(samples) < 4:
        return []
    lines = [memory_line(samples), cache_line(samples, nodes), latency_line(watched)]
    lines += [disk_line(samples), rate_line(samples, rate)]
    if samples[-1].at_seconds >= MINUTES_MIN * 60:
        return lines
    note = f"; under {MINUTES_MIN:g} minutes there is no verdict"
    return [Line(line.name, line.value, line.detail + note) for line in lines]


def quarter(items: Sequence[object], number: int) -> slice:
    """The place of a quarter, counted from 0."""
    return slice(len(items) * number // 4, len(items) * (number + 1) // 4)


def memory_line(samples: Sequence[Sample]) -> Line:
    """The slope of the second half, of all pairs of points the middle one. Without the block cache:
    files that are gone leave their blocks in it, so it fills up to its bound whatever a node does,
    and that may take longer than the run.
    """
    half = samples[len(samples) // 2 :]
    points = [(one.at_seconds / 3600, one.usage.resident_mb - one.usage.cache_mb) for one in half]
    first, last = half[0].usage, half[-1].usage
    detail = (
        f"{points[0][1]:.0f} MB to {points[-1][1]:.0f} MB in the second half; "
        f"with the cache {first.resident_mb:.0f} MB to {last.resident_mb:.0f} MB"
    )
    name = "resident memory without block cache, MB/hour"
    return Line(name, slope(points), detail, at_most=MEMORY_MB_PER_HOUR_MAX)


def cache_line(samples: Sequence[Sample], nodes: int) -> Line:
    """The largest, against its bound."""
    largest = max(one.usage.cache_mb for one in samples) / nodes
    detail = f"of a node; {samples[-1].usage.cache_mb / nodes:.0f} MB in the end"
    return Line("block cache, MB", largest, detail, at_most=CACHE_MB_MAX)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes of all pairs: saw teeth and single peaks do not move it."""
    slopes = [(y - v) / (x - u) for (u, v), (x, y) in combinations(points, 2) if x > u]
    return median(slopes) if slopes else 0.0


def latency_line(watched: Watched) -> Line:
    """The worst of all actions."""
    second, last = (
        added(watched.histograms[quarter(watched.histograms, number)]) for number in (1, 3)
    )
    ratios = {
        action: (last[action].quantile(0.99) / before.quantile(0.99), before, last[action])
        for action, before in second.items()
        if before.counts.total() >= CALLS_MIN
        and action in last
        and last[action].counts.total() >= CALLS_MIN
    }
    if not ratios:
        return Line("p99, last quarter / second", 0.0, "too few calls to compare")
    worst = max(ratios, key=lambda action: ratios[action][0])
    ratio, before, after = ratios[worst]
    times = f"{before.quantile(0.99) * 1e3:.1f} ms to {after.quantile(0.99) * 1e3:.1f} ms"
    detail = f"{worst}, the worst of {len(ratios)}: {times}"
    return Line("p99, last quarter / second", ratio, detail, at_most=LATENCY_RATIO_MAX)


def added(histograms: Iterable[Mapping[str, Histogram]]) -> dict[str, Histogram]:
    """Histograms of several samples, by action."""
    sums: dict[str, Histogram] = {}
    for each in histograms:
        for action, one in each.items():
            sums.setdefault(action, Histogram()).counts.update(one.counts)
    return sums


def disk_line(samples: Sequence[Sample]) -> Line:
    """The most that was used in the last quarter, against the second; within the slack it is 1."""
    before, after = (
        max(one.usage.disk_mb for one in samples[quarter(samples, number)]) for number in (1, 3)
    )
    detail = f"at most {before:.0f} MB, then {after:.0f} MB; {DISK_SLACK_MB:g} MB are free"
    ratio = max(1.0, (after - DISK_SLACK_MB) / max(before, 1.0))
    return Line("disk, last quarter / second", ratio, detail, at_most=DISK_RATIO_MAX)


def rate_line(samples: Sequence[Sample], rate: float) -> Line:
    """Messages that were deleted, against those that were to be sent."""
    begins = [0.0, *(one.at_seconds for one in samples)]
    done = sum(
        one.deleted_per_second * (one.at_seconds - began)
        for one, began in zip(samples, begins, strict=False)
    )
    # A sample that comes late is followed by short ones, so their rates do not count alike.
    done /= samples[-1].at_seconds
    detail = f"{done:,.0f} of {rate:,.0f} messages/s sent, received and deleted"
    return Line("rate / what was asked for", done / rate, detail, at_least=RATE_SHARE_MIN)


# --- the picture ---------------------------------------------------------------------------------


def draw(samples: Sequence[Sample]) -> str:
    """Memory and disk, backlog and latency over the minutes of the run, below each other."""
    actions = sorted({action for one in samples for action in one.latencies})
    charts = [
        chart("Memory and disk of the nodes", "MB", samples, usage_series()),
        chart("Messages", "messages", samples, backlog_series()),
        chart("99th percentile of each action", "ms", samples, latency_series(actions)),
    ]
    heights = [float(one.partition('height="')[2].partition('"')[0]) for one in charts]
    tops = [sum(heights[:place]) for place in range(len(heights))]
    placed = [
        one.replace("<svg ", f'<svg y="{top:.0f}" ', 1)
        for one, top in zip(charts, tops, strict=True)
    ]
    size = f'width="{plot.WIDTH}" height="{sum(heights):.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{"".join(placed)}</svg>\n'


Pick = Callable[[Sample], float]


def usage_series() -> dict[str, Pick]:
    return {
        "resident": lambda one: one.usage.resident_mb,
        "of it block cache": lambda one: one.usage.cache_mb,
        "disk": lambda one: one.usage.disk_mb,
    }


def backlog_series() -> dict[str, Pick]:
    return {
        "visible": lambda one: one.visible,
        "in flight": lambda one: one.in_flight,
        "delayed": lambda one: one.delayed,
        "sent per second": lambda one: one.sent_per_second,
    }


def latency_series(actions: Sequence[str]) -> dict[str, Pick]:
    def picked(action: str) -> Pick:
        return lambda one: one.latencies[action].p99_ms if action in one.latencies else 0.0

    return {legend_of(action): picked(action) for action in actions}


def legend_of(action: str) -> str:
    """A short name: all of them have to fit into one line."""
    return action.replace("Message", "").replace("Visibility", "")


def chart(title: str, unit: str, samples: Sequence[Sample], series: Mapping[str, Pick]) -> str:
    """One chart of all series, each thinned to the points that there is room for."""
    step = -(-len(samples) // POINTS_MAX)
    parts = [samples[first : first + step] for first in range(0, len(samples), step)]
    lines = {
        name: [(part[-1].at_seconds / 60, sum(map(pick, part)) / len(part)) for part in parts]
        for name, pick in series.items()
    }
    return plot.line_chart(title, "minutes", unit, lines)
