"""The measuring tools still work: real load on real servers for fractions of a second.

Speed is not judged here, only that counts add up and that the table comes out whole.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from bench import load, machine, node_load, profile_node, server_process, sqs_requests
from bench.load import Load, LoadError
from bench.server_process import Server

MEMORY = Path("/dev/shm")
TINY = node_load.Plan(rounds=1, slice_seconds=0.1, warmup_seconds=0.05, idle_seconds=0.05, starts=1)


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    load.build()


@pytest.fixture(scope="module")
def echo() -> Iterator[Server]:
    with server_process.echo_server(core=None) as server:
        yield server


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Server]:
    with server_process.verifying_node(tmp_path / "data", core=None) as server:
        yield server


def signer(server: Server) -> sqs_requests.Signer:
    return sqs_requests.Signer(host=server.address, signed_at=datetime.now(UTC))


@pytest.fixture
def sends(echo: Server, tmp_path: Path) -> Path:
    file = tmp_path / "sends.http"
    url = f"http://{echo.address}/000000000000/bench"
    file.write_bytes(sqs_requests.sends(signer(echo), url, count=3))
    return file


@pytest.mark.parametrize("depth", [1, 4])
def test_a_count_of_requests_is_sent_and_answered_exactly(
    echo: Server, sends: Path, depth: int
) -> None:
    bounds = Load(echo.address, seconds=10, cycles=[(7, sends)], count=1000, depth=depth)
    outcome = load.run(bounds)
    outcome.check()
    assert outcome.sent == outcome.answered == outcome.step.measured == 1000
    assert outcome.step.statuses == {200: 1000}
    assert 0 < outcome.step.p50_us <= outcome.step.p99_us <= outcome.step.max_us


def test_a_timed_run_measures_its_window_and_the_processes_it_watches(
    echo: Server, sends: Path
) -> None:
    watched = echo.process_ids()
    bounds = Load(echo.address, 1.0, cycles=[(4, sends)], warmup=1.0, watched=watched)
    outcome = load.run(bounds)
    outcome.check()
    assert 1.0 <= outcome.elapsed_s
    assert 0 < outcome.step.measured < outcome.answered == outcome.sent
    assert 0 < outcome.watched_cpu_s
    assert 0 < outcome.client_cpu_s <= outcome.elapsed_s


def test_groups_of_connections_are_counted_apart(echo: Server, sends: Path) -> None:
    outcome = load.run(Load(echo.address, 10, cycles=[(1, sends), (2, sends)], count=30))
    counts = [group.steps[0].measured for group in outcome.groups]
    assert [group.connections for group in outcome.groups] == [1, 2]
    assert min(counts) > 0
    assert sum(counts) == 30


@pytest.mark.parametrize("target", ["192.0.2.1:80", "0.0.0.0:80", "[::]:80", "localhost:80"])
def test_targets_other_than_numeric_loopback_are_refused(target: str, sends: Path) -> None:
    with pytest.raises(LoadError, match=r"loopback|numeric"):
        load.run(Load(target, 0.1, cycles=[(1, sends)]))


def test_a_server_that_hangs_up_is_reported_as_lost_connections(
    echo: Server, tmp_path: Path
) -> None:
    file = tmp_path / "broken.http"
    file.write_bytes(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n{")
    outcome = load.run(Load(echo.address, 5, cycles=[(3, file)]))
    assert (outcome.sent, outcome.answered, outcome.connections_lost) == (3, 0, 3)
    with pytest.raises(LoadError, match="3 unanswered, 3 connections lost"):
        outcome.check()


def test_a_consumer_receives_and_deletes_what_was_sent(node: Server, tmp_path: Path) -> None:
    single, _ = node_load.write_requests(node, tmp_path)
    load.run(Load(node.address, 20, cycles=[(4, single)], count=95)).check()
    script = tmp_path / "consumer.http"
    url = f"http://{node.address}/000000000000/bench"
    script.write_bytes(sqs_requests.consumer_script(signer(node), url))
    outcome = load.run(Load(node.address, 20, consumers=[(2, script)], stop_empty=3))
    outcome.check()
    (group,) = outcome.groups
    assert group.messages_received == group.messages_deleted == 95
    assert [step.name for step in group.steps] == ["receive", "delete"]


def test_a_consumer_that_runs_out_of_requests_still_deletes_what_it_holds(
    node: Server, tmp_path: Path
) -> None:
    single, _ = node_load.write_requests(node, tmp_path)
    load.run(Load(node.address, 20, cycles=[(4, single)], count=95)).check()
    script = tmp_path / "consumer.http"
    url = f"http://{node.address}/000000000000/bench"
    script.write_bytes(sqs_requests.consumer_script(signer(node), url))
    outcome = load.run(Load(node.address, 20, consumers=[(3, script)], count=3))
    (group,) = outcome.groups
    assert group.messages_received == group.messages_deleted >= 3


def test_a_request_that_was_changed_after_it_was_signed_is_refused(
    node: Server, tmp_path: Path
) -> None:
    single, _ = node_load.write_requests(node, tmp_path)
    single.write_bytes(single.read_bytes().replace(b"message 0", b"message 1"))
    outcome = load.run(Load(node.address, 20, cycles=[(1, single)], count=1))
    with pytest.raises(LoadError, match="InvalidSignature"):
        outcome.check()


def test_an_answer_other_than_200_is_reported(node: Server, tmp_path: Path) -> None:
    file = tmp_path / "absent.http"
    url = f"http://{node.address}/000000000000/absent"
    file.write_bytes(sqs_requests.sends(signer(node), url, count=1))
    outcome = load.run(Load(node.address, 20, cycles=[(1, file)], count=2))
    assert outcome.step.statuses == {400: 2}
    with pytest.raises(LoadError, match="QueueDoesNotExist"):
        outcome.check()


def test_the_whole_table_comes_out_with_every_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bench.json"
    arguments = ["--short", "--json", str(file)]
    assert node_load.main(arguments, plan=TINY) == 0
    results = msgspec.json.decode(file.read_bytes())
    table = capsys.readouterr().out
    assert len(results["lines"]) == 14
    assert all(line["value"] > 0 and line["name"] in table for line in results["lines"])
    assert {len(samples) for samples in results["slices"].values()} == {1}


@pytest.mark.skipif(
    machine.filesystem_of(MEMORY, Path("/proc/mounts").read_text()) != "tmpfs",
    reason="this machine has no filesystem in memory",
)
def test_a_durable_rate_is_not_measured_in_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert node_load.main(["--data-under", str(MEMORY)]) == 2
    assert "is on tmpfs" in capsys.readouterr().err


def test_a_profile_names_the_functions_of_the_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--seconds", "0.5", "--data-under", str(tmp_path), "--no-perf"]
    assert profile_node.main(arguments) == 0
    assert "fastnode/" in capsys.readouterr().out
