"""Real nodes for tests: start, stop and kill a `fastnode run`, and clients to talk to it.

Every node has a data directory and ports of its own; every wait has a deadline. What a node wrote
to stderr is kept beside its data directory and quoted when something goes wrong.
"""

import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import boto3
from botocore.config import Config

ROOT = Path(__file__).parents[1]
REGION = "us-east-1"
START_SECONDS = 120.0
# The interface promises ten seconds; a loaded machine gets some more before we call it hung.
STOP_SECONDS = 60.0
# Longer than a node takes to give a request up.
ANSWER_SECONDS = 40.0
READY = re.compile(r"fastnode ready sqs=(https?://\S+:\d+) admin=(https?://\S+:\d+)\n")
AUTHORIZATION = (
    f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/sqs/aws4_request, "
    "SignedHeaders=host, Signature=0"
)


class Node:
    """One node on one data directory. Leaving the context kills what is still running."""

    def __init__(self, data_dir: Path, *arguments: str) -> None:
        self.data_dir = data_dir
        self.sqs_url = ""
        self.admin_url = ""
        # Settings by variables, for the starts to come.
        self.more_environment: dict[str, str] = {}
        self._arguments = arguments
        self._stderr_path = data_dir.parent / f"{data_dir.name}.stderr"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Node":
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the node is not running"
        return self._process

    def command(self) -> list[str]:
        return node_command(self.data_dir, *self._arguments)

    def variables(self) -> dict[str, str]:
        return environment() | self.more_environment

    def launch(self) -> None:
        """Begin to start; returns at once."""
        assert self._process is None, "the node is running"
        with self._stderr_path.open("ab") as stderr:
            self._process = subprocess.Popen(
                self.command(),
                env=self.variables(),
                cwd=self.data_dir.parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )

    def start(self) -> None:
        """Start, and return when the ready line has been printed."""
        self.launch()
        line = self._read_line(time.monotonic() + START_SECONDS)
        match = READY.fullmatch(line)
        if match is None:
            self.kill()
            raise AssertionError(f"no ready line but {line!r}\n{self.stderr_tail()}")
        self.sqs_url, self.admin_url = match[1], match[2]

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.await_end()

    def await_end(self) -> int:
        """Of a node that was told to stop; the exit code."""
        try:
            return self._reap(STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise AssertionError(f"still running\n{self.stderr_tail()}") from error

    def kill(self) -> None:
        """SIGKILL: no handler runs, nothing is flushed."""
        self.process.kill()
        self._reap(STOP_SECONDS)

    def stderr_tail(self) -> str:
        return self._stderr_path.read_text(errors="replace")[-4_000:]

    def _reap(self, seconds: float) -> int:
        code = self.process.wait(seconds)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._process = None
        return code

    def _read_line(self, deadline: float) -> str:
        assert self.process.stdout is not None
        descriptor, line = self.process.stdout.fileno(), b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                break
            part = os.read(descriptor, 4_096)
            if not part:
                break
            line += part
        return line.decode()


def long_polls(node: Node) -> int:
    """Receives that wait at the node for a message."""
    with urlopen(f"{node.admin_url}/metrics", timeout=ANSWER_SECONDS) as page:
        found = re.search(r"^fastnode_long_polls_waiting (\d+)", page.read().decode(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def await_long_polls(node: Node, count: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while (waiting := long_polls(node)) != count:
        assert time.monotonic() < deadline, f"{waiting} receives wait, not {count}"
        time.sleep(0.02)


def node_command(data_dir: Path, *arguments: str) -> list[str]:
    ports = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--raft", "127.0.0.1:0"]
    base = [sys.executable, "-m", "fastnode", "run", "--data-dir", str(data_dir)]
    return [*base, *ports, *arguments]


def environment() -> dict[str, str]:
    """Ours, without the settings of the person who runs the tests."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "FASTNODE_PURE" or not name.startswith("FASTNODE_")
    }
    return kept | {"PYTHONPATH": str(ROOT)}


def refused_start(data_dir: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and stderr of a node that must not come up."""
    ended = subprocess.run(
        node_command(data_dir, *arguments),
        env=environment(),
        cwd=data_dir.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert ended.stdout == b"", ended.stdout
    return ended.returncode, ended.stderr.decode(errors="replace")


def boto3_client(url: str, *, attempts: int = 1) -> Any:
    """An SQS client with dummy credentials that repeats nothing unless asked."""
    return boto3.client(
        "sqs",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(
            retries={"total_max_attempts": attempts},
            connect_timeout=ANSWER_SECONDS,
            read_timeout=ANSWER_SECONDS,
        ),
    )


class Lost(Exception):
    """The connection ended before the answer: whether the call took effect is unknown."""


class Refused(Exception):
    """The node answered, and not with 200."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.body = body


class JsonClient:
    """The JSON protocol on one connection, without an SDK's cost and retries. Not thread-safe."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        assert address.hostname is not None
        self._connection = http.client.HTTPConnection(
            address.hostname, address.port, timeout=ANSWER_SECONDS
        )

    def call(self, action: str, **members: object) -> dict[str, Any]:
        try:
            status, body = self._exchange(action, json.dumps(members).encode())
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Lost(action) from error
        if status != 200:
            raise Refused(status, body.decode(errors="replace"))
        answer: dict[str, Any] = json.loads(body) if body else {}
        return answer

    def close(self) -> None:
        self._connection.close()

    def _exchange(self, action: str, body: bytes) -> tuple[int, bytes]:
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"AmazonSQS.{action}",
            "Authorization": AUTHORIZATION,
        }
        self._connection.request("POST", "/", body, headers)
        response = self._connection.getresponse()
        return response.status, response.read()
