"""`fastnode cluster`: what is asked of a node, what is shown, and what an operator is told."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from fastnode.__main__ import main
from fastnode.cli.cluster import ACTIONS

NODES = [
    {
        "id": 1,
        "reachable": True,
        "version": "0.1.0",
        "capabilities": ["htfifo"],
        "clock_offset_ms": None,
        "addresses": {"raft": "10.0.0.1:9326", "sqs": "http://10.0.0.1:9324", "admin": ""},
    },
    {"id": 3, "reachable": False, "clock_offset_ms": -12, "something": "newer"},
]
GROUPS = [
    {
        **{"group": 0, "leader": 1, "term": 7, "commit": 1_201, "applied": 1_200},
        **{"voters": [1, 3], "learners": [4], "lag": {"3": 118, "4": 0}},
    },
    {"group": 11, "leader": 0, "term": 7, "commit": 5, "applied": 5, "voters": [1, 3]},
]
STATUS = {"cluster": "5e0c", "node": 1, "verdict": "down: …", "nodes": NODES, "groups": GROUPS}


class Asked(HTTPServer):
    """An admin listener that notes what it is asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[str, str, Any]] = []
        self.status = 200
        self.answer: Any = STATUS

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Asked

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        assert self.headers["Content-Type"] == "application/json"
        self.server.requests.append((self.command, self.path, json.loads(body or b"null")))
        text = json.dumps(self.server.answer).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


for method in ("GET", "POST", "DELETE"):
    setattr(_Handler, f"do_{method}", _Handler._answer)


@pytest.fixture
def node() -> Iterator[Asked]:
    with Asked() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def command(node: Asked, *arguments: str) -> int:
    return main(["cluster", *arguments, "--admin", node.address])


def test_status_is_a_page_to_read(node: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(node, "status") == 0
    assert node.requests == [("GET", "/api/v1/cluster", None)]
    assert capsys.readouterr().out == (
        "down: …\n"
        "cluster 5e0c, seen from node 1\n"
        "\n"
        "NODE  STATE        LEADS  CLOCK   VERSION  CAPABILITIES  RAFT           SQS\n"
        "1     asked        1      -       0.1.0    htfifo        10.0.0.1:9326  "
        "http://10.0.0.1:9324\n"
        "3     UNREACHABLE  0      -12 ms  -        -             -              -\n"
        "\n"
        "GROUP  LEADER  TERM  COMMIT  APPLIED  VOTERS  LEARNERS  ENTRIES BEHIND\n"
        "0      1       7     1201    1200     1,3     4         node 3: 118\n"
        "11     NOBODY  7     5       5        1,3     -         -\n"
        "\n"
        "node 3: start it again; if its data is lost, 'fastnode cluster remove 3' and add a new"
        " node under an id that was never used\n"
        "a group without a leader: more than half of its voters must be up\n"
    )


def test_status_for_scripts(node: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(node, "status", "--json") == 0
    assert json.loads(capsys.readouterr().out) == STATUS


@pytest.mark.parametrize(
    ("arguments", "request_", "answer", "shown"),
    [
        (
            ["add", "4", "10.0.0.4:9326"],
            ("POST", "/api/v1/cluster/members", {"node": 4, "raft": "10.0.0.4:9326"}),
            {"node": 4},
            "node 4 is a learner",
        ),
        (
            ["remove", "4"],
            ("DELETE", "/api/v1/cluster/members/4", None),
            {"node": 4},
            "node 4 is no longer a member",
        ),
        (
            ["transfer", "--to", "2"],
            ("POST", "/api/v1/cluster/transfer", {"all": True, "to": 2}),
            {"to": 2, "groups": [0, 3], "held_seconds": 600},
            "node 2 now leads groups 0, 3 too; it keeps that for 10 minutes, unless",
        ),
        (
            ["transfer", "--to", "2", "--group", "3"],
            ("POST", "/api/v1/cluster/transfer", {"group": 3, "to": 2}),
            {"to": 2, "groups": [], "held_seconds": 600},
            "node 2 now leads what it led before; it keeps that for 10 minutes, unless",
        ),
        (
            ["snapshot"],
            ("POST", "/api/v1/cluster/snapshot", {"all": True}),
            {"snapshots": [{"group": 0, "index": 9, "term": 5, "total_bytes": 1_234}]},
            "group 0: snapshot at index 9, term 5, 1,234 bytes",
        ),
        (
            ["snapshot", "--group", "0"],
            ("POST", "/api/v1/cluster/snapshot", {"group": 0}),
            {"snapshots": []},
            "",
        ),
    ],
)
def test_changes(
    node: Asked,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    request_: object,
    answer: object,
    shown: str,
) -> None:
    node.answer = answer
    assert command(node, *arguments) == 0
    assert node.requests == [request_]
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "answer", "line"),
    [
        (
            409,
            {"error": {"code": "refused", "message": "node 2 is the last voter: add another"}},
            "node 2 is the last voter: add another",
        ),
        (
            503,
            {"error": {"code": "unavailable", "message": "group 0 has no leader"}},
            "group 0 has no leader: try again, or ask another member with --admin",
        ),
        (404, {"error": {"code": "not_found", "message": "nothing"}}, "is its version older"),
        (404, "not found", "is it the admin address of a fastnode?"),
        (200, {"nodes": 3}, "is of another version"),
    ],
)
def test_errors_say_what_to_do_next(
    node: Asked, capsys: pytest.CaptureFixture[str], status: int, answer: object, line: str
) -> None:
    node.status, node.answer = status, answer
    assert command(node, "status") == 1
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("fastnode: ") and line in shown.err


def test_a_node_that_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    with Asked() as server:
        address = server.address
    assert main(["cluster", "status", "--admin", address]) == 3
    assert capsys.readouterr().err == (
        f"fastnode: no answer from {address}: Connection refused:"
        " start the node with 'fastnode run', or name another with --admin\n"
    )


def test_the_url_of_the_ready_line_will_do(node: Asked) -> None:
    assert main(["cluster", "status", "--admin", f"http://{node.address}"]) == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["stauts"], "unknown command cluster 'stauts'; did you mean status?"),
        (["remove"], "the following arguments are required: NODE"),
        (["remove", "x"], "NODE: must be a whole number, not 'x'"),
        (["remove", "1", "2"], "unknown argument '2'; see fastnode cluster remove --help"),
        (["transfer"], "the following arguments are required: --to"),
        (["status", "--admin", "nowhere"], "--admin must be HOST:PORT, not 'nowhere'"),
        (["status", "--admin", "h:x"], "--admin must be HOST:PORT or http://HOST:PORT, not 'h:x'"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    assert main(["cluster", *arguments]) == 2
    assert capsys.readouterr().err == f"fastnode: {line}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in ACTIONS)
    assert main(["cluster"]) == 2
    assert capsys.readouterr().err == shown
