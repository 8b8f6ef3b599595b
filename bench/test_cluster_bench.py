"""The measurement of a cluster still works, with few turns and without a verdict."""

import os
from pathlib import Path

import msgspec
import pytest

from bench import cluster, cluster_nodes, cluster_rates
from bench.cluster_rates import Slice
from fastnode import native


def test_every_figure_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.json"
    assert cluster.main(["--short", "--data-under", str(tmp_path), "--json", str(file)]) == 0
    table = capsys.readouterr().out
    lines = msgspec.json.decode(file.read_bytes())["lines"]
    assert len(lines) == 12
    assert all(line["value"] >= 0 and line["name"] in table for line in lines)
    assert f"share {len(os.sched_getaffinity(0))} cores" in table


def test_an_unknown_section_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cluster.main(["--only", "rates,speed"])
    assert "no section 'speed'" in capsys.readouterr().err


def test_every_group_has_a_queue() -> None:
    names = cluster_nodes.queue_names(64)
    segments = [native.queue_segment("000000000000", "us-east-1", name) for name in names]
    assert [native.home_group(segment, 64) for segment in segments] == list(range(64))


def test_connections_are_split_evenly() -> None:
    assert cluster_rates.split(64, 3) == [22, 21, 21]


def test_a_ratio_is_taken_within_each_turn() -> None:
    cluster_slices = [Slice(10, 1, 1), Slice(90, 1, 1), Slice(40, 1, 1)]
    single_slices = [Slice(20, 1, 1), Slice(100, 1, 1), Slice(400, 1, 1)]
    line = cluster_rates.rate_line("somewhere", cluster_slices, single_slices)
    assert line.value == 0.5
    assert "turns 0.10 to 0.90" in line.detail


def test_a_lone_send_is_judged_by_the_network_and_disk_of_its_own_turn() -> None:
    slow_disk, fast_disk = (0.0102, 0.0002, 0.0045), (0.0012, 0.0002, 0.0)
    assert cluster_rates.commit_line([slow_disk, fast_disk]).value == pytest.approx(1.0)
