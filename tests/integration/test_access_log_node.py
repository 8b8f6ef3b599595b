"""A real node with an access log: what its clients did is in it when it has stopped."""

import json
from itertools import chain
from pathlib import Path

from tests.integration.worker_kit import WORKERS, eventually, is_ready, names_of
from tests.nodes import JsonClient, Node, refused_start


def test_a_stopped_node_has_logged_every_request(tmp_path: Path) -> None:
    with Node(tmp_path / "data", "--access-log", str(tmp_path / "log")) as node:
        client = JsonClient(node.sqs_url)
        url = client.call("CreateQueue", QueueName="orders")["QueueUrl"]
        for number in range(20):
            client.call("SendMessage", QueueUrl=url, MessageBody="secret" + "x" * number)
        client.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=3)
        client.close()
        assert node.stop() == 0
    text = "".join(path.read_text() for path in sorted((tmp_path / "log").iterdir()))
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["action"] for row in rows] == [
        "CreateQueue",
        *["SendMessage"] * 20,
        "ReceiveMessage",
    ]
    assert {row["queue"] for row in rows} == {"orders"} and {row["status"] for row in rows} == {200}
    sizes = [message["size"] for row in rows for message in row.get("messages", [])]
    assert sizes == list(range(6, 26))
    times = [row["time_us"] for row in rows]
    assert times == sorted(times) and all(0 < row["duration_us"] < 60_000_000 for row in rows)
    assert "secret" not in text


def test_each_worker_logs_what_it_answered(tmp_path: Path) -> None:
    names = [names_of(worker, 1)[0] for worker in (0, 1)]
    with Node(tmp_path / "data", *WORKERS, "--access-log", str(tmp_path / "log")) as node:
        eventually("all workers are ready", lambda: is_ready(node))
        for name in names:
            client = JsonClient(node.sqs_url)
            url = client.call("CreateQueue", QueueName=name)["QueueUrl"]
            for _ in range(10):
                client.call("SendMessage", QueueUrl=url, MessageBody="x")
            client.close()
        assert node.stop() == 0
    files = sorted((tmp_path / "log").iterdir())
    assert [path.name for path in files] == [
        "access-worker0-00000001.jsonl",
        "access-worker1-00000001.jsonl",
    ]
    rows = [[json.loads(line) for line in path.read_text().splitlines()] for path in files]
    sends = [(row["queue"], row["action"]) for row in chain(*rows)]
    assert all(sends.count((name, "SendMessage")) == 10 for name in names) and len(sends) == 22
    # A connection goes to the worker of its queue, whichever accepted it.
    assert all(rows[worker][-1]["queue"] == names[worker] for worker in (0, 1))


def test_a_log_that_cannot_be_written_is_refused_at_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, said = refused_start(tmp_path / "data", "--access-log", str(tmp_path / "file"))
    assert code == 1
    assert "--access-log" in said and "choose another place" in said
