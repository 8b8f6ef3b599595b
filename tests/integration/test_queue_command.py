"""`fastnode queue` against a node that looks at signatures: what it does, shows, and says when it
cannot.
"""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastnode.__main__ import main
from fastnode.cli.completion import suggest
from tests.conformance.signing import credentials_file
from tests.nodes import Node

Fastnode = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("queue-command")
    with Node(folder / "node", "--credentials", str(credentials_file(folder))) as running:
        yield running


@pytest.fixture
def fastnode(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Fastnode:
    """Runs the program against the node; its exit code, stdout and stderr."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FASTNODE_LISTEN", node.sqs_url.removeprefix("http://"))
    monkeypatch.setenv("FASTNODE_ADMIN", node.admin_url.removeprefix("http://"))
    monkeypatch.setenv("FASTNODE_CREDENTIALS", str(node.data_dir.parent / "credentials.json"))

    def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = main(list(arguments))
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def answer(ended: tuple[int, str, str]) -> Any:
    code, out, err = ended
    assert (code, err) == (0, ""), err
    return json.loads(out)


def test_the_life_of_a_queue(fastnode: Fastnode) -> None:
    assert fastnode("queue", "create", "dead")[0] == 0
    created = fastnode("queue", "create", "orders", "--dlq", "dead", "--tag", "team=blue")
    assert created[1].endswith("/000000000000/orders\n")
    shown = answer(fastnode("queue", "show", "orders", "--json"))
    assert json.loads(shown["attributes"]["RedrivePolicy"])["maxReceiveCount"] == 5
    assert shown["tags"] == {"team": "blue"}
    assert answer(fastnode("queue", "show", "dead", "--json"))["dead_letter_sources"] == ["orders"]
    sent = answer(fastnode("queue", "send", "orders", "-", "--json", stdin="two\nlines"))
    (seen,) = answer(fastnode("queue", "peek", "orders", "--json"))
    assert (seen["message_id"], seen["body"]) == (sent["MessageId"], "two\nlines")
    lines = "".join(f"line {number}\n" for number in range(23))
    assert answer(fastnode("queue", "send", "dead", "--lines", "--json", stdin=lines)) == {
        "sent": 23
    }
    moved = answer(fastnode("queue", "redrive", "dead", "--to", "orders", "--json"))
    assert moved == {"moved": 23, "status": "COMPLETED"}
    assert fastnode("queue", "ls", "ord")[1] == (
        "QUEUE   VISIBLE  IN FLIGHT  DELAYED\norders       24          0        0\n"
    )
    assert suggest(["queue", "show", "or"]) == ["orders"]
    assert fastnode("queue", "purge", "orders", "--yes")[:2] == (0, "purged orders\n")
    looks = fastnode("queue", "watch", "orders", "--count", "1", "--json")[1]
    assert json.loads(looks)["queues"][0]["visible"] == 0
    for name in ("orders", "dead"):
        assert fastnode("queue", "rm", name, "--yes")[0] == 0
    assert fastnode("queue", "ls")[1] == "no queues\n"


def test_a_body_cannot_steer_the_terminal(fastnode: Fastnode) -> None:
    fastnode("queue", "create", "hostile")
    fastnode("queue", "send", "hostile", "\x9b2J\u202e<script>\r\n" + "x" * 80)
    _, out, _ = fastnode("queue", "peek", "hostile")
    assert "\\x9b2J\\u202e<script>\\r\\nxxx" in out and out.endswith("…\n")
    _, whole, _ = fastnode("queue", "peek", "hostile", "--full")
    assert whole.endswith("\n\\x9b2J\\u202e<script>\\r\n" + "x" * 80 + "\n")
    fastnode("queue", "rm", "hostile", "--yes")


def test_nothing_is_deleted_unasked(fastnode: Fastnode) -> None:
    fastnode("queue", "create", "kept")
    fastnode("queue", "send", "kept", "one")
    for action in ("purge", "rm"):
        code, out, err = fastnode("queue", action, "kept")
        assert (code, out) == (2, "") and "1 messages? Add --yes" in err
    assert len(answer(fastnode("queue", "peek", "kept", "--json"))) == 1
    fastnode("queue", "rm", "kept", "--yes")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["show", "ordrs"], 4, "no queue 'ordrs', did you mean 'orders2'?"),
        (["show", "zzzzzz"], 4, "no queue 'zzzzzz'; 'fastnode queue ls' shows those that exist"),
        (["sned", "x"], 2, "unknown command queue 'sned'; did you mean send?"),
        (["ls", "--jsno"], 2, "unknown flag --jsno; did you mean --json?"),
        (["send", "orders2"], 2, "give a BODY, - for all of stdin, or --lines"),
        (["send", "orders2", "x", "--delay", "1e3"], 2, "--delay: must be a whole number"),
        (["send", "orders2", "x", "--attribute", "=v"], 2, "must be NAME=VALUE, not '=v'"),
        (["send", "orders2", "x", "--delay", "901"], 1, "DelaySeconds"),
        (["send", "orders2", "x", "--lines"], 2, "give a BODY"),
        (["create", "bad name"], 1, "alphanumeric"),
        (["create", "q", "--max-receives", "3"], 2, "--max-receives is for --dlq"),
        (["create", "q", "--attribute", "VisibilityTimeot=1"], 1, "VisibilityTimeot"),
        (["peek", "orders2", "--state", "lost"], 2, "--state: invalid choice: 'lost'"),
        (["peek", "orders2", "--limit", "0"], 2, "--limit must be from 1 to 10000"),
        (["watch", "--interval", "0"], 2, "--interval must be at least 1 second"),
        (["redrive", "orders2", "--cancel"], 1, "no redrive of orders2 runs"),
        (["ls", "--endpoint", "127.0.0.1:1"], 3, "start the node with 'fastnode run'"),
        (["ls", "--endpoint", "ftp://x:1"], 2, "--endpoint must be HOST:PORT"),
        (["ls", "--region", "US"], 2, "--region must be lower-case"),
        (["ls", "--credentials", "/nowhere"], 1, "cannot read the credentials file /nowhere"),
        (["ls", "--config", "/nowhere"], 2, "cannot read the configuration file /nowhere"),
    ],
)
def test_an_error_is_one_line_that_helps(
    fastnode: Fastnode, arguments: list[str], code: int, line: str
) -> None:
    fastnode("queue", "create", "orders2")
    ended, out, err = fastnode("queue", *arguments)
    assert (ended, out) == (code, "")
    assert err.startswith("fastnode: ") and err.count("\n") == 1 and line in err


def test_a_wrong_secret_is_refused(fastnode: Fastnode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOWNER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret of nobody")
    code, _, err = fastnode("queue", "ls")
    assert code == 1 and "signature" in err.lower() and "nobody" not in err


def test_the_other_listener_is_recognised(fastnode: Fastnode, node: Node) -> None:
    code, _, err = fastnode("queue", "ls", "--endpoint", node.admin_url)
    assert code == 1 and "is it the --listen address of a fastnode?" in err


def test_doctor_knows_the_running_node(fastnode: Fastnode, node: Node, tmp_path: Path) -> None:
    rows = answer(fastnode("doctor", "--json", "--data-dir", str(tmp_path / "new")))
    by_name = {row["check"]: row for row in rows}
    assert by_name["node"]["seen"].endswith("healthy")
    assert by_name["credentials"]["seen"].startswith("2 keys")
    assert not list(tmp_path.iterdir())
