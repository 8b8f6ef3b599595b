"""A log that cannot be opened ends the start with words that say what to do, and is well again when
the disk is.
"""

from pathlib import Path

import pytest

from fastnode._raftlog import RaftGroups, SimDisk
from fastnode.errors import LogFailed, StartError
from fastnode.raft.groups import Groups, not_opened, open_groups
from tests.unit.raft.test_extension import content, settle_manual


def start(disk: SimDisk) -> RaftGroups:
    return RaftGroups(
        *(1, "", 1), voters=[1], applied=[0], segment_bytes=65_536, manual=True, disk=disk
    )


def test_a_log_that_cannot_be_opened_says_where_why_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"no directory")
    with pytest.raises(StartError, match=r"the log in .*/log cannot .*: mend that, then start"):
        open_groups(1, tmp_path / "log", applied=[0], is_synced=True)


@pytest.mark.parametrize("has_power", [True, False])
def test_a_disk_that_failed_at_the_start_is_used_at_the_next_one(has_power: bool) -> None:
    disk = SimDisk(7)
    disk.fail_next_sync()
    with pytest.raises(OSError, match="Input/output error") as failed:
        start(disk)
    assert "mend that, then start again" in str(not_opened(failed.value, "log"))
    if not has_power:
        disk.crash()
    groups = start(disk)
    assert settle_manual(groups) == [(0, 1, 2, [])]
    groups.propose(0, b"entry")
    assert content(settle_manual(groups), 0) == [b"entry"]


def test_a_disk_that_fails_where_the_next_segment_is_prepared_fails_the_log() -> None:
    disk = SimDisk(7)
    raft = start(disk)
    groups = Groups(raft)
    settle_manual(raft)
    with pytest.raises(LogFailed, match=r"the log cannot be written: .*Input/output error"):
        for _ in range(4):
            disk.fail_next_sync()
            groups.propose(0, bytes(30_000))
            groups.ready()
