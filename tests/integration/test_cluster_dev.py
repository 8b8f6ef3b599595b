"""`fastnode cluster dev` as somebody uses it who wants to see a cluster lose a node."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from fastnode.__main__ import main
from fastnode.cli.dev_plan import Plan, places
from tests.nodes import boto3_client, environment

START_SECONDS = 120.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.05


def free_ports(nodes: int) -> int:
    """The first of ports that are all free, below those that a system gives to clients: a node that
    is started again must find its own free.
    """
    for base in random.sample(range(20_000, 30_000, 40), 100):
        wanted = [one.port for place in places(Plan(nodes, base)) for one in place[1:]]
        with contextlib.suppress(OSError, OverflowError), contextlib.ExitStack() as sockets:
            for port in wanted:
                sockets.enter_context(socket.create_server(("127.0.0.1", port)))
            return base
    raise AssertionError("no free ports")


def eventually(what: str, condition: Callable[[], Any], seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(POLL_SECONDS)
    return result


class Dev:
    """The command, what it says, and what is typed. Leaving the context kills it."""

    def __init__(self, directory: Path, port: int, *arguments: str) -> None:
        command = [sys.executable, "-m", "fastnode", "cluster", "dev", "--groups", "2"]
        self.process = subprocess.Popen(
            [*command, "--data-dir", str(directory), "--port", str(port), *arguments],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> "Dev":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    def type(self, line: str) -> int:
        """How many lines there were before."""
        assert self.process.stdin is not None
        seen = len(self.lines)
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return seen

    def await_line(
        self, pattern: str, since: int = 0, seconds: float = START_SECONDS
    ) -> re.Match[str]:
        def find() -> re.Match[str] | None:
            found = (re.search(pattern, line) for line in self.lines[since:])
            return next((match for match in found if match), None)

        try:
            match: re.Match[str] = eventually(f"a line with {pattern!r}", find, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{''.join(self.lines)}") from None
        return match

    def await_ready(self) -> None:
        self.await_line(r"^\d nodes are ready", seconds=START_SECONDS)
        self.await_line("Ctrl-C stops all nodes")

    def pids(self) -> list[int]:
        """Of every node that was ever started."""
        found = (re.match(r"cluster \| node \d is process (\d+)", line) for line in self.lines)
        return [int(match[1]) for match in found if match]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(STOP_SECONDS)
        self._reader.join()
        assert self.lines[-1] == "cluster | all nodes have stopped\n", "".join(self.lines)
        assert "cluster | a node did not stop in time and is killed\n" not in self.lines
        return code


def are_gone(pids: list[int]) -> bool:
    """Ended; a zombie that a machine's first process is slow to collect counts as ended."""

    def is_gone(pid: int) -> bool:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return " Z " in Path(f"/proc/{pid}/stat").read_text()
        return True

    return all(map(is_gone, pids))


def tried(call: Callable[[], Any]) -> Callable[[], Any]:
    """What a client that repeats sees: the answer, or that there is none yet."""

    def answer() -> Any:
        with contextlib.suppress(ClientError, BotoCoreError):
            return call()
        return None

    return answer


def test_a_cluster_loses_its_leader_and_comes_back(tmp_path: Path) -> None:
    port = free_ports(3)
    clients = {
        place.node: boto3_client(f"http://{place.sqs}") for place in places(Plan(3, port, 2))
    }
    with Dev(tmp_path / "cluster", port) as dev:
        dev.await_ready()
        create = tried(lambda: clients[2].create_queue(QueueName="orders")["QueueUrl"])
        url = eventually("a queue", create, START_SECONDS)
        send = tried(lambda: clients[2].send_message(QueueUrl=url, MessageBody="before"))
        eventually("a send", send, START_SECONDS)

        led = dev.await_line(r"which node (\d) leads: kill -9 (\d+)", dev.type("leader orders"))
        os.kill(int(led[2]), signal.SIGKILL)
        dev.await_line(rf"cluster \| node {led[1]} has ended by SIGKILL; .* start {led[1]}$")
        (survivor, *_) = (clients[node] for node in clients if node != int(led[1]))
        send = tried(lambda: survivor.send_message(QueueUrl=url, MessageBody="after"))
        eventually("a send through a node that is left", send, START_SECONDS)
        assert {"before", "after"} <= received(survivor, url, 2)

        dev.await_line(rf"^{led[1]} +UNREACHABLE", dev.type("status"))
        dev.await_line(rf"node {led[1]} \| fastnode ready", dev.type(f"start {led[1]}"))
        dev.await_line("^  start N +start node N again", dev.type("help"))
        dev.await_line("type one of: kill N", dev.type("stop"))
        assert dev.stop() == 0
        assert are_gone(dev.pids()) and len(dev.pids()) == 4


