"""The Rust extension seen from Python: its surface, its thread and its files.

Crashes at every byte and hostile packets are tested in Rust, next to the log.
"""

import select
import subprocess
import sys
from pathlib import Path

import pytest

from fastnode._raftlog import LogCorrupt, LogFormat, LogFull, NotLeader, RaftGroups, SimDisk

SEGMENT = "0000000000000001.seg"
WAIT_S = 10.0

Committed = list[tuple[int, int, int, list[bytes]]]


def open_groups(
    directory: Path, applied: list[int] | None = None, segment_bytes: int = 1 << 26
) -> RaftGroups:
    positions = applied or [0, 0]
    return RaftGroups(
        1,
        str(directory),
        len(positions),
        voters=[1],
        applied=positions,
        segment_bytes=segment_bytes,
    )


def settle(groups: RaftGroups) -> Committed:
    """Turns until nothing is being written."""
    committed: Committed = []
    while True:
        turn = groups.ready()
        committed += turn[1]
        if not turn[4]:
            return committed
        readable, _, _ = select.select([groups], [], [], WAIT_S)
        assert readable, "the log did not wake its loop"


def settle_manual(groups: RaftGroups) -> Committed:
    committed: Committed = []
    while True:
        turn = groups.ready()
        committed += turn[1]
        if not groups.persist_step() and not turn[1]:
            return committed


def content(committed: Committed, group: int) -> list[bytes]:
    return [entry for batch in committed if batch[0] == group for entry in batch[3]]


def write_some(directory: Path, count: int = 4) -> None:
    groups = open_groups(directory)
    settle(groups)
    for number in range(count):
        groups.propose(0, b"entry %d" % number)
        settle(groups)
    groups.close()


def test_single_voter_leads_after_one_turn_and_announces_the_barrier(tmp_path: Path) -> None:
    groups = open_groups(tmp_path / "new" / "log")
    _, committed, _, roles, persisting, members, *rest = groups.ready()
    assert (committed, persisting) == ([], True)
    assert roles == [(0, "leader", 2, 1), (1, "leader", 2, 1)]
    assert (members, rest) == ([(0, 0, [1], []), (1, 0, [1], [])], [[], [], []])
    assert settle(groups) == [(0, 1, 2, []), (1, 1, 2, [])]
    assert groups.ready() == ([], [], [], [], False, [], [], [], [])
    groups.close()


def test_committed_entries_come_again_after_a_restart(tmp_path: Path) -> None:
    write_some(tmp_path)
    groups = open_groups(tmp_path)
    assert content(settle(groups), 0) == [b"entry %d" % number for number in range(4)]
    groups.close()


def test_applied_entries_do_not_come_again(tmp_path: Path) -> None:
    write_some(tmp_path)
    groups = open_groups(tmp_path, [3, 0])
    assert content(settle(groups), 0) == [b"entry 2", b"entry 3"]
    groups.close()


def test_many_groups_share_one_block(tmp_path: Path) -> None:
    groups = open_groups(tmp_path, [0] * 8)
    settle(groups)
    before = groups.status()["blocks"]
    for group in range(8):
        groups.propose(group, b"x")
    committed = settle(groups)
    assert [batch[0] for batch in committed] == list(range(8))
    assert groups.status()["blocks"] == before + 1
    groups.close()


def test_compaction_survives_a_restart(tmp_path: Path) -> None:
    groups = open_groups(tmp_path)
    settle(groups)
    for _ in range(5):
        groups.propose(0, b"x")
        settle(groups)
    groups.applied([(0, 5)])
    groups.compact(0, 4)
    groups.close()
    groups = open_groups(tmp_path, [5, 0])
    assert groups.status()["groups"][0]["first"] == 5
    assert content(settle(groups), 0) == [b"x"]
    groups.close()


def test_compaction_of_entries_that_are_not_applied_is_refused(tmp_path: Path) -> None:
    groups = open_groups(tmp_path)
    settle(groups)
    with pytest.raises(ValueError, match="applied"):
        groups.compact(0, 1)
    with pytest.raises(ValueError, match="not between"):
        groups.applied([(0, 2)])
    groups.close()


