"""The backup that a node makes: one at a time, of states that fit, and gone when nobody wants it.
Real engines; who holds letters back is the test.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from fastnode.clock import SystemClock, SystemIdSource
from fastnode.cluster import backups as module
from fastnode.cluster.backups import Backups, BackupStatus
from fastnode.cluster.control_api import Refused
from fastnode.datadir import DataDir, open_data_dir
from fastnode.settings import Settings
from fastnode.store.checkpoint import checkpoint_path, take_checkpoint
from fastnode.store.engine import RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.keyspace import encode_position, inbox_key, sent_key

WAIT_SECONDS = 30.0


class States:
    """Two groups. A letter of group 0 is through; group 1 has taken it in after `late` looks."""

    def __init__(self, data: DataDir, late: int = 0) -> None:
        self.data = data
        self.engines = [RocksEngine(data.group_path(number), EngineShared()) for number in (0, 1)]
        self.holds: list[int] = []
        self.taken = 0
        self._late = late
        self._put(0, sent_key(1))

    def _put(self, group: int, key: bytes) -> None:
        batch = self.engines[group].batch()
        batch.put(key, encode_position(7))
        self.engines[group].write(batch)

    async def hold(self, milliseconds: int) -> int:
        self.holds.append(milliseconds)
        return 0

    async def flush(self, group: int) -> None:
        self.engines[group].flush()

    async def checkpoint(self, group: int) -> None:
        self.taken += group == 0
        if self.taken > self._late:
            self._put(1, inbox_key(0))
        take_checkpoint(self.engines[group], self.data.group_path(group))


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDir]:
    opened = open_data_dir(Settings(data_dir=str(tmp_path / "data"), groups=2))
    yield opened
    opened.close()


def run(data: DataDir, late: int, work: Callable[[Backups, States], Awaitable[None]]) -> States:
    states = States(data, late)

    async def main() -> None:
        backups = Backups(data, states, SystemClock(), SystemIdSource())
        try:
            await asyncio.wait_for(work(backups, states), WAIT_SECONDS)
        finally:
            await backups.close()

    asyncio.run(main())
    for engine in states.engines:
        engine.close()
    assert not has_files(data), "a node that stops leaves nothing"
    return states


def has_files(data: DataDir) -> bool:
    return any(checkpoint_path(data.group_path(number)).exists() for number in (0, 1))


async def until(condition: Callable[[], bool]) -> None:
    """The whole test has a deadline."""
    while True:
        if condition():
            return
        await asyncio.sleep(0.001)


async def settled(backups: Backups) -> BackupStatus:
    await until(lambda: backups.status().state != "taking")
    return backups.status()


def test_states_that_do_not_fit_are_taken_again(data: DataDir) -> None:
    async def work(backups: Backups, states: States) -> None:
        begun = backups.begin()
        assert (begun.state, begun.groups, begun.cluster) == ("taking", 2, data.cluster_id)
        status = await settled(backups)
        assert (status.state, status.described) == ("ready", 2)
        files = backups.group(status.id, 1).files
        assert sum(file.size for file in files) > 0
        piece = await backups.piece(status.id, 1, files[0].name, 0)
        assert len(piece) == files[0].size
        assert await backups.piece(status.id, 1, files[0].name, files[0].size) == b""

    states = run(data, 2, work)
    assert states.taken == 3
    # Letters go on between the attempts, and at the end.
    assert states.holds.count(0) == 3 and states.holds[-1] == 0


def test_states_that_never_fit_are_no_backup(data: DataDir) -> None:
    async def work(backups: Backups, states: States) -> None:
        backups.begin()
        status = await settled(backups)
        assert status.state == "failed"
        assert "a message from group 0 has not arrived in group 1" in status.why
        assert not has_files(data)
        # It stands in nobody's way.
        assert backups.begin().id != status.id

    states = run(data, 1_000, work)
    assert states.taken >= module.ATTEMPTS_MAX


def test_there_is_one_at_a_time_and_it_ends_when_told(data: DataDir) -> None:
    async def work(backups: Backups, _states: States) -> None:
        first = backups.begin()
        with pytest.raises(Refused, match=first.id):
            backups.begin()
        await settled(backups)
        await backups.end("another")
        assert backups.status().id == first.id
        await backups.end(first.id)
        assert backups.status().state == "none" and not has_files(data)
        with pytest.raises(Refused):
            backups.group(first.id, 0)
        await backups.end(first.id)
        # One that is still being taken, too.
        await backups.end(backups.begin().id)
        assert backups.status().state == "none"

    run(data, 0, work)


def test_what_nobody_goes_on_with_is_dropped(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(backups: Backups, _states: States) -> None:
        backups.begin()
        await settled(backups)
        monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
        backups.status()
        await until(lambda: not has_files(data))
        await until(lambda: backups.status().state == "none")

    run(data, 0, work)
