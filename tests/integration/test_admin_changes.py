"""The admin API of a real node with workers and tokens: changes reach the worker of their queue,
and what all of them know is added up.
"""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fastnode.__main__ import main
from tests.integration.worker_kit import names_of
from tests.nodes import JsonClient, Node, refused_start

FULL, READ_ONLY = "a-token-that-may-do-all", "a-token-that-may-look"
TOKENS = {
    "tokens": [
        {"name": "ops", "token": FULL, "role": "full"},
        {"name": "wall", "token": READ_ONLY, "role": "read-only"},
    ]
}
QUEUES = "/api/v1/queues/000000000000/us-east-1"


def tokens_file(folder: Path) -> Path:
    path = folder / "tokens.json"
    path.write_text(json.dumps(TOKENS))
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder: Path = tmp_path_factory.mktemp("changes")
    tokens = tokens_file(folder)
    with Node(folder / "data", "--workers", "2", "--admin-tokens", str(tokens)) as node:
        yield node
        assert node.stop() == 0


def ask(
    node: Node, method: str, target: str, body: object = None, token: str = FULL
) -> tuple[int, Any]:
    address = urlsplit(node.admin_url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, target, content, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_queues_of_all_workers_are_changed_and_counted(node: Node) -> None:
    names = sorted(names_of(0, 1) + names_of(1, 1))
    for name in names:
        assert ask(node, "POST", "/api/v1/queues", {"name": name})[0] == 200
        assert ask(node, "POST", f"{QUEUES}/{name}/messages", {"body": f"to {name}"})[0] == 200
        change = {"attributes": {"VisibilityTimeout": "5"}}
        _, changed = ask(node, "PATCH", f"{QUEUES}/{name}", change)
        assert changed["attributes"]["VisibilityTimeout"] == "5"
        _, history = ask(node, "GET", f"{QUEUES}/{name}/history")
        assert history["interval_seconds"] == 10
    _, listed = ask(node, "GET", "/api/v1/queues?details=true")
    assert [queue["name"] for queue in listed["queues"]] == names
    assert [queue["messages"]["visible"] for queue in listed["queues"]] == [1, 1]
    client = JsonClient(node.sqs_url)
    for name in names:
        got = client.call("ReceiveMessage", QueueUrl=f"http://localhost/000000000000/{name}")
        assert got["Messages"][0]["Body"] == f"to {name}"
    client.close()
    _, overview = ask(node, "GET", "/api/v1/overview")
    assert set(overview["history"]["passed"]) == {"sent", "received", "removed"}
    for name in names:
        assert ask(node, "DELETE", f"{QUEUES}/{name}?confirm={name}")[0] == 200
    assert ask(node, "GET", "/api/v1/queues")[1] == {"queues": []}


def test_who_shows_no_token_or_a_lesser_one_is_refused(node: Node) -> None:
    assert ask(node, "GET", "/api/v1/queues", token="")[0] == 401
    assert ask(node, "GET", "/api/v1/queues", token="x" * 30)[0] == 401
    assert ask(node, "GET", "/api/v1/queues", token=READ_ONLY)[0] == 200
    assert ask(node, "POST", "/api/v1/queues", {"name": "q"}, token=READ_ONLY)[0] == 403
    assert ask(node, "POST", "/api/v1/cluster/snapshot", {"all": True}, READ_ONLY)[0] == 403
    assert ask(node, "GET", "/api/v1/queues")[1] == {"queues": []}


def test_commands_show_the_token_of_their_environment(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(node, "POST", "/api/v1/queues", {"name": "seen"})
    at = ["--admin", node.admin_url]
    status = ["cluster", "status", *at]
    peek = ["queue", "peek", "seen", *at, "--endpoint", node.sqs_url, "--json"]
    for command in (status, peek):
        assert main(command) == 1
        assert "set FASTNODE_ADMIN_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("FASTNODE_ADMIN_TOKEN", FULL)
    assert main(status) == 0
    assert "healthy" in capsys.readouterr().out
    assert main(peek) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_the_admin_listener_leaves_loopback_with_tokens_only(tmp_path: Path) -> None:
    code, text = refused_start(tmp_path / "data", "--admin", "0.0.0.0:0")
    assert code == 2 and "or give --admin-tokens" in text
    tokens = tokens_file(tmp_path)
    tokens.chmod(0o644)
    flags = ("--admin", "0.0.0.0:0", "--admin-tokens", str(tokens))
    code, text = refused_start(tmp_path / "data", *flags)
    assert code == 1 and "chmod 600" in text and FULL not in text
