"""`fastnode` as a process: what it prints, how it ends, and that a refusal damages nothing."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).parents[2]
START_SECONDS = 120.0
# The interface promises ten; a loaded machine gets some more before we call it hung.
STOP_SECONDS = 60.0
ANY_PORTS = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--raft", "127.0.0.1:0")
READY = re.compile(r"fastnode ready sqs=(http://\S+:\d+) admin=(http://\S+:\d+)\n")


def environment(**variables: str) -> dict[str, str]:
    """Ours, without settings of the person who runs the tests."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "FASTNODE_PURE" or not name.startswith("FASTNODE_")
    }
    return kept | {"PYTHONPATH": str(ROOT)} | variables


def fastnode(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fastnode", *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )


def refusal(*arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code and the one line."""
    ended = fastnode("run", *ANY_PORTS, *arguments, **variables)
    assert ended.stdout == ""
    assert re.fullmatch(r"fastnode: [^\n]+\n", ended.stderr), ended.stderr
    return ended.returncode, ended.stderr


class Node:
    """A running node and the addresses of its ready line."""

    def __init__(self, process: subprocess.Popen[str], sqs_url: str, admin_url: str) -> None:
        self.process = process
        self.sqs_url = sqs_url
        self.admin_url = admin_url

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(STOP_SECONDS)

    def is_healthy(self) -> bool:
        with urllib.request.urlopen(f"{self.admin_url}/healthz", timeout=60) as response:
            return bool(response.status == 200)


@contextmanager
def running(data_dir: Path, *arguments: str) -> Iterator[Node]:
    log = data_dir.parent / f"{data_dir.name}.stderr"
    command = [sys.executable, "-m", "fastnode", "run", "--data-dir", str(data_dir), *ANY_PORTS]
    with (
        log.open("w+") as errors,
        subprocess.Popen(
            [*command, *arguments],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            line = first_line(process)
            match = READY.fullmatch(line)
            assert match, f"not the ready line: {line!r}, stderr: {log.read_text()}"
            yield Node(process, match[1], match[2])
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    deadline = time.monotonic() + START_SECONDS
    readable: list[IO[str]] = []
    while not readable and time.monotonic() < deadline:
        readable, _, _ = select.select([process.stdout], [], [], 0.5)
    return process.stdout.readline() if readable else ""


def contents(path: Path) -> dict[str, bytes | None]:
    return {
        str(found.relative_to(path)): found.read_bytes() if found.is_file() else None
        for found in sorted(path.rglob("*"))
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_a_node_with_success(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path / "node") as node:
        assert node.is_healthy()
        assert node.stop(number) == 0


def test_ready_line_shows_an_ipv6_address_in_brackets(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with running(tmp_path / "node", "--listen", "[::1]:0") as node:
        assert re.fullmatch(r"http://\[::1\]:[1-9]\d*", node.sqs_url)


@pytest.mark.parametrize("flag", ["--listen", "--admin"])
def test_port_in_use_is_named_and_the_directory_stays_usable(tmp_path: Path, flag: str) -> None:
    data_dir = tmp_path / "node"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        exit_code, line = refusal("--data-dir", str(data_dir), flag, address)
    assert exit_code == 1
    assert address in line
    assert "in use" in line
    with running(data_dir) as node:
        assert node.stop(signal.SIGTERM) == 0


def test_directory_in_use_names_the_holder_who_is_not_disturbed(tmp_path: Path) -> None:
    data_dir = tmp_path / "node"
    with running(data_dir) as node:
        exit_code, line = refusal("--data-dir", str(data_dir))
        assert exit_code == 1
        assert f"{data_dir} is in use by process {node.process.pid}" in line
        assert node.is_healthy()
        assert node.stop(signal.SIGTERM) == 0


def test_killed_node_leaves_no_lock_behind(tmp_path: Path) -> None:
    with running(tmp_path / "node") as node:
        node.process.kill()
        node.process.wait(STOP_SECONDS)
    with running(tmp_path / "node") as node:
        assert node.stop(signal.SIGTERM) == 0


def test_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node"
    path.write_text("mine")
    exit_code, line = refusal("--data-dir", str(path))
    assert (exit_code, path.read_text()) == (1, "mine")
    assert f"{path} is not a directory" in line


def test_path_where_nothing_can_be_made_is_refused() -> None:
    exit_code, line = refusal("--data-dir", "/proc/fastnode")
    assert exit_code == 1
    assert "cannot use the data directory /proc/fastnode" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write where the mode says nobody may")
def test_unwritable_directory_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    exit_code, line = refusal("--data-dir", str(tmp_path))
    tmp_path.chmod(0o700)
    assert exit_code == 1
    assert "Permission denied: make it writable for this user" in line


def test_directory_of_the_future_is_refused_untouched(tmp_path: Path) -> None:
    data_dir = tmp_path / "node"
    with running(data_dir) as node:
        assert node.stop(signal.SIGTERM) == 0
    format_file = data_dir / "FORMAT"
    format_file.write_text(json.dumps(json.loads(format_file.read_text()) | {"format": 99}))
    before = contents(data_dir)
    exit_code, line = refusal("--data-dir", str(data_dir))
    assert exit_code == 1
    assert "written by a newer fastnode (format 99, this one reads up to 2)" in line
    assert contents(data_dir) == before


def test_directory_of_somebody_else_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    exit_code, line = refusal("--data-dir", str(tmp_path))
    assert exit_code == 1
    assert "not a fastnode data directory" in line
    assert contents(tmp_path) == {"thesis.tex": b"years of work"}


def test_recorded_groups_are_kept_and_others_refused(tmp_path: Path) -> None:
    data_dir = tmp_path / "node"
    with running(data_dir, "--groups", "2") as node:
        assert node.stop(signal.SIGTERM) == 0
    exit_code, line = refusal("--data-dir", str(data_dir), "--groups", "3")
    assert exit_code == 2
    assert "has 2 groups, not 3" in line
    with running(data_dir) as node:
        assert node.stop(signal.SIGTERM) == 0


def test_misspelt_flag_names_the_nearest(tmp_path: Path) -> None:
    exit_code, line = refusal("--data-dri", str(tmp_path / "node"))
    assert (exit_code, line) == (
        2,
        "fastnode: unknown flag --data-dri; did you mean --data-dir?\n",
    )


def test_misspelt_variable_names_the_nearest() -> None:
    exit_code, line = refusal(FASTNODE_LISTN="127.0.0.1:0")
    assert exit_code == 2
    assert "unknown environment variable FASTNODE_LISTN; did you mean FASTNODE_LISTEN?" in line


def test_misspelt_key_names_the_nearest_and_makes_no_directory(tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text("grups = 4\n")
    exit_code, line = refusal("--config", str(config), "--data-dir", str(tmp_path / "node"))
    assert exit_code == 2
    assert f"unknown key grups in {config}; did you mean groups?" in line
    assert not (tmp_path / "node").exists()


def test_queues_of_the_file_exist_once_the_node_is_ready(tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text("[queues.jobs]\nVisibilityTimeout = 45\n")
    for _ in range(2):
        with running(tmp_path / "node", "--config", str(config)) as node:
            url = f"{node.sqs_url}/000000000000/jobs"
            answer = call(node, "GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
            assert answer["Attributes"]["VisibilityTimeout"] == "45"
            assert node.stop(signal.SIGTERM) == 0


def call(node: Node, action: str, **members: object) -> dict[str, dict[str, str]]:
    request = urllib.request.Request(
        node.sqs_url,
        data=json.dumps(members).encode(),
        headers={
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"AmazonSQS.{action}",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, dict[str, str]] = json.load(response)
        return answer


def test_wrong_queue_in_the_file_is_a_configuration_error(tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text("[queues.jobs]\nVisibilityTimeout = 99999\n")
    exit_code, line = refusal("--config", str(config), "--data-dir", str(tmp_path / "node"))
    assert exit_code == 2
    assert "jobs" in line


def test_version_does_not_load_what_it_does_not_need() -> None:
    script = (
        "import sys; from fastnode.__main__ import main; main(['version']); "
        "print(sorted({'asyncio', 'uvloop', 'rocksdict', 'argparse'} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=True,
    )
    assert ended.stdout.splitlines()[-1] == "[]"


def test_no_command_is_a_usage_error() -> None:
    ended = fastnode()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("usage: fastnode COMMAND")
