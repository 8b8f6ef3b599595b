"""What the metrics tell of the log: sizes of group commits, stages, leaders."""

from pathlib import Path

from fastnode.http.metrics_page import metrics_text
from fastnode.raft.groups import open_groups
from fastnode.raft.meter import RaftMeter, status_metrics
from tests.metrics_text import read_metrics

STAGES = ("gather", "log", "apply")


def test_a_group_commit_is_measured_from_its_first_transaction() -> None:
    meter = RaftMeter()
    meter.gathered(1_000)
    meter.proposed(3, 201_000)
    meter.committed(1_201_000)
    meter.applied(1_201_000, 1_301_000)
    meter.committed(9_000_000)
    found = meter.metrics()
    sums = {stage: found[f'fastnode_stage_seconds_sum{{stage="{stage}"}}'] for stage in STAGES}
    assert sums == {"gather": 0.0002, "log": 0.001, "apply": 0.0001}
    assert found["fastnode_commit_transactions_sum"] == 3
    assert found['fastnode_commit_transactions_bucket{le="2"}'] == 0
    assert found['fastnode_commit_transactions_bucket{le="4"}'] == 1


def test_another_leader_is_a_change_and_the_same_one_is_none() -> None:
    meter = RaftMeter()
    meter.changed([(0, "candidate", 2, 0), (0, "leader", 2, 1), (1, "follower", 2, 3)])
    meter.changed([(0, "follower", 3, 0), (0, "follower", 3, 1), (1, "follower", 3, 2)])
    found = meter.metrics()
    assert found["fastnode_raft_leader_changes_total"] == 3
    assert found["fastnode_raft_elections_total"] == 1


def test_the_log_tells_how_long_its_syncs_take(tmp_path: Path) -> None:
    groups = open_groups(1, tmp_path / "log", applied=[0, 0], is_synced=True)
    try:
        while groups.status()["groups"][0]["role"] != "leader":
            groups.tick()
            groups.ready()
        status = groups.status()
        assert sum(status["sync_counts"]) <= status["fsyncs"]
        families = read_metrics(metrics_text(status_metrics(status, [4, 6])))
        assert families["fastnode_log_sync_seconds"].kind == "histogram"
        leads = families["fastnode_raft_leads"].samples
        assert [sample.labels["group"] for sample in leads] == ["4", "6"]
    finally:
        groups.close()
