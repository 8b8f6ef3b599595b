"""Networks for clusters in tests: where each node listens, and faults on the links between nodes.

`Loopback` has no faults. `Proxied` puts TCP proxies between nodes and works everywhere; the port
for control calls, which nodes tell each other themselves, is not behind it. `Namespaces` gives
every node a network namespace of its own, with real packets and everything behind the faults; it
needs root. The programs that carry the traffic are `proxy.py` and `switch.py`.
"""

import os
import random
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

from tests.cluster.link_rules import DONE, READY, Pair, Rule, encode
from tests.cluster.switch import TUN_DEVICE
from tests.nodes import ROOT, environment

ANSWER_SECONDS = 60.0
# Below the range from which the kernel takes the ports of outgoing connections.
PORT_FIRST, PORT_LAST = 12_000, 30_000
MARK = "CLUSTER_TEST_NODE"


class Place(NamedTuple):
    """Where a node runs: the command that takes it there, its addresses, what others dial."""

    prefix: tuple[str, ...]
    listen: str
    admin: str
    raft: str
    dialled: str
    environment: dict[str, str]
    flags: tuple[str, ...] = ()


class Ports:
    """Ports nobody else takes: a name in the abstract namespace is ours while we live, so no other
    test run chooses the same; a trial bind finds those in use by anybody else.
    """

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []
        self._next = random.SystemRandom().randrange(PORT_FIRST, PORT_LAST)

    def take(self) -> int:
        for _ in range(PORT_LAST - PORT_FIRST):
            self._next = self._next + 1 if self._next < PORT_LAST else PORT_FIRST
            if self._claim(self._next):
                return self._next
        raise AssertionError("there is no free port")

    def close(self) -> None:
        while self._claims:
            self._claims.pop().close()

    def _claim(self, port: int) -> bool:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0fastnode-test-port-{port}")
            with socket.socket() as trial:
                trial.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            return False
        self._claims.append(claim)
        return True


class Carrier:
    """A program that carries traffic by rules. It ends when its stdin does."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._rules: dict[Pair, Rule] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._expect(READY)

    def set(self, pairs: Iterable[Pair], rule: Rule) -> None:
        """These pairs from now on; the others stay as they are."""
        self._replace(self._rules | dict.fromkeys(pairs, rule))

    def heal(self) -> None:
        self._replace({})

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError("the program between the nodes does not end") from None
        finally:
            self._process.stdout.close()

    def _replace(self, rules: dict[Pair, Rule]) -> None:
        self._rules = rules
        assert self._process.stdin is not None
        self._process.stdin.write(encode(rules))
        self._process.stdin.flush()
        self._expect(DONE)

    def _expect(self, line: str) -> None:
        assert self._process.stdout is not None
        descriptor, got = self._process.stdout.fileno(), b""
        deadline = time.monotonic() + ANSWER_SECONDS
        while not got.endswith(b"\n"):
            left = max(0.0, deadline - time.monotonic())
            assert select.select([descriptor], [], [], left)[0], f"no answer after {line!r}"
            part = os.read(descriptor, 100)
            assert part, "the program between the nodes ended; its stderr is the test's"
            got += part
        assert got.decode() == line, got


class Network:
    """Places for nodes. Faults need a carrier."""

    def __init__(self) -> None:
        self.ports = Ports()
        self.carrier: Carrier | None = None

    def place(self, node: int) -> Place:
        raise NotImplementedError

    def links(self) -> Carrier:
        assert self.carrier is not None, "this network has no faults"
        return self.carrier

    def cut(self, *pairs: Pair) -> None:
        """Nothing passes, in either direction."""
        self.cut_one_way(*pairs, *((target, source) for source, target in pairs))

    def cut_one_way(self, *pairs: Pair) -> None:
        self.links().set(pairs, Rule(is_cut=True))

    def isolate(self, node: int, others: Iterable[int]) -> None:
        self.cut(*((node, other) for other in others if other != node))

    def disturb(
        self, nodes: Iterable[int], *, delay_seconds: float = 0.0, loss: float = 0.0
    ) -> None:
        """Every link between these nodes, in both directions."""
        self.links().set(permutations(nodes, 2), Rule(False, delay_seconds, loss))

    def heal(self) -> None:
        self.links().heal()

    def close(self) -> None:
        if self.carrier is not None:
            self.carrier.close()
        self.ports.close()


class Loopback(Network):
    """Every node dials the others directly."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[int, Place] = {}

    def place(self, node: int) -> Place:
        if node not in self._places:
            listen, admin, raft = (f"127.0.0.1:{self.ports.take()}" for _ in range(3))
            self._places[node] = Place((), listen, admin, raft, raft, {})
        return self._places[node]


class Proxied(Network):
    """Nodes 1 to `count` on loopback, each behind a proxy."""

    def __init__(self, count: int = 3, seed: int = 0) -> None:
        super().__init__()
        # No other run's nodes carry this mark.
        mark = f"{os.getpid()}-{self.ports.take()}-"
        self._places = {node: self._make_place(node, mark) for node in range(1, count + 1)}
        doors = [
            f"{node}={place.dialled.rpartition(':')[2]}:{place.raft.rpartition(':')[2]}"
            for node, place in self._places.items()
        ]
        self.carrier = Carrier("tests.cluster.proxy", str(seed), f"{MARK}={mark}", *doors)

    def place(self, node: int) -> Place:
        return self._places[node]

    def _make_place(self, node: int, mark: str) -> Place:
        listen, admin, raft, door = (f"127.0.0.1:{self.ports.take()}" for _ in range(4))
        return Place((), listen, admin, raft, door, {MARK: f"{mark}{node}"})


class Namespaces(Network):
    """Nodes 1 to `count`, each in a network namespace. See `namespaces_problem`."""

    def __init__(self, count: int = 3, seed: int = 0) -> None:
        super().__init__()
        # Names of devices have at most 15 characters.
        self._name = f"fn{os.getpid()}n"
        self._subnet = f"10.231.{os.getpid() % 256}"
        self.carrier = Carrier(
            "tests.cluster.switch", str(seed), self._name, self._subnet, str(count)
        )

    def place(self, node: int) -> Place:
        host = f"{self._subnet}.{node}"
        raft = f"{host}:9326"
        prefix = ("ip", "netns", "exec", f"{self._name}{node}")
        # Nothing but our namespaces reaches these addresses.
        return Place(prefix, f"{host}:9324", f"{host}:9325", raft, raft, {}, ("--insecure",))


def namespaces_problem() -> str | None:
    """Why nodes cannot have network namespaces here; None when they can."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    if shutil.which("ip") is None:
        return "the command ip is missing"
    if not Path(TUN_DEVICE).exists():
        return f"{TUN_DEVICE} is missing"
    trial = f"fn{os.getpid()}trial"
    made = subprocess.run(["ip", "netns", "add", trial], capture_output=True, check=False)
    if made.returncode != 0:
        return f"no network namespace can be made: {made.stderr.decode().strip()}"
    subprocess.run(["ip", "netns", "del", trial], check=True)
    return None
