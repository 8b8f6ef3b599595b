"""A node of two workers, and what its tests look at it with."""

import json
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from hashlib import md5
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastnode import native
from tests.nodes import AUTHORIZATION, REGION, Node

WORKERS = ("--workers", "2")
GROUPS = 8
WAIT_SECONDS = 120.0


def worker_pids(node: Node) -> list[int]:
    """Of the workers that run now, in the order of their start."""
    pid = node.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def owner_of(queue: str) -> int:
    """The worker whose group the queue is in."""
    segment = native.queue_segment("000000000000", REGION, queue)
    return native.home_group(segment, GROUPS) % 2


def names_of(worker: int, count: int, form: str = "queue-{}") -> list[str]:
    """Names of queues that belong to the worker."""
    names = (form.format(number) for number in range(10_000))
    of_worker = (name for name in names if owner_of(name) == worker)
    return [next(of_worker) for _ in range(count)]


def admin(node: Node, path: str) -> str:
    with urllib.request.urlopen(node.admin_url + path, timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def metric(node: Node, name: str) -> float:
    for line in admin(node, "/metrics").splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name}")


def eventually(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)


def is_ready(node: Node) -> bool:
    try:
        return admin(node, "/readyz") == "ready\n"
    except OSError:
        return False


class RawClient:
    """Requests as bytes on one connection, many before the first answer."""

    def __init__(self, node: Node) -> None:
        address = urlsplit(node.sqs_url)
        assert address.hostname is not None and address.port is not None
        self._host = f"{address.hostname}:{address.port}"
        self._socket = socket.create_connection((address.hostname, address.port), 60)
        self._file = self._socket.makefile("rb")

    def send_request(self, queue: str, body: str) -> bytes:
        url = f"http://{self._host}/000000000000/{queue}"
        content = json.dumps({"QueueUrl": url, "MessageBody": body}).encode()
        head = (
            f"POST / HTTP/1.1\r\nHost: {self._host}\r\n"
            "Content-Type: application/x-amz-json-1.0\r\n"
            "X-Amz-Target: AmazonSQS.SendMessage\r\n"
            f"Authorization: {AUTHORIZATION}\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content

    def write(self, data: bytes, piece_bytes: int) -> None:
        for at in range(0, len(data), piece_bytes):
            self._socket.sendall(data[at : at + piece_bytes])

    def answers(self, count: int) -> Iterator[dict[str, Any]]:
        for _ in range(count):
            status, length = self._file.readline(), 0
            while (header := self._file.readline().lower()) != b"\r\n":
                if header.startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
            content = self._file.read(length)
            assert status.startswith(b"HTTP/1.1 200 "), (status, content)
            yield json.loads(content)

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def md5_of(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()
