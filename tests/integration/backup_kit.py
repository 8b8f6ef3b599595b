"""The program as a process, and nodes to back up."""

import json
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.nodes import JsonClient, Node, environment

COMMAND_SECONDS = 120.0


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


def await_own_record(node: Node) -> None:
    """Soon after its first start a node writes down where it is and which directory it has. From
    then on, while nothing expires, a node that is alone writes only what it is asked for.
    """
    deadline = time.monotonic() + COMMAND_SECONDS
    while not all(member["addresses"]["raft"] for member in members_of(node)):
        assert time.monotonic() < deadline, "no address of the node is written down"
        time.sleep(0.02)


def members_of(node: Node) -> Any:
    with urlopen(f"{node.admin_url}/api/v1/cluster", timeout=COMMAND_SECONDS) as answer:
        return json.loads(answer.read())["nodes"]


def kept(target: Path) -> dict[str, int]:
    """The files of a backup. One that is fetched again is another file of the same name."""
    return {path.name: path.stat().st_ino for path in (target / "files").iterdir()}


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
