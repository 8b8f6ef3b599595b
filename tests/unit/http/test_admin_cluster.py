"""The cluster over the admin API: what reaches the node, and what an operator is told."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from fastnode.cluster.control_api import (
    Addresses,
    ClusterStatus,
    GroupStatus,
    NodeStatus,
    Refused,
    SnapshotTaken,
)
from fastnode.errors import Unavailable
from fastnode.http import admin_work
from fastnode.http.admin_cluster import BODY_BYTES_MAX, AdminCluster
from tests.unit.http.admin_setup import AdminSetup

PATH = "/api/v1/cluster"
STATUS = ClusterStatus(
    b"\x01\xff",
    1,
    (NodeStatus(1, Addresses("a:1"), True), NodeStatus(3, Addresses("c:3"), False)),
    (GroupStatus(0, 1, 5, 9, 8, (1, 2, 3), (), {3: 7}),),
)


class Cluster:
    """Notes what it is asked, and fails on demand."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.error: Exception | None = None
        self.hangs = False

    async def _note(self, *asked: object) -> None:
        self.asked.append(asked)
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error

    async def status(self) -> ClusterStatus:
        await self._note("status")
        return STATUS

    async def add(self, node: int, raft: str) -> None:
        await self._note("add", node, raft)

    async def remove(self, node: int) -> None:
        await self._note("remove", node)

    async def transfer(self, group: int | None, to: int) -> Sequence[int]:
        await self._note("transfer", group, to)
        return [1, 2]

    async def snapshot(self, group: int | None) -> Sequence[SnapshotTaken]:
        await self._note("snapshot", group)
        return [SnapshotTaken(0, 9, 5, 1_000)]


class Setup:
    def __init__(self) -> None:
        self.cluster = Cluster()
        answer = AdminCluster(self.cluster).answer
        self.node = AdminSetup(sections={"cluster": answer}).node

    def send(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        kind: str = "application/json",
        more: Sequence[str] = (),
    ) -> tuple[int, str, Any]:
        text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost", f"Content-Type: {kind}"]
        lines += [f"Content-Length: {len(text.encode())}", *more, "", text]

        async def exchange() -> bytes:
            connection, transport = self.node.connect()
            connection.data_received("\r\n".join(lines).encode())
            if others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)
                await asyncio.sleep(0)
            return transport.written

        head, _, answer = asyncio.run(exchange()).partition(b"\r\n\r\n")
        return int(head.split()[1]), head.decode().lower(), json.loads(answer or b"null")


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_status_with_a_verdict(setup: Setup) -> None:
    status, _, answer = setup.send("GET", PATH)
    assert status == 200
    assert (answer["cluster"], answer["node"]) == ("01ff", 1)
    assert answer["verdict"] == "degraded: node 3 unreachable"
    assert [node["id"] for node in answer["nodes"]] == [1, 3]
    assert answer["nodes"][0]["addresses"]["raft"] == "a:1"
    assert answer["groups"][0]["leader"] == 1 and answer["groups"][0]["lag"] == {"3": 7}
    assert setup.send("HEAD", PATH)[2] is None


