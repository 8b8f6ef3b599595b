"""The access log: what a line says, what it never says, how files follow each other."""

import json
import logging
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from fastnode.errors import StartError
from fastnode.http import access_log
from fastnode.http.access_log import AccessLog, RotatedFile
from fastnode.http.access_row import RowReader
from fastnode.queue.operations import OPERATIONS
from tests.unit.http.http_fakes import FakeTransport, Node, get

URL = "http://localhost:9324/000000000000/"
SECRET = "the body of a letter"


class Scene:
    """A server whose requests wait until the test answers them, with a log before it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_ns = 1_700_000_000_000_000_000
        self.node = Node()
        self.log = AccessLog(
            self.node.server.respond,
            RowReader(OPERATIONS),
            RotatedFile(str(folder)),
            lambda: self.now_ns,
        )
        self.node.server.respond = self.log.respond
        self.connection, self.transport = self.node.connect()

    def post(self, action: str, **members: object) -> None:
        body = json.dumps(members).encode()
        head = (
            f"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.{action}\r\n"
            f"Content-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.connection.data_received(head.encode() + body)

    def query(self, **members: str) -> None:
        body = urlencode(members).encode()
        head = (
            "POST / HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.connection.data_received(head.encode() + body)

    def answer(self, index: int = 0, status: int = 200, after_us: int = 0) -> None:
        self.now_ns += after_us * 1000
        self.node.open[index][1].reply(status, b"", b"answer")

    def text(self) -> str:
        self.log.flush()
        return "".join(path.read_text() for path in sorted(self.folder.iterdir()))

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "log")


def test_a_send_is_a_line_without_its_body(scene: Scene) -> None:
    scene.post(
        "SendMessage",
        QueueUrl=URL + "orders.fifo",
        MessageBody=SECRET + "é",
        MessageGroupId="g",
        MessageDeduplicationId="once",
    )
    assert scene.rows() == []
    scene.answer(after_us=1234)
    assert scene.rows() == [
        {
            "time_us": 1_700_000_000_000_000,
            "duration_us": 1234,
            "action": "SendMessage",
            "queue": "orders.fifo",
            "status": 200,
            "messages": [{"size": len(SECRET) + 2, "group": "g"}],
        }
    ]
    assert SECRET not in scene.text() and "once" not in scene.text()
    assert scene.transport.written.endswith(b"answer")


def test_batches_and_receives_say_what_a_replay_needs(scene: Scene) -> None:
    entries = [
        {"Id": "1", "MessageBody": "abc", "DelaySeconds": 5},
        {"Id": "2", "MessageBody": "de", "MessageGroupId": "acme"},
    ]
    scene.post("SendMessageBatch", QueueUrl=URL + "q", Entries=entries)
    scene.answer(0)
    scene.post("ReceiveMessage", QueueUrl=URL + "q", MaxNumberOfMessages=7, WaitTimeSeconds=3)
    scene.answer(1)
    batch, receive = scene.rows()
    assert batch["messages"] == [{"size": 3, "delay": 5}, {"size": 2, "group": "acme"}]
    assert (receive["max_messages"], receive["wait"]) == (7, 3)
    assert "messages" not in receive and "visibility" not in receive


def test_both_protocols_give_the_same_line(scene: Scene) -> None:
    scene.query(Action="SendMessage", QueueUrl=URL + "q", MessageBody="abc", Version="2012-11-05")
    scene.answer(0)
    scene.post("SendMessage", QueueUrl=URL + "q", MessageBody="abc")
    scene.answer(1)
    assert scene.rows()[0] == scene.rows()[1]


def test_what_cannot_be_read_is_a_line_too(scene: Scene) -> None:
    scene.post("FlyAway", QueueUrl=URL + "q")
    scene.answer(0, 400)
    scene.connection.data_received(get(b"/some/where"))
    scene.answer(1, 404)
    assert [(row["action"], row["queue"], row["status"]) for row in scene.rows()] == [
        ("", "", 400),
        ("", "", 404),
    ]


def test_a_client_that_leaves_is_still_logged_once(scene: Scene) -> None:
    scene.post("ListQueues")
    scene.connection.connection_lost(None)
    scene.answer()
    assert [row["action"] for row in scene.rows()] == ["ListQueues"]


def test_files_are_rotated_and_the_oldest_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_log, "ACCESS_LOG_FILE_BYTES_MAX", 10)
    monkeypatch.setattr(access_log, "ACCESS_LOG_FILES_MAX", 3)
    file = RotatedFile(str(tmp_path))
    for number in range(5):
        file.write(b"line %d\n" % number)
    file.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"access-0000000{number}.jsonl" for number in (3, 4, 5)]
    assert (tmp_path / names[0]).read_bytes() == b"line 2\n"
    again = RotatedFile(str(tmp_path))
    again.write(b"new\n")
    again.close()
    assert (tmp_path / "access-00000006.jsonl").read_bytes() == b"new\n"


def test_two_nodes_share_a_directory_but_no_file(tmp_path: Path) -> None:
    one, two = RotatedFile(str(tmp_path)), RotatedFile(str(tmp_path))
    one.write(b"one\n")
    two.write(b"two\n")
    one.close()
    two.close()
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["one\n", "two\n"]


def test_a_full_disk_costs_lines_and_no_requests(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(file: int, block: bytes) -> int:
        raise OSError(28, "No space left on device")

    for number in range(3):
        scene.post("ListQueues")
        scene.answer(number)
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            if number < 2:
                patch.setattr(os, "write", refuse)
            scene.log.flush()
    assert len(scene.rows()) == 1
    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith("the access log loses lines") and len(said) == 2
    assert said[1].endswith("lines lost=2")


def test_a_place_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match=r"--access-log .*: File exists; choose another place"):
        RotatedFile(str(tmp_path / "file"))


def test_nothing_taps_an_exchange_without_a_log() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get())
    node.answer(0)
    assert isinstance(transport, FakeTransport) and node.open[0][1].connection is connection
