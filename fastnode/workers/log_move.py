"""From one number of workers to another: the groups' logs move. A shell.

Everything committed is applied and flushed, and then a new log begins for each group where its
engine stands. So no entry is copied, and at every moment either the old logs count or the new ones:
which, says `FORMAT`, which is replaced at once. Whatever a crash interrupts is done again from the
start, on what is left of it.
"""

import logging
import select
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fastnode.clock import GroupClock, SystemClock
from fastnode.cluster.replication import restored_of
from fastnode.data_format import make_directory
from fastnode.datadir import DataDir, worker_log_path
from fastnode.errors import StartError
from fastnode.machine import open_engines
from fastnode.raft.driver import Driver
from fastnode.raft.groups import Groups, open_groups
from fastnode.store.engine_options import EngineShared
from fastnode.store.group import Group
from fastnode.workers.assignment import groups_of
from fastnode.workers.stale_logs import remove_stale_logs

_WAIT_SECONDS: Final = 1.0
_STALL_SECONDS: Final = 0.01
log: Final = logging.getLogger("fastnode")


class Reached(NamedTuple):
    """How far the engine of a group is, durably."""

    applied_index: int
    term: int


def move_logs(data: DataDir, workers: int) -> None:
    """Lay the directory out for so many workers. Without effect if it is."""
    for step in move_steps(data, workers):
        log.info("moving the log", extra={"workers": workers, "step": step})


def move_steps(data: DataDir, workers: int) -> Iterator[str]:
    """After each step the process may end, and another one begins anew."""
    remove_stale_logs(data)
    if data.workers == workers:
        return
    if data.first_voters != [data.node_id]:
        raise StartError(_NOT_ALONE)
    reached: dict[int, Reached] = {}
    for worker in range(data.workers):
        reached |= _settle(data, worker)
        yield f"worker {worker} of {data.workers} is flushed"
    epoch = data.log_epoch + 1
    for worker in range(workers):
        own = groups_of(worker, workers, data.groups)
        _begin_log(data, epoch, worker, [reached[number] for number in own])
        yield f"the log of worker {worker} of {workers} is made"
    data.switch_logs(workers, epoch)
    yield "the new logs count"
    remove_stale_logs(data)


_NOT_ALONE: Final = (
    "the node has other members, and a node with several workers is alone: use --workers 1"
)


def _settle(data: DataDir, worker: int) -> Mapping[int, Reached]:
    """Apply and flush all that the log of a worker has."""
    own = groups_of(worker, data.workers, data.groups)
    clock = SystemClock()
    engines = open_engines(data, own, EngineShared())
    try:
        groups = [
            Group(number, engine, GroupClock(clock))
            for number, engine in zip(own, engines, strict=True)
        ]
        raft = open_groups(
            data.node_id,
            data.worker_log_path(worker),
            applied=[group.applied_index for group in groups],
            restored=[restored_of(data, number) for number in own],
            is_synced=True,
        )
        try:
            _apply_all(data, raft, groups)
        finally:
            raft.close()
        for group in groups:
            group.flush()
        return {group.number: Reached(group.applied_index, group.term) for group in groups}
    finally:
        for engine in engines:
            engine.close()


def _apply_all(data: DataDir, raft: Groups, groups: Sequence[Group]) -> None:
    """A leader is ready when it has applied the first entry of its term, which is the last one."""
    for row in raft.status()["groups"]:
        if row["voters"] != [data.node_id] or row["learners"]:
            raise StartError(_NOT_ALONE)
    driver = Driver(raft, groups)
    while True:
        driver.turn()
        if driver.stalled:
            time.sleep(_STALL_SECONDS)
            driver.apply(list(driver.stalled))
        elif all(group.is_ready for group in groups):
            return
        else:
            select.select([raft.fileno()], [], [], _WAIT_SECONDS)
            # A log that begins behind a state, as that of a restored backup, has no leader by
            # itself, and nothing ticks here.
            for place, group in enumerate(groups):
                if not group.leads:
                    raft.campaign(place)


def _begin_log(data: DataDir, epoch: int, worker: int, reached: Sequence[Reached]) -> None:
    path = worker_log_path(data.path, epoch, worker)
    make_directory(path)
    raft = open_groups(
        data.node_id,
        path,
        applied=[each.applied_index for each in reached],
        restored=[(each.applied_index, each.term, [data.node_id], []) for each in reached],
        is_synced=True,
    )
    try:
        while raft.ready().is_persisting:
            select.select([raft.fileno()], [], [], _WAIT_SECONDS)
    finally:
        raft.close()