def received(client: Any, url: str, count: int) -> set[str]:
    """The bodies of at least so many messages."""
    bodies: set[str] = set()

    def poll() -> bool:
        answer = tried(lambda: client.receive_message(QueueUrl=url, MaxNumberOfMessages=10))()
        bodies.update(message["Body"] for message in (answer or {}).get("Messages", ()))
        return len(bodies) >= count

    eventually(f"{count} messages", poll, START_SECONDS)
    return bodies


def test_it_starts_again_and_leaves_nothing_behind_when_killed(tmp_path: Path) -> None:
    port, directory = free_ports(1), tmp_path / "cluster"
    client = boto3_client(f"http://127.0.0.1:{port}")
    with Dev(directory, port, "--nodes", "1") as dev:
        dev.await_ready()
        url = client.create_queue(QueueName="orders")["QueueUrl"]
        client.send_message(QueueUrl=url, MessageBody="kept")
        assert dev.stop(signal.SIGINT) == 0
        assert are_gone(dev.pids())
    assert (directory / "secret").stat().st_mode & 0o777 == 0o600
    with Dev(directory, port) as dev:
        dev.await_ready()
        assert client.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "kept"
        dev.process.kill()
        dev.process.wait(STOP_SECONDS)
        eventually("all nodes have ended", lambda: are_gone(dev.pids()), STOP_SECONDS)
        assert dev.pids()


def test_a_node_is_started_again_by_itself_if_so_chosen(tmp_path: Path) -> None:
    with Dev(tmp_path / "c", free_ports(1), "--nodes", "1", "--restart-after", "0.1") as dev:
        dev.await_ready()
        seen = dev.type("kill 1")
        dev.await_line("ended by SIGKILL and is started again in 0.1 s", seen)
        dev.await_line(r"node 1 \| fastnode ready", seen)
        assert len(dev.pids()) == 2
        assert dev.stop() == 0 and are_gone(dev.pids())


def test_a_node_that_cannot_start_ends_all(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    with Dev(directory, free_ports(1), "--nodes", "1") as dev:
        dev.await_ready()
        dev.stop()
    (directory / "node1" / "FORMAT").write_text("{")
    with Dev(directory, json.loads((directory / "PLAN").read_text())["port"]) as dev:
        assert dev.process.wait(START_SECONDS) == 1
        dev.await_line(r"^node 1 \| fastnode: .*FORMAT is damaged")
        dev.await_line("^fastnode: node 1 ended at its start: its lines above say why")
        assert are_gone(dev.pids())


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], taken_port: int
) -> None:
    arguments = ["cluster", "dev", "--data-dir", str(tmp_path / "c"), "--port", str(taken_port)]
    assert main([*arguments, "--nodes", "1"]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(
        f"fastnode: 127.0.0.1:{taken_port} is in use: stop what uses it, or"
    )
    assert shown.out == "" and not (tmp_path / "c").exists()


def test_a_directory_that_is_something_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter").write_text("dear")
    port = str(free_ports(3))
    assert main(["cluster", "dev", "--data-dir", str(tmp_path), "--port", port]) == 1
    assert "is not empty and no cluster: name another --data-dir" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


@pytest.mark.parametrize(("field", "value"), [("nodes", "5"), ("groups", "3"), ("port", "80")])
def test_another_plan_than_it_was_begun_with_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str, value: str
) -> None:
    (tmp_path / "PLAN").write_text('{"nodes":3,"port":9324,"groups":8}')
    assert main(["cluster", "dev", "--data-dir", str(tmp_path), f"--{field}", value]) == 2
    assert f"leave --{field} out, or use another --data-dir" in capsys.readouterr().err
