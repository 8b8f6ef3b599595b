"""What a process of a node has to tell its operator: the groups, the queues, the disk, itself.
Gathered when somebody asks; what is counted is counted where it happens.
"""

import os
import resource
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastnode import __version__
from fastnode.native import CONFLICT, DUPLICATE, STALE, TOO_OLD
from fastnode.queue.queue_meter import QueueMeter
from fastnode.queue.retry_metrics import retry_metrics
from fastnode.queue.service import Service
from fastnode.raft.meter import RaftMeter, status_metrics
from fastnode.store.backlog import Backlog
from fastnode.store.group import Group
from fastnode.upkeep import disk_space, reserve_bytes

if TYPE_CHECKING:
    from fastnode.raft.groups import Status

_KINDS: Final = {CONFLICT: "conflict", STALE: "stale", TOO_OLD: "too_old"}
_ENGINE: Final = (
    "table_bytes",
    "blob_bytes",
    "memtable_bytes",
    "block_cache_bytes",
    "pending_compaction_bytes",
)
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class NodeMeter:
    """`groups` are those whose state this process keeps, in the order of the log's status."""

    def __init__(
        self,
        service: Service,
        groups: Sequence[Group],
        backlog: Backlog,
        raft: RaftMeter,
        data_path: Path,
    ) -> None:
        self._service = service
        self._groups = groups
        self._backlog = backlog
        self._raft = raft
        self._data_path = data_path
        self._queues = QueueMeter(service)
        self._started = _started_seconds()

    def metrics(self, status: "Status") -> dict[str, float]:
        groups, backlog, service = self._groups, self._backlog, self._service
        return {
            f'fastnode_build_info{{version="{__version__}"}}': 1,
            **status_metrics(status, [group.number for group in groups]),
            **self._raft.metrics(),
            "fastnode_requests_under_way": sum(len(group.unapplied) for group in groups),
            "fastnode_backlog_places": backlog.places_taken,
            "fastnode_backlog_places_limit": backlog.limit,
            **service.fanout.metrics(),
            **retry_metrics(service.gates, groups),
            **self._refused(),
            **self._queues.metrics(),
            **disk_metrics(self._data_path, groups),
            **process_metrics(),
            "process_start_time_seconds": self._started,
        }

    def _refused(self) -> Mapping[str, float]:
        refused: Counter[int] = Counter()
        for group in self._groups:
            refused.update(group.refused)
        gates = self._service.gates
        hits = {
            "message": gates.deduplicated,
            "call": gates.recognised,
            "transaction": refused[DUPLICATE],
        }
        return {
            f'fastnode_conflicts_total{{kind="{kind}"}}': refused[code]
            for code, kind in _KINDS.items()
        } | {f'fastnode_dedup_hits_total{{kind="{kind}"}}': count for kind, count in hits.items()}


def disk_metrics(data_path: Path, groups: Sequence[Group]) -> dict[str, float]:
    free, total = disk_space(data_path)
    engines: Counter[str] = Counter()
    cache_bytes = 0
    for group in groups:
        found = group.engine_metrics()
        # All groups share one cache, and each tells the whole of it.
        cache_bytes = max(cache_bytes, found.pop("block_cache_bytes", 0))
        engines.update(found)
    engines["block_cache_bytes"] = cache_bytes
    return {
        "fastnode_disk_free_bytes": free,
        "fastnode_disk_bytes": total,
        "fastnode_disk_reserve_bytes": reserve_bytes(total),
        "fastnode_accepts_messages": int(all(group.accepts_messages for group in groups)),
        **{f'fastnode_engine_bytes{{kind="{name}"}}': engines[name] for name in _ENGINE},
        "fastnode_engine_errors": engines["background_errors"],
    }


def process_metrics() -> Mapping[str, float]:
    """By the names that Prometheus' own clients use."""
    size, resident, *_ = Path("/proc/self/statm").read_text().split()
    return {
        "process_cpu_seconds_total": time.process_time(),
        "process_resident_memory_bytes": int(resident) * _PAGE_BYTES,
        "process_virtual_memory_bytes": int(size) * _PAGE_BYTES,
        "process_open_fds": len(os.listdir("/proc/self/fd")),
        "process_max_fds": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }


def _started_seconds() -> float:
    """Since 1970: the kernel counts from its own start."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    lines = Path("/proc/stat").read_text().splitlines()
    booted = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    return booted + ticks / os.sysconf("SC_CLK_TCK")
