"""Logs and tables become traces: what is kept, scaled, split, named, refused."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from spark_load.cli import main
from spark_load.headers import read_trace_header
from spark_load.schema import OPERATIONS, Consumers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T0 = 1_700_000_000_000_000
LOG: list[dict[str, Any]] = [
    {"time_us": T0 + 5_000_000, "duration_us": 900, "action": "SendMessage", "queue": "plain",
     "status": 200, "messages": [{"size": 120, "group": "acme", "delay": 4}]},
    {"time_us": T0, "duration_us": 800, "action": "SendMessageBatch", "queue": "orders.fifo",
     "status": 200, "messages": [{"size": 300, "group": "a"}, {"size": 301, "group": "b"},
                                 {"size": 302, "group": "a"}]},
    {"time_us": T0 + 1, "duration_us": 9_000_000, "action": "ReceiveMessage", "queue": "plain",
     "status": 200, "max_messages": 5, "wait": 9},
    {"time_us": T0 + 2, "duration_us": 9_000_000, "action": "ReceiveMessage", "queue": "plain",
     "status": 200, "max_messages": 7, "wait": 3},
    {"time_us": T0 + 3, "duration_us": 10, "action": "ListQueues", "queue": "", "status": 200},
    {"time_us": T0 + 10_000_000, "duration_us": 10, "action": "DeleteMessage", "queue": "plain",
     "status": 200},
    {"time_us": T0 + 4, "duration_us": 10, "action": "", "queue": "", "status": 400},
]  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    folder.mkdir()
    lines = [json.dumps(row) for row in LOG]
    (folder / "access-00000001.jsonl").write_text("\n".join(lines[:3]) + "\n")
    # The node was killed while it wrote.
    (folder / "access-00000002.jsonl").write_text("\n".join(lines[3:]) + '\n{"time_us": 17000')
    return folder


def imported(source: Path, trace: Path, *flags: str) -> list[dict[str, Any]]:
    assert main(["import", str(source), str(trace), *flags]) == 0
    rows: list[dict[str, Any]] = pq.read_table(trace / OPERATIONS).to_pylist()
    return sorted(rows, key=lambda row: int(row["op"]))


@pytest.mark.long
def test_a_log_becomes_a_trace(spark: "SparkSession", log: Path, tmp_path: Path) -> None:
    rows = imported(log, tmp_path / "trace", "--keep-names", "--speed", "10")
    header = read_trace_header(tmp_path / "trace")
    assert (header.operations, header.messages, header.duration_us) == (4, 4, 1_000_001)
    key = header.trace_id
    assert [[row[name] for name in ("op", "at_us", "action", "queue")] for row in rows] == [
        [0, 0, "ListQueues", ""],
        [1, 0, "SendMessageBatch", "orders.fifo"],
        [2, 0, "SendMessageBatch", "orders.fifo"],
        [3, 500_000, "SendMessage", "plain"],
    ]
    assert [(row["group"], row["lane_key"]) for row in rows[1:]] == [
        ("a", "orders.fifo/a"),
        ("b", "orders.fifo/b"),
        ("acme", "3"),
    ]
    assert rows[1]["messages"] == [
        {"key": f"{key}-1-0", "size": 300, "delay": None, "dedup": f"{key}-1-0"},
        {"key": f"{key}-1-1", "size": 302, "delay": None, "dedup": f"{key}-1-1"},
    ]
    assert rows[3]["messages"] == [{"key": f"{key}-3-0", "size": 120, "delay": 4, "dedup": None}]
    assert rows[3]["tenant"] == "acme"


@pytest.mark.long
def test_polls_of_a_log_become_consumers(spark: "SparkSession", log: Path, tmp_path: Path) -> None:
    imported(log, tmp_path / "trace", "--keep-names", "--visibility", "11")
    orders, plain = read_trace_header(tmp_path / "trace").queues
    assert (orders.name, orders.attributes) == ("orders.fifo", {"FifoQueue": "true"})
    # Two polls were open for nine of ten seconds.
    assert plain.consumers == Consumers(2, 7, 9, 11)
    assert orders.consumers == Consumers(1, 10, 1, 11)


@pytest.mark.long
def test_names_are_hidden_unless_they_are_to_be_kept(
    spark: "SparkSession", log: Path, tmp_path: Path
) -> None:
    first = imported(log, tmp_path / "one", "--salt", "s")
    again = imported(log, tmp_path / "two", "--salt", "s")
    other = imported(log, tmp_path / "three")
    assert first == again
    text = json.dumps([first, other]) + (tmp_path / "one" / "trace.json").read_text()
    for secret in ("plain", "orders", "acme", '"a"'):
        assert secret not in text
    (queue,) = {row["queue"] for row in first if row["action"] == "SendMessageBatch"}
    assert queue.startswith("q-") and queue.endswith(".fifo")
    assert {row["queue"] for row in first} != {row["queue"] for row in other}


@pytest.mark.long
def test_only_the_chosen_queues_are_taken(spark: "SparkSession", log: Path, tmp_path: Path) -> None:
    rows = imported(log, tmp_path / "trace", "--keep-names", "--queue", "plain")
    assert [row["queue"] for row in rows] == ["plain"]


@pytest.mark.long
def test_a_table_in_any_clock_becomes_a_trace(spark: "SparkSession", tmp_path: Path) -> None:
    source = tmp_path / "calls.csv"
    source.write_text(
        "Time,action,queue,group,size\n"
        "1700000001.5,SendMessage,q,,10\n"
        "1700000000000,SendMessage,q,,200\n"
        "1700000002000000,GetQueueAttributes,q,,\n"
        "2023-11-14T22:13:23Z,SendMessage,f.fifo,g,50\n"
    )
    rows = imported(source, tmp_path / "trace", "--keep-names")
    assert [(row["at_us"], row["queue"], len(row["messages"])) for row in rows] == [
        (0, "q", 1),
        (1_500_000, "q", 1),
        (2_000_000, "q", 0),
        (3_000_000, "f.fifo", 1),
    ]
    assert [message["size"] for row in rows for message in row["messages"]] == [200, 12, 50]


REFUSED = (
    ("time,que\n1,q\n", "has no column 'queue'; did you mean 'que'?"),
    ("time,queue\nsoon,q\n", "1 rows have no time that can be read"),
    ("time,queue,action\n1,q,DeleteMessage\n", "has no operation that can be replayed"),
    ("time,queue\n", "has no operation that can be replayed"),
)


@pytest.mark.long
@pytest.mark.parametrize(("text", "complaint"), REFUSED)
def test_a_table_that_cannot_be_used_is_refused(
    spark: "SparkSession",
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    complaint: str,
) -> None:
    (tmp_path / "calls.csv").write_text(text)
    assert main(["import", str(tmp_path / "calls.csv"), str(tmp_path / "trace")]) == 2
    said = capsys.readouterr().err
    assert complaint in said and said.count("\n") == 1


@pytest.mark.long
def test_a_dry_run_writes_nothing(
    spark: "SparkSession", log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(log), str(tmp_path / "trace"), "--dry-run", "--speed", "2"]) == 0
    assert "4 operations in 10.0 s, to be replayed in 5.0 s" in capsys.readouterr().out
    assert not (tmp_path / "trace").exists()