def test_segments_are_recycled_while_entries_are_compacted(tmp_path: Path) -> None:
    groups = open_groups(tmp_path, segment_bytes=16384)
    settle(groups)
    for _ in range(100):
        groups.propose(0, b"x" * 1000)
        last = settle(groups)[-1][1]
        groups.applied([(0, last)])
        groups.compact(0, last)
    files = list(tmp_path.iterdir())
    groups.close()
    assert len(files) <= 8
    groups = open_groups(tmp_path, [last, 0], segment_bytes=16384)
    assert content(settle(groups), 0) == []
    groups.close()


def test_an_entry_larger_than_a_segment_is_kept(tmp_path: Path) -> None:
    groups = open_groups(tmp_path, segment_bytes=16384)
    settle(groups)
    groups.propose(0, b"y" * 100_000)
    settle(groups)
    groups.propose(0, b"small")
    settle(groups)
    groups.close()
    groups = open_groups(tmp_path, segment_bytes=16384)
    assert content(settle(groups), 0) == [b"y" * 100_000, b"small"]
    groups.close()


def test_a_long_backlog_is_handed_out_in_parts(tmp_path: Path) -> None:
    groups = open_groups(tmp_path)
    settle(groups)
    for _ in range(12):
        groups.propose(0, b"z" * 1_000_000)
        settle(groups)
    groups.close()
    groups = open_groups(tmp_path)
    assert sum(len(batch[3]) for batch in groups.ready()[1]) < 12
    assert select.select([groups], [], [], WAIT_S)[0]
    groups.close()
    groups = open_groups(tmp_path)
    assert len(content(settle(groups), 0)) == 12
    groups.close()


def last_entry(segment: Path) -> int:
    """Offset of the last entry's content."""
    return segment.read_bytes().index(b"entry 3")


def test_a_cut_tail_is_repaired_and_reported(tmp_path: Path) -> None:
    write_some(tmp_path)
    segment = tmp_path / SEGMENT
    with segment.open("r+b") as file:
        file.truncate(last_entry(segment) + 3)
    groups = open_groups(tmp_path)
    assert groups.status()["repaired_bytes"] > 0
    assert content(settle(groups), 0) == [b"entry 0", b"entry 1", b"entry 2"]
    groups.close()


def flip(segment: Path, offset: int) -> None:
    with segment.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0xFF]))


def test_a_damaged_block_in_the_middle_is_refused_with_file_and_offset(tmp_path: Path) -> None:
    write_some(tmp_path)
    segment = tmp_path / SEGMENT
    flip(segment, segment.read_bytes().index(b"entry 1"))
    with pytest.raises(LogCorrupt, match=rf"{SEGMENT}.*offset \d+.*restore"):
        open_groups(tmp_path)


def test_a_log_of_another_owner_is_refused(tmp_path: Path) -> None:
    write_some(tmp_path)
    with pytest.raises(LogFormat, match="2 groups"):
        open_groups(tmp_path, [0, 0, 0])


def test_a_full_disk_refuses_and_recovers_without_a_restart() -> None:
    disk = SimDisk(1)
    groups = RaftGroups(
        1, "", 1, voters=[1], applied=[0], segment_bytes=4096, manual=True, disk=disk
    )
    settle_manual(groups)
    disk.set_free(0)
    accepted = 0
    with pytest.raises(LogFull):
        for _ in range(1000):
            groups.propose(0, b"x" * 100)
            accepted += 1
    assert groups.status()["disk_full"]
    assert len(content(settle_manual(groups), 0)) == accepted > 0
    disk.set_free(1 << 20)
    groups.propose(0, b"room")
    assert content(settle_manual(groups), 0) == [b"room"]
    assert not groups.status()["disk_full"]


def test_nothing_is_committed_before_its_block_is_durable() -> None:
    disk = SimDisk(2)
    groups = RaftGroups(1, "", 1, voters=[1], applied=[0], manual=True, disk=disk)
    settle_manual(groups)
    groups.propose(0, b"late")
    assert groups.ready()[4]
    assert groups.ready()[1] == []
    assert groups.persist_step()
    assert content(groups.ready()[1], 0) == [b"late"]


def test_a_crash_keeps_what_was_durable() -> None:
    disk = SimDisk(3)
    groups = RaftGroups(1, "", 1, voters=[1], applied=[0], manual=True, disk=disk)
    settle_manual(groups)
    groups.propose(0, b"durable")
    settle_manual(groups)
    groups.propose(0, b"maybe")
    groups.ready()
    disk.crash()
    groups = RaftGroups(1, "", 1, voters=[1], applied=[0], manual=True, disk=disk)
    assert content(settle_manual(groups), 0)[:1] == [b"durable"]


