"""The networks of the harness, shown to do what they say with echo servers in the nodes' places."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster.network import Loopback, Namespaces, Network, Ports, Proxied, namespaces_problem
from tests.nodes import ROOT, environment

SOON_SECONDS = 60.0
# One of so many exchanges is not held up by a busy machine.
TRIES = 10
# What passes takes milliseconds, and what is held back is never early.
HELD_SECONDS = 0.5
DELAY_SECONDS = 0.15


class Echo:
    """An echo server at a node's place, which has dialled another node."""

    def __init__(self, network: Network, node: int, peer: int | None = None) -> None:
        place = network.place(node)
        dialled = [] if peer is None else network.place(peer).dialled.split(":")
        arguments = [*place.raft.split(":"), *dialled]
        self.process = subprocess.Popen(
            [*place.prefix, sys.executable, "-m", "tests.cluster.echo_server", *arguments],
            cwd=ROOT,
            env=environment() | place.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.expect("ready\n")

    def send(self, line: bytes = b"line\n") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def has_answer(self, seconds: float) -> bool:
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def expect(self, line: str) -> None:
        assert self.has_answer(SOON_SECONDS), f"no {line!r}"
        assert self.process.stdout is not None
        assert os.read(self.process.stdout.fileno(), len(line)).decode() == line

    def round_trip(self, line: bytes = b"line\n") -> float:
        began = time.monotonic()
        self.send(line)
        self.expect("back\n")
        return time.monotonic() - began

    def quickest(self, enough: float) -> float:
        """The time of the quickest exchange, or of the first that was quick enough."""
        seconds = self.round_trip()
        for _ in range(TRIES):
            seconds = seconds if seconds < enough else min(seconds, self.round_trip())
        return seconds

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="module", params=[Proxied, Namespaces])
def made(request: pytest.FixtureRequest) -> Iterator[Network]:
    if request.param is Namespaces and (problem := namespaces_problem()):
        pytest.skip(problem)
    with closing(request.param(5, seed=1)) as network:
        yield network


@pytest.fixture
def network(made: Network) -> Network:
    made.heal()
    return made


@pytest.fixture(scope="module")
def echoes(made: Network) -> Iterator[tuple[Echo, Echo]]:
    """Nodes 2 and 3, which have dialled node 1."""
    with (
        closing(Echo(made, 1)),
        closing(Echo(made, 2, peer=1)) as second,
        closing(Echo(made, 3, peer=1)) as third,
    ):
        yield second, third


@pytest.mark.parametrize(
    "cut",
    [
        lambda network: network.cut((2, 1)),
        lambda network: network.cut((1, 2)),
        lambda network: network.cut_one_way((2, 1)),
        lambda network: network.cut_one_way((1, 2)),
        lambda network: network.isolate(2, [1, 2, 3]),
    ],
    ids=["both ways", "named the other way", "from dialler", "to dialler", "isolated"],
)
def test_a_cut_link_holds_everything_and_others_go_on(
    network: Network, echoes: tuple[Echo, Echo], cut: Callable[[Network], None]
) -> None:
    second, third = echoes
    second.round_trip()
    cut(network)
    second.send()
    assert not second.has_answer(HELD_SECONDS)
    third.round_trip()
    network.heal()
    second.expect("back\n")
    assert second.quickest(HELD_SECONDS) < HELD_SECONDS


def test_a_dial_through_a_cut_gets_nowhere_until_it_is_healed(network: Network) -> None:
    network.cut_one_way((4, 5))
    with closing(Echo(network, 4)), closing(Echo(network, 5, peer=4)) as dialler:
        dialler.send()
        assert not dialler.has_answer(HELD_SECONDS)
        network.heal()
        dialler.expect("back\n")


def test_the_death_of_a_node_is_not_seen_through_a_cut(network: Network) -> None:
    """The other keeps its side of the connection: nobody told it."""
    with closing(Echo(network, 4)), closing(Echo(network, 5, peer=4)) as dialler:
        dialler.round_trip()
        network.cut((4, 5))
        dialler.process.kill()
        dialler.process.wait()
        time.sleep(HELD_SECONDS)
        assert connections_of(network, 4) == 1
        network.heal()
        deadline = time.monotonic() + SOON_SECONDS
        while connections_of(network, 4) == 1:
            assert time.monotonic() < deadline, "nor after the cut was healed"
            time.sleep(0.02)


def connections_of(network: Network, node: int) -> int:
    """Connections that the node's listener has, as its own namespace shows them."""
    place = network.place(node)
    command = [*place.prefix, "cat", "/proc/net/tcp"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    port = f":{int(place.raft.rpartition(':')[2]):04X}"
    rows = [row.split() for row in table.splitlines()[1:]]
    return sum(row[1].endswith(port) and row[3] == "01" for row in rows)


def test_delay_is_added_to_both_directions(network: Network, echoes: tuple[Echo, Echo]) -> None:
    second, _ = echoes
    assert second.quickest(DELAY_SECONDS) < DELAY_SECONDS
    network.disturb([1, 2, 3], delay_seconds=DELAY_SECONDS)
    assert 2 * DELAY_SECONDS <= second.quickest(4 * DELAY_SECONDS) < 4 * DELAY_SECONDS
    network.heal()
    assert second.quickest(DELAY_SECONDS) < DELAY_SECONDS


def test_loss_makes_some_exchanges_late_and_breaks_none(
    network: Network, echoes: tuple[Echo, Echo]
) -> None:
    second, third = echoes
    second.round_trip()
    network.disturb([1, 2], loss=0.2)
    slowest = max(second.round_trip(b"%d\n" % number) for number in range(25))
    assert slowest >= 0.19, "a retransmission takes this long"
    assert second.quickest(0.1) < 0.1, "not all are late"
    # With such a loss hardly any ten in a row would be quick.
    assert any(are_quick(third, 10) for _ in range(TRIES)), "no loss between 1 and 3"


def are_quick(echo: Echo, count: int) -> bool:
    return all(echo.round_trip() < 0.19 for _ in range(count))


def test_much_arrives_whole_through_loss_and_delay(
    network: Network, echoes: tuple[Echo, Echo]
) -> None:
    second, _ = echoes
    network.disturb([1, 2], loss=0.02, delay_seconds=0.01)
    second.round_trip(bytes(ord("a") + at % 26 for at in range(300_000)) + b"\n")


def test_namespaces_are_removed_when_the_test_process_dies() -> None:
    if problem := namespaces_problem():
        pytest.skip(problem)
    code = (
        "import os; from tests.cluster.network import Namespaces; n = Namespaces(1); "
        "print(n.place(1).prefix[-1], flush=True); os.kill(os.getpid(), 9)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, text=True
    )
    (name,) = run.stdout.split()
    deadline = time.monotonic() + SOON_SECONDS
    while Path("/run/netns", name).exists():
        assert time.monotonic() < deadline, "the namespace is still there"
        time.sleep(0.02)


def test_ports_are_given_once_while_they_are_held() -> None:
    with closing(Ports()) as ports, closing(Ports()) as others:
        taken = [chosen.take() for _ in range(50) for chosen in (ports, others)]
    assert len(set(taken)) == len(taken)


def test_a_node_keeps_its_place() -> None:
    with closing(Loopback()) as network:
        assert network.place(1) == network.place(1)
        assert network.place(1).raft != network.place(2).raft
