"""Workers and supervisors that die: the rest serves on, or nobody does, and nothing is lost."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.workload import Workload
from tests.integration.worker_kit import (
    WORKERS,
    eventually,
    is_ready,
    names_of,
    owner_of,
    worker_pids,
)
from tests.nodes import JsonClient, Lost, Node, Refused, refused_start

# While a worker is away its sibling answers as always; a busy machine gets some more time.
SIBLING_SECONDS = 60.0


def counted(node: Node, names: list[str]) -> dict[str, int]:
    client = JsonClient(node.sqs_url)
    found: dict[str, int] = {}
    for name in names:
        url = client.call("GetQueueUrl", QueueName=name)["QueueUrl"]
        answer = client.call("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
        found[name] = int(answer["Attributes"]["ApproximateNumberOfMessages"])
    client.close()
    return found


def send_to_all(node: Node, names: list[str]) -> None:
    client = JsonClient(node.sqs_url)
    for name in names:
        url = client.call("CreateQueue", QueueName=name)["QueueUrl"]
        client.call("SendMessage", QueueUrl=url, MessageBody="kept")
    client.close()


def send_somehow(node: Node, name: str) -> None:
    """On new connections, of which some may have been at the worker that has just died."""
    deadline = time.monotonic() + SIBLING_SECONDS
    while True:
        client = JsonClient(node.sqs_url)
        try:
            url = f"{node.sqs_url}/000000000000/{name}"
            client.call("SendMessage", QueueUrl=url, MessageBody="meanwhile")
            return
        except (Lost, Refused):
            assert time.monotonic() < deadline, "the sibling does not serve"
        finally:
            client.close()


def kill_logged(node: Node, pid: int) -> int:
    """Which worker it was, as the log says."""
    os.kill(pid, signal.SIGKILL)
    eventually("it is logged", lambda: f"pid={pid} " in node.stderr_tail())
    line = next(line for line in node.stderr_tail().splitlines() if f"pid={pid} " in line)
    return int(line.partition(" worker=")[2].split()[0])


def test_a_worker_killed_under_load_comes_back_and_nothing_is_lost(tmp_path: Path) -> None:
    bystanders = [names_of(worker, 1, "bystander-{}")[0] for worker in (0, 1)]
    with Node(tmp_path / "data", *WORKERS) as node:
        send_to_all(node, bystanders)
        load = Workload(lambda: [node.sqs_url], "workers")
        load.create_queues()
        load.start()
        try:
            load.await_progress()
            for at in (0, 1):
                killed = kill_logged(node, worker_pids(node)[at])
                (name,) = [one for one in bystanders if owner_of(one) != killed]
                send_somehow(node, name)
                eventually("the worker is back", lambda: is_ready(node))
                load.await_progress()
            load.verify()
        finally:
            load.abandon()
        assert node.stderr_tail().count('end="signal SIGKILL"') == 2
        assert node.stop() == 0, node.stderr_tail()


def test_every_message_is_kept_whatever_the_number_of_workers(tmp_path: Path) -> None:
    names = [name for worker in (0, 1) for name in names_of(worker, 3, "kept-{}")]
    for restarts, workers in enumerate(("1", "2", "1")):
        with Node(tmp_path / "data", "--workers", workers) as node:
            send_to_all(node, names)
            assert set(counted(node, names).values()) == {restarts + 1}
            assert len(worker_pids(node)) == (0 if workers == "1" else int(workers))
            if workers == "2":
                pids = worker_pids(node)
                node.kill()
                eventually("workers end with their supervisor", partial(_are_gone, pids))
            else:
                assert node.stop() == 0, node.stderr_tail()


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (("--workers", "9"), 2, "use --workers 8, or a new data directory"),
        (("--workers", "0"), 2, "must be auto or a whole number from 1 to 256"),
        (("--workers", "2", "--peers", "1=127.0.0.1:1"), 2, "drop --peers and --join"),
        (("--workers", "2", "--partition-map", "x"), 2, "--partition-map"),
    ],
)
def test_a_node_that_cannot_have_workers_says_why(
    tmp_path: Path, arguments: tuple[str, ...], exit_code: int, says: str
) -> None:
    code, line = refused_start(tmp_path / "data", *arguments)
    assert code == exit_code
    assert says in line.splitlines()[-1]
    assert sum(each.startswith("fastnode: ") for each in line.splitlines()) == 1


def test_a_member_of_a_cluster_has_one_worker(tmp_path: Path) -> None:
    peers = "1=127.0.0.1:19,2=127.0.0.1:20"
    member = Node(tmp_path / "member", "--peers", peers, "--raft", "127.0.0.1:0")
    member.launch()
    eventually("the directory is made", (tmp_path / "member" / "STARTED").exists)
    member.kill()
    code, line = refused_start(tmp_path / "member", *WORKERS)
    assert (code, "use --workers 1" in line) == (1, True)


def _are_gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)
