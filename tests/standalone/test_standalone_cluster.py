"""The whole pipeline on a real Spark cluster: a master, two workers, a node."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.nodes import Node
from tests.standalone.spark_cluster import spark_cluster

ROOT = Path(__file__).parents[2]
WORKLOAD = """
duration = "4s"
[queues.standalone]
attributes = {VisibilityTimeout = 5}
consumers = {count = 2, visibility = "5s"}
[queues.standalone-orders]
kind = "fifo"
attributes = {VisibilityTimeout = 5}
consumers = {count = 1, visibility = "5s"}
[streams.plain]
queue = "standalone"
arrivals = {kind = "poisson", rate = 100}
[streams.orders]
queue = "standalone-orders"
arrivals = {kind = "constant", rate = 50}
groups = {count = 20}
"""


@pytest.mark.timeout(600)
def test_a_cluster_generates_replays_and_judges(tmp_path: Path) -> None:
    (tmp_path / "two-queues.toml").write_text(WORKLOAD)
    out = tmp_path / "out"
    with Node(tmp_path / "data") as node, spark_cluster(tmp_path, workers=2) as master:
        settings = {
            "spark.pyspark.python": sys.executable,
            "spark.executor.memory": "512m",
            "spark.executor.cores": "2",
        }
        flags = [flag for item in settings.items() for flag in ("--conf", "=".join(item))]
        run = subprocess.run(
            [
                *(sys.executable, "-m", "spark_load", "run", str(tmp_path / "two-queues.toml")),
                *(str(out), "--endpoint", node.sqs_url, "--master", master),
                *("--lanes", "2", "--consumer-lanes", "2", *flags),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stdout + run.stderr
    header = json.loads((out / "trace" / "trace.json").read_text())
    assert header["operations"] > 500
    calls = pq.read_table(out / "history" / "calls")
    assert len(set(calls["lane"].to_pylist())) == 4
    assert json.loads((out / "history" / "history.json").read_text())["is_complete"]
    # Both workers had executors, and tasks ran in them and not in the driver.
    for number in range(2):
        assert list((tmp_path / f"worker-{number}" / "work").glob("app-*/*/stderr"))
