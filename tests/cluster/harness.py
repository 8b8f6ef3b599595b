"""Clusters for tests: real `fastnode run` processes with directories and addresses of their own.

Every wait has a deadline and says what it waited for. Leaving the context ends every process that
was started, however the test ended. What nodes wrote to stderr stays beside their directories.
"""

import contextlib
import http.client
import json
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from fastnode import native
from tests.cluster.network import Network, Place
from tests.nodes import REGION, START_SECONDS, Node, environment

GROUPS = 4
# An election takes a second or two; three nodes that start on two busy cores take more.
SETTLE_SECONDS = 120.0
POLL_SECONDS = 0.05
ASK_SECONDS = 20.0
COMMAND_SECONDS = 120.0


def eventually(what: str, condition: Callable[[], bool], seconds: float = SETTLE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(POLL_SECONDS)


class Member(Node):
    """A node of a cluster. Its addresses stay the same when it is started again."""

    def __init__(
        self, number: int, data_dir: Path, place: Place, flags: Iterable[str] = ()
    ) -> None:
        addresses = ("--listen", place.listen, "--admin", place.admin, "--raft", place.raft)
        super().__init__(data_dir, "--node-id", str(number), *addresses, *place.flags, *flags)
        self.number = number
        self.place = place
        self.sqs_url, self.admin_url = f"http://{place.listen}", f"http://{place.admin}"
        # For the next start; only a test knows about them.
        self.more_flags: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        self.start()
        return self

    @property
    def is_started(self) -> bool:
        """It was started and nobody has seen it end."""
        return self._process is not None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def command(self) -> list[str]:
        program = [sys.executable, "-m", "fastnode", "run", "--data-dir", str(self.data_dir)]
        return [*self.place.prefix, *program, *self._arguments, *self.more_flags]

    def variables(self) -> dict[str, str]:
        return super().variables() | self.place.environment

    def await_start(self) -> None:
        """The ready line of a node that was launched."""
        line = self._read_line(time.monotonic() + START_SECONDS)
        expected = f"fastnode ready sqs={self.sqs_url} admin={self.admin_url}\n"
        assert line == expected, f"node {self.number} said {line!r}\n{self.stderr_tail()}"

    def start(self) -> None:
        self.launch()
        self.await_start()

    def refuse_start(self, seconds: float = START_SECONDS) -> tuple[int, str]:
        """Exit code, and what it wrote to stderr meanwhile, of a node that must not come up."""
        offset = len(self.stderr())
        self.launch()
        try:
            code = self._reap(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"node {self.number} runs\n{self.stderr_tail()}") from None
        return code, self.stderr()[offset:]

    def has_listener(self) -> bool:
        """The admin listener is open; it may be ready or not."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            return fetch(self.admin_url, "/healthz")[0] == 200
        return False

    @contextlib.contextmanager
    def ended(self) -> Iterator[None]:
        """Whatever is started within is killed at the end."""
        try:
            yield
        finally:
            if self.is_started:
                self.kill()

    def pause(self) -> None:
        """SIGSTOP: the process stands still and its connections stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        """Empty the directory, as a replaced disk is; the directory itself may be a mount point."""
        assert not self.is_running
        for path in self.data_dir.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def stderr(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return self._stderr_path.read_text(errors="replace")
        return ""

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return fetch(self.admin_url, "/readyz")[0] == 200
        return False

    def await_line(self, pattern: str, offset: int = 0, seconds: float = SETTLE_SECONDS) -> str:
        """The first line of the log, from the offset on, in which the pattern is found."""
        found: list[str] = []

        def is_there() -> bool:
            lines = self.stderr()[offset:].splitlines()
            found.extend(line for line in lines if re.search(pattern, line, re.IGNORECASE))
            return bool(found)

        eventually(f"a line with {pattern!r} in the log of node {self.number}", is_there, seconds)
        return found[0]

    def gauge(self, name: str) -> tuple[int, ...]:
        """A number of each group, as this node itself has it; OSError when it does not answer."""
        code, body = fetch(self.admin_url, "/metrics")
        assert code == 200, f"node {self.number} answers {code} {body!r}"
        return parse_gauge(name, body.decode())

    def gates(self) -> set[int]:
        """What its two gates of repeated calls are."""
        page = fetch(self.admin_url, "/metrics")[1].decode()
        found = re.findall(r"^fastnode_retry_gate{.*} (\d)$", page, re.MULTILINE)
        assert len(found) == 2, page
        return set(map(int, found))

    def voters(self) -> list[tuple[set[int], set[int]]]:
        """The voters and learners of each group, as far as this node knows."""
        code, body = fetch(self.admin_url, "/api/v1/cluster")
        assert code == 200, f"node {self.number} answers {code} {body!r}"
        groups = json.loads(body)["groups"]
        return [(set(group["voters"]), set(group["learners"])) for group in groups]


def parse_gauge(name: str, text: str) -> tuple[int, ...]:
    """In the order of the groups."""
    rows = re.findall(rf'^fastnode_raft_{name}{{group="(\d+)"}} (\d+)', text, re.MULTILINE)
    return tuple(value for _, value in sorted((int(group), int(value)) for group, value in rows))


def fetch(url: str, path: str) -> tuple[int, bytes]:
    address = urlsplit(url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=ASK_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class Cluster:
    """Nodes that belong together. Built with `static_cluster`, or node by node with `add`."""

    def __init__(self, directory: Path, network: Network, *flags: str) -> None:
        self.directory = directory
        self.network = network
        self.members: dict[int, Member] = {}
        self.secret = directory / "secret"
        self.secret.write_text(secrets.token_hex(32) + "\n")
        self.secret.chmod(0o600)
        self._flags = ("--groups", str(GROUPS), "--cluster-secret", str(self.secret), *flags)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for member in self.members.values():
            if member.is_started:
                member.kill()

    def add(self, number: int, *flags: str, directory: Path | None = None) -> Member:
        """A node that belongs here and does not run yet."""
        data_dir = directory or self.directory / f"node{number}"
        data_dir.mkdir(exist_ok=True)
        place = self.network.place(number)
        self.members[number] = Member(number, data_dir, place, (*self._flags, *flags))
        return self.members[number]

    @property
    def running(self) -> list[Member]:
        return [member for member in self.members.values() if member.is_running]

    def endpoints(self) -> list[str]:
        """What a client is configured with: every node, whether it runs or not."""
        # A copy: clients ask while a test adds and removes members.
        return [member.sqs_url for member in list(self.members.values())]

    def start(self) -> None:
        """All that do not run, at the same time."""
        started = [member for member in self.members.values() if not member.is_running]
        for member in started:
            member.launch()
        for member in started:
            member.await_start()

    def make_whole(self) -> "Cluster":
        """Whatever a test did that failed: its successor begins with a cluster that works."""
        for member in self.running:
            member.resume()
        if self.network.carrier is not None:
            self.network.heal()
        for member in self.members.values():
            if member.is_started and not member.is_running:
                member.kill()
        self.start()
        self.await_ready()
        self.await_leaders()
        return self

    def await_ready(self, *numbers: int) -> None:
        """These nodes (all that run, unless named) can serve: they know a leader of every group."""
        chosen = [self.members[number] for number in numbers] or self.running
        for member in chosen:
            eventually(f"node {member.number} answers 200 on /readyz", member.is_ready)

    def leaders(self) -> list[int] | None:
        """The leader of each group, when all nodes that run agree and each leader runs."""
        views = set()
        for member in self.running:
            with contextlib.suppress(OSError, http.client.HTTPException):
                views.add(member.gauge("leader"))
        numbers = {member.number for member in self.running}
        (view,) = views if len(views) == 1 else [(0,)]
        return list(view) if numbers.issuperset(view) else None

    def await_leaders(self) -> list[int]:
        found: list[int] = []

        def is_so() -> bool:
            found[:] = self.leaders() or []
            return bool(found)

        eventually("all running nodes agree on a leader of every group", is_so)
        return found

    def leader_of(self, queue: str) -> Member:
        """The node that leads the home of a queue of the default account."""
        segment = native.queue_segment("000000000000", REGION, queue)
        leaders = self.await_leaders()
        return self.members[leaders[native.home_group(segment, len(leaders))]]

    def await_voters(self, voters: Collection[int]) -> None:
        """Every group has exactly these voters and no learner, in the view of all that run."""

        def is_so() -> bool:
            groups = [group for member in self.running for group in member.voters()]
            return all(group == (set(voters), set()) for group in groups)

        eventually(f"every group has the voters {sorted(voters)}", tolerant(is_so))

    def await_same_applied(self) -> None:
        """All that run have applied the same entries of every group; nothing may send meanwhile."""
        eventually(
            "all nodes have applied the same entries",
            tolerant(lambda: len({member.gauge("applied") for member in self.running}) == 1),
        )

    def stop(self) -> None:
        """SIGTERM to all, at the same time; each must end with 0."""
        running = self.running
        for member in running:
            member.process.send_signal(signal.SIGTERM)
        for member in running:
            assert member.await_end() == 0, f"node {member.number}\n{member.stderr_tail()}"


def tolerant(condition: Callable[[], bool]) -> Callable[[], bool]:
    """A node that does not answer at the moment is a no."""

    def is_so() -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return condition()
        return False

    return is_so


def transfer(cluster: Cluster, to: int, *flags: str) -> None:
    """By the operator's command, given to node 1."""
    admin = cluster.network.place(1).admin
    said = operated("cluster", "transfer", "--to", str(to), *flags, "--admin", admin)
    assert "keeps that for 10 minutes" in said


@contextlib.contextmanager
def static_cluster(
    directory: Path,
    network: Network,
    *flags: str,
    count: int = 3,
    directories: Mapping[int, Path] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Nodes 1 to `count` that know each other by `--peers`, started and ready. Their directories
    are new ones, but for those that are given; all have the variables that are given.
    """
    with contextlib.closing(network), Cluster(directory, network, *flags) as cluster:
        peers = peers_flag(network, range(1, count + 1))
        for number in range(1, count + 1):
            chosen = (directories or {}).get(number)
            member = cluster.add(number, "--peers", peers, directory=chosen)
            member.more_environment = dict(environment or {})
        cluster.start()
        cluster.await_ready()
        cluster.await_leaders()
        yield cluster


def peers_flag(network: Network, numbers: Iterable[int]) -> str:
    return ",".join(f"{number}={network.place(number).dialled}" for number in numbers)


def operated(*arguments: str) -> str:
    """What a command that must succeed says; an operator does what it asks for, which is to try
    again when leads are on the move.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    while (ended := run_command(*arguments)).returncode:
        assert "try again" in ended.stderr and time.monotonic() < deadline, ended.stderr
    return ended.stdout


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`fastnode ...`; the caller looks at the code."""
    return subprocess.run(
        [sys.executable, "-m", "fastnode", *arguments],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