def test_a_failed_sync_in_manual_mode_is_an_error() -> None:
    disk = SimDisk(4)
    groups = RaftGroups(1, "", 1, voters=[1], applied=[0], manual=True, disk=disk)
    groups.ready()
    disk.fail_next_sync()
    with pytest.raises(OSError, match="block"):
        groups.persist_step()


def test_a_failed_sync_of_the_thread_ends_the_process() -> None:
    program = (
        "from fastnode._raftlog import RaftGroups, SimDisk\n"
        "import select\n"
        "disk = SimDisk(1)\n"
        "groups = RaftGroups(1, '', 1, voters=[1], applied=[0], disk=disk)\n"
        "disk.fail_next_sync()\n"
        "groups.ready()\n"
        "select.select([], [], [], 60)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert done.returncode == 1
    assert b"cannot be written, stopping" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_reads_are_confirmed_at_the_commit_index(tmp_path: Path) -> None:
    groups = open_groups(tmp_path)
    settle(groups)
    groups.read_index(0, b"who asks")
    assert groups.ready()[2] == [(0, b"who asks", 1)]
    groups.close()


def test_a_node_that_does_not_lead_refuses_proposals_and_reads() -> None:
    disk = SimDisk(5)
    groups = RaftGroups(1, "", 1, voters=[1, 2, 3], applied=[0], manual=True, disk=disk)
    assert groups.ready()[3] == [(0, "follower", 1, 0)]
    with pytest.raises(NotLeader):
        groups.propose(0, b"x")
    with pytest.raises(NotLeader):
        groups.read_index(0, b"x")
    with pytest.raises(NotLeader):
        groups.transfer_leader(0, 2)


def test_three_nodes_replicate_by_packets() -> None:
    nodes = {
        node: RaftGroups(
            node, "", 1, voters=[1, 2, 3], applied=[0], manual=True, disk=SimDisk(node)
        )
        for node in (1, 2, 3)
    }
    committed: dict[int, Committed] = {node: [] for node in nodes}
    proposed = False
    for _ in range(60):
        packets: list[tuple[int, bytes]] = []
        for node, groups in nodes.items():
            groups.tick()
            if not proposed and groups.status()["groups"][0]["role"] == "leader":
                groups.propose(0, b"shared")
                proposed = True
            turn = groups.ready()
            packets += turn[0]
            committed[node] += turn[1]
            groups.persist_step()
        refused = [reason for to, packet in packets for reason in nodes[to].step(packet)]
        assert refused == []
    assert all(content(batches, 0) == [b"shared"] for batches in committed.values())


def test_a_strange_packet_is_refused_with_a_reason() -> None:
    groups = RaftGroups(1, "", 1, voters=[1, 2], applied=[0], manual=True, disk=SimDisk(6))
    assert groups.step(b"") == ["not a packet for this node"]
    header = b"\x01" + (2).to_bytes(8, "little") + (1).to_bytes(8, "little")
    assert groups.step(header + b"\x00") == ["the packet is cut off"]


def test_closing_twice_is_fine_and_ends_the_life_of_the_log(tmp_path: Path) -> None:
    groups = open_groups(tmp_path)
    settle(groups)
    groups.propose(0, b"accepted")
    groups.ready()
    groups.close()
    groups.close()
    with pytest.raises(ValueError, match="closed"):
        groups.ready()
    with pytest.raises(NotLeader):
        groups.propose(0, b"x")
    groups = open_groups(tmp_path)
    assert content(settle(groups), 0) == [b"accepted"]
    groups.close()


def test_an_idle_node_uses_little_disk(tmp_path: Path) -> None:
    groups = open_groups(tmp_path)
    settle(groups)
    groups.close()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 8 << 20


@pytest.mark.parametrize("voters", [[2], [0, 1]])
def test_a_node_that_is_no_voter_is_refused(tmp_path: Path, voters: list[int]) -> None:
    with pytest.raises(ValueError, match="voters"):
        RaftGroups(1, str(tmp_path), 1, voters=voters, applied=[0])
