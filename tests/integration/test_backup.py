"""`fastnode backup`, `restore` and `check` of real nodes: what they do."""

import http.client
import json
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from tests.integration.backup_kit import (
    COMMAND_SECONDS,
    admin_of,
    await_own_record,
    back_up,
    done,
    fastnode,
    fill,
    kept,
    refusal,
)
from tests.integration.worker_kit import names_of
from tests.nodes import JsonClient, Node, environment

TOKENS = {
    "tokens": [
        {"name": "ops", "token": "full-token-0123456789", "role": "full"},
        {"name": "wall", "token": "read-token-0123456789", "role": "read-only"},
    ]
}


def test_what_is_there_already_is_not_fetched_again(tmp_path: Path) -> None:
    with Node(tmp_path / "node", "--groups", "2") as node:
        await_own_record(node)
        fill(node, "jobs", 10, size=100_000)
        first = back_up(node, tmp_path / "backup")
        assert first["new_bytes"] > 1_000_000
        before = kept(tmp_path / "backup")
        fill(node, "jobs", 1)
        second = back_up(node, tmp_path / "backup")
        assert second["bytes"] > first["new_bytes"] and second["new_bytes"] < 100_000
        after = kept(tmp_path / "backup")
        assert second["new_files"] == len(after.keys() - before.keys())
        assert all(after[name] == before[name] for name in after.keys() & before.keys())
        words = done("backup", str(tmp_path / "backup"), *admin_of(node))
        assert "backed up 2 groups of cluster" in words and "\nnew: 0 files, 0 bytes" in words
        assert kept(tmp_path / "backup") == after
        # The node has kept nothing of it.
        assert sorted(path.name for path in (node.data_dir / "groups").iterdir()) == ["000", "001"]
        assert node.stop() == 0
    # The files of the first backup that nobody names any more are gone.
    files = list((tmp_path / "backup" / "files").iterdir())
    assert len(files) <= second["files"]
    # Without further messages the backup has the rows of the node.
    assert done("check", str(tmp_path / "backup")) == done("check", str(node.data_dir))


def test_a_restored_node_goes_on_with_handles_receives_and_deduplication(tmp_path: Path) -> None:
    """Messages in flight come back when their time is over, a handle that was given still deletes,
    and a deduplication id is remembered.
    """
    with Node(tmp_path / "node", "--groups", "2") as node:
        client = JsonClient(node.sqs_url)
        url, never = fill(node, "jobs", 2), fill(node, "never", 1)
        order = {"QueueName": "order.fifo", "Attributes": {"FifoQueue": "true"}}
        fifo = client.call("CreateQueue", **order)["QueueUrl"]
        once = {"MessageBody": "1", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
        before = client.call("SendMessage", QueueUrl=fifo, **once)["MessageId"]
        taken = client.call(
            "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=1, VisibilityTimeout=600
        )["Messages"][0]
        briefly = client.call("ReceiveMessage", QueueUrl=url, VisibilityTimeout=3)["Messages"][0]
        back_up(node, tmp_path / "backup")
        # What happens after the backup, the restored node does not know.
        client.call("DeleteMessage", QueueUrl=url, ReceiptHandle=briefly["ReceiptHandle"])
        fill(node, "jobs", 1)
        later = client.call("ReceiveMessage", QueueUrl=never)["Messages"][0]
        client.close()
    done("restore", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "new"))
    with Node(tmp_path / "new") as node:
        client = JsonClient(node.sqs_url)
        url, fifo = f"{node.sqs_url}/000000000000/jobs", f"{node.sqs_url}/000000000000/order.fifo"
        found = client.call(
            "ReceiveMessage",
            QueueUrl=url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=20,
            AttributeNames=["ApproximateReceiveCount"],
        )["Messages"]
        assert [message["MessageId"] for message in found] == [briefly["MessageId"]]
        assert found[0]["Attributes"]["ApproximateReceiveCount"] == "2"
        client.call("DeleteMessage", QueueUrl=url, ReceiptHandle=taken["ReceiptHandle"])
        client.call("DeleteMessage", QueueUrl=url, ReceiptHandle=briefly["ReceiptHandle"])
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        left = client.call("GetQueueAttributes", QueueUrl=url, AttributeNames=names)["Attributes"]
        assert set(left.values()) == {"0"}
        assert client.call("SendMessage", QueueUrl=fifo, **once)["MessageId"] == before
        # A handle that was given after the backup is that of a message that nobody has received.
        client.call("DeleteMessage", QueueUrl="never", ReceiptHandle=later["ReceiptHandle"])
        (again,) = client.call("ReceiveMessage", QueueUrl="never")["Messages"]
        assert again["MessageId"] == later["MessageId"]
        client.close()


