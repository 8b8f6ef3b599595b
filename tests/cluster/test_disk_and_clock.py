"""One node's disk, directory or clock goes wrong under load, and the others carry on.

The disk is a small file system in memory that only root can mount. The clock is moved by
libfaketime, which leaves CLOCK_BOOTTIME alone when told to; that is checked, not believed.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.harness import Cluster, eventually, static_cluster, transfer
from tests.cluster.network import Loopback
from tests.cluster.replicas import verify_replicas
from tests.cluster.workload import under_load
from tests.small_disk import filled, small_disk

DISK_BYTES = 256 * 1_048_576
FULL_SECONDS = 5.0
HOUR_SECONDS = 3_600
LOST_DIRECTORY = "incarnation|another data directory"
CLOCKS = ("CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_BOOTTIME")
PROBE = (
    "import json, time; "
    f"print(json.dumps([time.clock_gettime(getattr(time, name)) for name in {CLOCKS}]))"
)
# Between two readings in two processes.
READING_SECONDS = 300.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """An empty directory that is a file system of its own."""
    with small_disk(tmp_path / "small", DISK_BYTES) as path:
        yield path


def test_a_node_whose_disk_is_full_stops_nobody_and_recovers(disk: Path, tmp_path: Path) -> None:
    directory = disk / "node"
    with static_cluster(tmp_path, Loopback(), directories={3: directory}) as cluster:
        with under_load(cluster, "disk") as load:
            with filled(disk, FULL_SECONDS):
                load.await_progress()
            eventually("the node is ready again", cluster.members[3].is_ready)
            load.await_progress()
        verify_replicas(cluster)


def test_a_wiped_node_is_not_let_in_under_its_old_number(tmp_path: Path) -> None:
    """It could vote again for what it has voted against. Its directory is all that it needs."""
    with static_cluster(tmp_path, Loopback()) as cluster:
        node, kept = cluster.members[3], tmp_path / "kept"
        with under_load(cluster, "wiped") as load:
            node.kill()
            node.data_dir.rename(kept)
            node.data_dir.mkdir()
            offset = len(node.stderr())
            others = {number: len(cluster.members[number].stderr()) for number in (1, 2)}
            with node.ended():
                node.launch()
                node.await_line(LOST_DIRECTORY, offset)
                for number, end in others.items():
                    cluster.members[number].await_line(LOST_DIRECTORY, end)
                assert not node.is_ready()
                load.await_progress()
            node.wipe()
            node.data_dir.rmdir()
            kept.rename(node.data_dir)
            node.start()
            cluster.await_ready()
        verify_replicas(cluster)


# --- clocks -------------------------------------------------------------------------------------


def faketime(offset_seconds: int) -> dict[str, str]:
    """The environment of a process whose wall clock is off by so much."""
    found = importlib.util.find_spec("libfaketime")
    if found is None or found.origin is None:
        pytest.skip("the package libfaketime is not installed")
    library = Path(found.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{offset_seconds:+d}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def clocks(variables: dict[str, str]) -> list[float]:
    """What a process with this environment reads from each of `CLOCKS`."""
    command = [sys.executable, "-c", PROBE]
    output = subprocess.run(
        command, env=os.environ | variables, capture_output=True, check=True
    ).stdout
    read: list[float] = json.loads(output)
    return read


@pytest.mark.parametrize("offset", [HOUR_SECONDS, -HOUR_SECONDS])
def test_only_the_wall_clock_is_moved(offset: int) -> None:
    honest, moved = clocks({}), clocks(faketime(offset))
    wall, *steady = (after - before for before, after in zip(honest, moved, strict=True))
    assert abs(wall - offset) < READING_SECONDS
    assert all(0 <= step < READING_SECONDS for step in steady), "a steady clock was moved too"


def test_a_node_whose_clock_is_an_hour_off_shortens_and_stretches_no_lease(tmp_path: Path) -> None:
    """Ahead, then behind; each time it gets to lead, and goes on while another is away."""
    with static_cluster(tmp_path, Loopback()) as cluster:
        with under_load(cluster, "clock") as load:
            for offset in (HOUR_SECONDS, -HOUR_SECONDS):
                set_clock(cluster, 3, faketime(offset))
                for other in (1, 2):
                    transfer(cluster, 3)
                    eventually("it leads all", lambda: set(cluster.leaders() or ()) == {3})
                    assert 3 in lead_without(cluster, other)
                load.await_progress()
            set_clock(cluster, 3, {})
        verify_replicas(cluster)


def set_clock(cluster: Cluster, number: int, variables: dict[str, str]) -> None:
    node = cluster.members[number]
    node.more_environment = variables
    assert node.stop() == 0
    node.start()
    maps = Path(f"/proc/{node.process.pid}/maps").read_text()
    assert ("libfaketime" in maps) == bool(variables)
    cluster.await_ready()
    cluster.await_leaders()


def lead_without(cluster: Cluster, number: int) -> list[int]:
    """Who leads while this node is away."""
    cluster.members[number].kill()
    leaders = cluster.await_leaders()
    cluster.members[number].start()
    cluster.await_ready()
    cluster.await_leaders()
    return leaders
