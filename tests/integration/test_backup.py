"""`fastnode backup`, `restore` and `check` of real nodes: what they do, and what they refuse."""

import http.client
import json
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from fastnode.backup.manifest import decode_manifest, encode_manifest
from tests.integration.worker_kit import names_of
from tests.nodes import JsonClient, Node, Refused, environment

COMMAND_SECONDS = 60.0
TOKENS = {
    "tokens": [
        {"name": "ops", "token": "full-token-0123456789", "role": "full"},
        {"name": "wall", "token": "read-token-0123456789", "role": "read-only"},
    ]
}


def fastnode(
    *arguments: str, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fastnode", *arguments],
        env=environment() | (variables or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )


def done(*arguments: str) -> str:
    ended = fastnode(*arguments)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return ended.stdout


def refusal(*arguments: str, code: int = 1, variables: dict[str, str] | None = None) -> str:
    """The one line of a command that does nothing."""
    ended = fastnode(*arguments, variables=variables)
    assert (ended.returncode, ended.stdout) == (code, ""), ended
    assert ended.stderr.startswith("fastnode: ") and ended.stderr.count("\n") == 1
    return ended.stderr


def admin_of(node: Node) -> tuple[str, str]:
    return "--admin", node.admin_url


def back_up(node: Node, target: Path) -> Any:
    return json.loads(done("backup", str(target), "--json", *admin_of(node)))


def fill(node: Node, queue: str, count: int, size: int = 10) -> str:
    client = JsonClient(node.sqs_url)
    url: str = client.call("CreateQueue", QueueName=queue)["QueueUrl"]
    for _ in range(count):
        # Nothing that could be compressed.
        client.call("SendMessage", QueueUrl=url, MessageBody=secrets.token_hex(size // 2))
    client.close()
    return url


def tree(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup with large messages, of a node that is gone."""
    folder = tmp_path_factory.mktemp("made")
    with Node(folder / "node", "--groups", "2") as node:
        fill(node, "jobs", 20, size=60_000)
        back_up(node, folder / "backup")
    return folder / "backup"


@pytest.fixture
def backup(made: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    shutil.copytree(made, tmp_path / "backup")
    return tmp_path / "backup"


# --- what it does -------------------------------------------------------------------------------


def test_what_is_there_already_is_not_fetched_again(tmp_path: Path) -> None:
    with Node(tmp_path / "node", "--groups", "2") as node:
        fill(node, "jobs", 10, size=100_000)
        first = back_up(node, tmp_path / "backup")
        assert first["new_bytes"] > 1_000_000
        fill(node, "jobs", 1)
        second = back_up(node, tmp_path / "backup")
        assert second["bytes"] > first["new_bytes"] and second["new_bytes"] < 100_000
        words = done("backup", str(tmp_path / "backup"), *admin_of(node))
        assert "backed up 2 groups of cluster" in words and "\nnew: 0 files, 0 bytes" in words
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
        url = fill(node, "jobs", 2)
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
        for _ in range(4):
            fill(node, "jobs", 10, size=100_000)
            done("cluster", "snapshot", *admin_of(node))
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
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
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


# --- what is refused ----------------------------------------------------------------------------


def spoil_manifest(backup: Path, **changes: object) -> None:
    path = backup / "BACKUP"
    manifest = msgspec.structs.replace(decode_manifest(path.read_bytes(), path), **changes)
    path.write_bytes(encode_manifest(manifest))


def largest(backup: Path) -> Path:
    return max((backup / "files").iterdir(), key=lambda path: path.stat().st_size)


def cut_manifest(backup: Path) -> None:
    text = (backup / "BACKUP").read_bytes()
    (backup / "BACKUP").write_bytes(text[: len(text) // 2])


def cut_file(backup: Path) -> None:
    path = largest(backup)
    path.write_bytes(path.read_bytes()[:-1])


def change_byte(backup: Path) -> None:
    path = largest(backup)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def other_format(backup: Path) -> None:
    text = (backup / "BACKUP").read_bytes()
    (backup / "BACKUP").write_bytes(text.replace(b"fastnode-backup 1", b"fastnode-backup 9", 1))


SPOILED = {
    cut_manifest: "is damaged or cut short",
    cut_file: "cut short|bytes, not",
    lambda backup: largest(backup).unlink(): "cut short|is missing",
    change_byte: "its checksum is another",
    other_format: "is of backup format 9",
}


@pytest.mark.parametrize(("spoil", "words"), SPOILED.items(), ids=list(SPOILED.values()))
def test_a_spoiled_backup_is_refused_and_nothing_is_made(
    spoil: Any, words: str, backup: Path, tmp_path: Path
) -> None:
    spoil(backup)
    before = tree(backup)
    (tmp_path / "empty").mkdir()
    for target in ("new", "empty"):
        line = refusal("restore", str(backup), "--data-dir", str(tmp_path / target))
        assert any(word in line for word in words.split("|")), line
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "empty").iterdir()) == []
    ended = fastnode("check", str(backup))
    assert ended.returncode == 1 and any(word in ended.stderr for word in words.split("|"))
    assert tree(backup) == before


def test_a_backup_of_a_newer_version_is_refused(backup: Path, tmp_path: Path) -> None:
    spoil_manifest(backup, data_format=99, version="9.9.9")
    line = refusal("restore", str(backup), "--data-dir", str(tmp_path / "new"))
    assert "is of a newer fastnode (9.9.9)" in line


def test_only_an_empty_directory_is_restored_into(made: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "x").write_text("mine")
    (tmp_path / "file").write_text("mine")
    used = refusal("restore", str(made), "--data-dir", str(tmp_path / "used"))
    assert "used is not empty (it holds 'x'): restore into a new or an empty --data-dir" in used
    assert "Not a directory" in refusal("restore", str(made), "--data-dir", str(tmp_path / "file"))
    assert tree(tmp_path / "used") == {"x": b"mine"}
    for backup in (tmp_path / "used", tmp_path / "absent"):
        line = refusal("restore", str(backup), "--data-dir", str(tmp_path / "new"))
        assert "is not a backup" in line
    assert not (tmp_path / "new").exists()
    done("restore", str(made), "--data-dir", str(tmp_path / "new"))
    assert "is not empty" in refusal("restore", str(made), "--data-dir", str(tmp_path / "new"))


def test_wrong_flags_and_addresses_change_nothing(made: Path, tmp_path: Path) -> None:
    new = str(tmp_path / "new")
    for arguments, words in {
        ("restore",): "the following arguments are required: BACKUP",
        ("restore", str(made), "--data-dir", new, "--node-id", "0"): "--node-id must be from 1",
        ("restore", str(made), "--data-dir", new, "--node-id", "x"): "--node-id: must be a whole",
        ("backup",): "the following arguments are required: DIR",
        ("backup", new, "--rate", "fast"): "--rate: must be a whole number",
        ("backup", new, "--admin", "nowhere"): "--admin must be HOST:PORT",
    }.items():
        assert words in refusal(*arguments, code=2)
    line = refusal("backup", new, "--admin", "127.0.0.1:1", code=3)
    assert "no answer from 127.0.0.1:1" in line


def test_two_clusters_do_not_share_a_directory(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "backup")
    before = tree(tmp_path / "backup")
    with Node(tmp_path / "node", "--groups", "2") as node:
        line = refusal("backup", str(tmp_path / "backup"), *admin_of(node))
        assert "is a backup of cluster" in line and "name another directory" in line
        assert tree(tmp_path / "backup") == before
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "x.jpg").write_text("")
        assert "holds 'x.jpg'" in refusal("backup", str(tmp_path / "photos"), *admin_of(node))
        # Neither has left the node with a backup that stands in the way of the next.
        back_up(node, tmp_path / "good")


@pytest.fixture
def restored(made: Path, tmp_path: Path) -> Iterator[Node]:
    done("restore", str(made), "--data-dir", str(tmp_path / "new"), "--node-id", "5")
    with Node(tmp_path / "new", "--node-id", "5") as node:
        yield node


def test_a_restored_node_is_of_a_new_cluster_with_the_groups_of_the_old(
    restored: Node, made: Path
) -> None:
    manifest = decode_manifest((made / "BACKUP").read_bytes(), made / "BACKUP")
    status = json.loads(done("cluster", "status", "--json", *admin_of(restored)))
    assert status["cluster"] != manifest.cluster
    assert [node["id"] for node in status["nodes"]] == [5]
    assert [group["voters"] for group in status["groups"]] == [[5], [5]]
    client = JsonClient(restored.sqs_url)
    answer = client.call("ReceiveMessage", QueueUrl="jobs", MaxNumberOfMessages=10)
    assert len(answer["Messages"]) == 10
    with pytest.raises(Refused):
        client.call("GetQueueUrl", QueueName="absent")
    client.close()
