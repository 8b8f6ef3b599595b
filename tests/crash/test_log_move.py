"""From one number of workers to another every row stays, whatever interrupts the move."""

import itertools
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastnode.clock import GroupClock, SystemClock
from fastnode.datadir import DataDir, Founding, open_data_dir
from fastnode.errors import StartError
from fastnode.flow import Suspension, start
from fastnode.machine import open_engines
from fastnode.raft.driver import Driver
from fastnode.raft.groups import open_groups
from fastnode.settings import Settings
from fastnode.store.engine_options import EngineShared
from fastnode.store.group import Group
from fastnode.workers.assignment import groups_of
from fastnode.workers.log_move import move_logs, move_steps

GROUPS = 3
STEPS = 4
KEY = b"!sqs|queue|meta|row"
requests = itertools.count(1)


@contextmanager
def opened(path: Path) -> Iterator[DataDir]:
    data = open_data_dir(Settings(data_dir=str(path), groups=GROUPS))
    try:
        yield data
    finally:
        data.close()


def put_everywhere(data: DataDir, value: bytes) -> None:
    """As the workers would, of which each has a log."""
    for worker in range(data.workers):
        with led(data, worker) as (groups, turn):
            for group in groups:
                txn = group.begin(next(requests).to_bytes(16, "big"))
                txn.put(KEY + value, value)
                start(_awaited(group.submit(txn)), lambda _result, error: None)
            turn()
    data.mark_started()


async def _awaited(outcome: Suspension) -> None:
    await outcome


@contextmanager
def led(data: DataDir, worker: int) -> Iterator[tuple[list[Group], Callable[[], None]]]:
    own = groups_of(worker, data.workers, data.groups)
    engines = open_engines(data, own, EngineShared())
    clock = SystemClock()
    groups = [
        Group(number, engine, GroupClock(clock))
        for number, engine in zip(own, engines, strict=True)
    ]
    applied = [group.applied_index for group in groups]
    raft = open_groups(data.node_id, data.worker_log_path(worker), applied=applied, is_synced=True)
    driver = Driver(raft, groups)

    def turn() -> None:
        driver.propose(range(len(groups)))
        while not all(group.is_ready and not group._submitted for group in groups):
            driver.turn()
            select.select([raft.fileno()], [], [], 0.05)

    try:
        turn()
        yield groups, turn
    finally:
        raft.close()
        for engine in engines:
            engine.close()


def rows(data: DataDir) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for worker in range(data.workers):
        with led(data, worker) as (groups, _):
            for group in groups:
                found[group.number] = [value for _, value in group.scan(KEY, KEY + b"\xff", 100)]
    return found


def log_files(data: DataDir) -> list[str]:
    logs = data.path / "log"
    return sorted(
        {str(file.parent.relative_to(logs)) for file in logs.rglob("*") if file.is_file()}
    )


def test_rows_stay_and_logs_go_on_through_several_moves(tmp_path: Path) -> None:
    path = tmp_path / "data"
    written: list[bytes] = []
    for workers in (1, 2, 3, 1):
        with opened(path) as data:
            move_logs(data, workers)
            assert data.workers == workers
            written.append(b"%d" % len(written))
            put_everywhere(data, written[-1])
            assert rows(data) == dict.fromkeys(range(GROUPS), written)
            assert len(log_files(data)) == workers


@pytest.mark.parametrize("interrupted_after", range(STEPS + 1))
def test_a_move_that_is_interrupted_is_done_by_the_next_start(
    tmp_path: Path, interrupted_after: int
) -> None:
    path = tmp_path / "data"
    with opened(path) as data:
        put_everywhere(data, b"1")
    with opened(path) as data:
        steps = list(itertools.islice(move_steps(data, 2), interrupted_after))
        assert len(steps) == interrupted_after
    with opened(path) as data:
        assert data.workers == (2 if interrupted_after == STEPS else 1)
        move_logs(data, 2)
        assert data.workers == 2
        assert log_files(data) == ["000001/000", "000001/001"]
        put_everywhere(data, b"2")
        assert rows(data) == {group: [b"1", b"2"] for group in range(GROUPS)}


def test_a_move_that_was_prepared_and_is_not_wanted_any_more_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with opened(path) as data:
        put_everywhere(data, b"1")
        list(itertools.islice(move_steps(data, 2), STEPS - 1))
    with opened(path) as data:
        move_logs(data, 1)
        assert log_files(data) == ["."]
        assert rows(data) == {group: [b"1"] for group in range(GROUPS)}


def test_a_member_of_a_cluster_stays_one_process(tmp_path: Path) -> None:
    founding = Founding("0" * 32, GROUPS, bytes(16), {2: "127.0.0.1:1"})
    data = open_data_dir(Settings(data_dir=str(tmp_path / "data"), groups=GROUPS), founding)
    with pytest.raises(StartError, match="use --workers 1"):
        move_logs(data, 2)
    data.close()