@pytest.mark.parametrize(
    ("method", "path", "body", "asked", "answer"),
    [
        ("POST", "/members", {"node": 4, "raft": "h:1"}, ("add", 4, "h:1"), {"node": 4}),
        ("DELETE", "/members/4", None, ("remove", 4), {"node": 4}),
        (
            *("POST", "/transfer", {"group": 0, "to": 2}),
            *(("transfer", 0, 2), {"to": 2, "groups": [1, 2], "held_seconds": 600}),
        ),
        (
            *("POST", "/transfer", {"all": True, "to": 2}),
            *(("transfer", None, 2), {"to": 2, "groups": [1, 2], "held_seconds": 600}),
        ),
        (
            *("POST", "/snapshot", {"group": 3}, ("snapshot", 3)),
            {"snapshots": [{"group": 0, "index": 9, "term": 5, "total_bytes": 1_000}]},
        ),
        (
            *("POST", "/snapshot", {"all": True}, ("snapshot", None)),
            {"snapshots": [{"group": 0, "index": 9, "term": 5, "total_bytes": 1_000}]},
        ),
    ],
)
def test_changes_reach_the_node(
    setup: Setup, method: str, path: str, body: object, asked: object, answer: object
) -> None:
    assert setup.send(method, PATH + path, body)[::2] == (200, answer)
    assert setup.cluster.asked == [asked]


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("POST", PATH, {}, 405),
        ("GET", f"{PATH}/members", None, 405),
        ("POST", f"{PATH}/members/4", {}, 405),
        ("GET", f"{PATH}/transfer", None, 405),
        ("GET", f"{PATH}/nothing", None, 404),
        ("DELETE", f"{PATH}/members/123456", None, 404),
        ("DELETE", f"{PATH}/members/x", None, 404),
        ("DELETE", f"{PATH}/members/0", None, 400),
        ("DELETE", f"{PATH}/members/99999", None, 400),
        ("GET", f"{PATH}?x=1", None, 400),
        ("POST", f"{PATH}/members", {"node": 4}, 400),
        ("POST", f"{PATH}/members", {"node": 0, "raft": "h:1"}, 400),
        ("POST", f"{PATH}/members", {"node": 4, "raft": "h"}, 400),
        ("POST", f"{PATH}/members", {"node": "4", "raft": "h:1"}, 400),
        ("POST", f"{PATH}/members", {"node": 4, "raft": "h:1", "x": 1}, 400),
        ("POST", f"{PATH}/members", "no json", 400),
        ("POST", f"{PATH}/members", "", 400),
        ("POST", f"{PATH}/members", " " * BODY_BYTES_MAX + "{}", 400),
        ("POST", f"{PATH}/transfer", {"to": 2}, 400),
        ("POST", f"{PATH}/transfer", {"group": 1}, 400),
        ("POST", f"{PATH}/transfer", {"group": 1, "all": True, "to": 2}, 400),
        ("POST", f"{PATH}/transfer", {"group": -1, "to": 2}, 400),
        ("POST", f"{PATH}/snapshot", {}, 400),
        ("POST", f"{PATH}/snapshot", {"all": False}, 400),
    ],
)
def test_what_cannot_be_meant_reaches_nobody(
    setup: Setup, method: str, target: str, body: object, status: int
) -> None:
    answered, head, answer = setup.send(method, target, body)
    assert answered == status and answer["error"]["message"]
    assert ("\r\nallow: " in head) is (status == 405)
    assert setup.cluster.asked == []


def test_no_web_page_can_change_anything(setup: Setup) -> None:
    body = {"node": 4, "raft": "h:1"}
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert setup.send("POST", f"{PATH}/members", body, kind=kind)[0] == 415
    foreign = ["Origin: http://elsewhere.example"]
    assert setup.send("POST", f"{PATH}/members", body, more=foreign)[0] == 403
    assert setup.send("DELETE", f"{PATH}/members/1", more=foreign)[0] == 403
    assert setup.cluster.asked == []


def test_a_refusal_is_told_with_its_reason(setup: Setup) -> None:
    setup.cluster.error = Refused("node 2 is the last voter: add another first")
    status, _, answer = setup.send("DELETE", f"{PATH}/members/2")
    assert status == 409
    assert answer["error"] == {"code": "refused", "message": str(setup.cluster.error)}


def test_what_may_work_later_says_when(setup: Setup) -> None:
    setup.cluster.error = Unavailable("group 0 has no leader")
    status, head, answer = setup.send("DELETE", f"{PATH}/members/2")
    assert status == 503 and "\r\nretry-after: 1" in head
    assert answer["error"]["message"] == "group 0 has no leader"


def test_nobody_waits_for_ever(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_work, "ANSWER_SECONDS", 0.01)
    setup.cluster.hangs = True
    status, _, answer = setup.send("GET", PATH)
    assert status == 503 and "it may still take effect" in answer["error"]["message"]


def test_a_bug_is_the_nodes_own(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    setup.cluster.error = KeyError("x")
    assert setup.send("GET", PATH)[0] == 500
    assert "bug in the admin API" in caplog.text