def test_a_node_with_workers_is_backed_up_and_restored_as_any_other(tmp_path: Path) -> None:
    names = [names_of(worker, 1)[0] for worker in (0, 1)]
    with Node(tmp_path / "node", "--workers", "2") as node:
        for name in names:
            fill(node, name, 3)
        back_up(node, tmp_path / "backup")
        assert node.stop() == 0
    assert done("check", str(tmp_path / "backup")) == done("check", str(node.data_dir))
    done("restore", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "new"))
    with Node(tmp_path / "new", "--workers", "2") as node:
        client = JsonClient(node.sqs_url)
        for name in names:
            url = f"{node.sqs_url}/000000000000/{name}"
            answer = client.call(
                "GetQueueAttributes", QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
            )
            assert answer["Attributes"]["ApproximateNumberOfMessages"] == "3"
        client.close()


def test_a_backup_that_is_killed_leaves_the_last_one_and_is_resumed(tmp_path: Path) -> None:
    target = tmp_path / "backup"
    with Node(tmp_path / "node", "--groups", "1") as node:
        fill(node, "jobs", 1)
        back_up(node, target)
        manifest, lines = (target / "BACKUP").read_bytes(), done("check", str(target))
        # Twelve seconds of a MiB each, in which it is killed.
        fill(node, "jobs", 60, size=200_000)
        command = [sys.executable, "-m", "fastnode", "backup", str(target), "--rate", "1"]
        process = subprocess.Popen([*command, *admin_of(node)], env=environment())
        deadline = time.monotonic() + COMMAND_SECONDS
        while not any(path.stat().st_size > 500_000 for path in (target / "files").iterdir()):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(COMMAND_SECONDS)
        assert (target / "BACKUP").read_bytes() == manifest
        assert done("check", str(target)) == lines
        # The node still holds it, and says how to end it.
        line = refusal("backup", str(target), *admin_of(node))
        assert "a backup is being made of this node already" in line
        backup_id = line.rpartition("/")[2].strip()
        assert ask(node, "DELETE", f"/api/v1/backup/{backup_id}")[0] == 200
        assert back_up(node, target)["new_bytes"] > 500_000
        assert done("check", str(target)) != lines


def ask(node: Node, method: str, path: str, token: str = "") -> tuple[int, bytes]:
    address = urlsplit(node.admin_url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    with closing(connection):
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_the_api_wants_the_full_role_and_says_what_is_wrong(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps(TOKENS))
    tokens.chmod(0o600)
    with Node(tmp_path / "node", "--groups", "1", "--admin-tokens", str(tokens)) as node:
        full, reading = (entry["token"] for entry in TOKENS["tokens"])
        for method, path in (("GET", "backup"), ("POST", "backup"), ("GET", f"backup/{'0' * 16}")):
            assert ask(node, method, f"/api/v1/{path}")[0] == 401
            assert ask(node, method, f"/api/v1/{path}", reading)[0] == 403
        target = str(tmp_path / "backup")
        read_only = {"FASTNODE_ADMIN_TOKEN": reading}
        assert "may look" in refusal("backup", target, *admin_of(node), variables=read_only)
        assert "wants an admin token" in refusal("backup", target, *admin_of(node))
        assert (
            fastnode(
                "backup", target, *admin_of(node), variables={"FASTNODE_ADMIN_TOKEN": full}
            ).returncode
            == 0
        )
        begun = json.loads(ask(node, "POST", "/api/v1/backup", full)[1])
        root = f"/api/v1/backup/{begun['id']}"
        deadline = time.monotonic() + COMMAND_SECONDS
        while json.loads(ask(node, "GET", "/api/v1/backup", full)[1])["state"] != "ready":
            assert time.monotonic() < deadline
        for path, code in {
            f"{root}/groups/0": 200,
            f"{root}/groups/7": 409,
            f"{root}/groups/x": 404,
            f"{root}/groups/0/files/CURRENT": 200,
            f"{root}/groups/0/files/CURRENT?offset=99999": 409,
            f"{root}/groups/0/files/CURRENT?offset=-1": 400,
            f"{root}/groups/0/files/..": 400,
            f"{root}/groups/0/files/LOCK": 409,
            f"{root}/groups/0/files/%2e%2e%2fFORMAT": 400,
            f"/api/v1/backup/{'0' * 16}/groups/0": 409,
        }.items():
            assert ask(node, "GET", path, full)[0] == code, path
        assert ask(node, "DELETE", root, full)[0] == 200
        assert json.loads(ask(node, "GET", "/api/v1/backup", full)[1])["state"] == "none"
