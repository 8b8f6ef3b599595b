"""Where and how much is measured: the directory, the cores, sizes and turns; echo and nodes there.

What is measured is said in the modules that take a `Rig`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import load, machine, server_process, sqs_requests
from bench.load import Load, Outcome
from bench.server_process import Server

ECHO_CONNECTIONS = 64
REQUESTS_PER_FILE = 256


class Plan(msgspec.Struct, frozen=True):
    """How much is measured; `scale` multiplies every number of messages and queues."""

    turns: int = 6
    slice_seconds: float = 1.5
    warmup_seconds: float = 0.3
    # Short rounds whose median is one turn of a flat cost.
    probe_rounds: int = 10
    scale: float = 1.0
    # Messages that have gone through a queue before it is compared with a fresh one.
    processed: int = 10_000_000


FULL = Plan()
SHORT = Plan(turns=1, slice_seconds=0.2, warmup_seconds=0.05, probe_rounds=1, scale=0.002)


class Echo(msgspec.Struct, frozen=True):
    """The yardstick, with the requests that it is asked."""

    server: Server
    file: Path
    plan: Plan
    core: int | None

    def measure(self) -> Outcome:
        """One slice."""
        bounds = Load(
            self.server.address,
            self.plan.slice_seconds,
            [(ECHO_CONNECTIONS, self.file)],
            warmup=self.plan.warmup_seconds,
            core=self.core,
            watched=self.server.process_ids(),
        )
        outcome = load.run(bounds)
        outcome.check()
        return outcome


class Rig(msgspec.Struct, frozen=True):
    """Servers run on one core and the load on another, where there are two."""

    directory: Path
    plan: Plan
    say: Callable[[str], None]
    server_core: int | None
    load_core: int | None

    def count(self, full: int, least: int = 200) -> int:
        """A number of messages or queues, scaled; a multiple of ten for batches."""
        return max(least, int(full * self.plan.scale)) // 10 * 10

    def turns(self, what: str, count: int | None = None) -> Iterator[int]:
        """The numbers of the turns, each reported when it is over."""
        count = count or self.plan.turns
        for turn in range(count):
            began = time.monotonic()
            yield turn
            took = time.monotonic() - began
            self.say(f"{what}: turn {turn + 1} of {count}, {took:.1f} s")

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Something that takes a while and is not measured."""
        began = time.monotonic()
        yield
        self.say(f"{what}: {time.monotonic() - began:.1f} s")

    @contextmanager
    def echo(self) -> Iterator[Echo]:
        with server_process.echo_server(self.server_core) as server:
            signer = sqs_requests.Signer(server.address, datetime.now(UTC))
            url = f"http://{server.address}/000000000000/bench"
            file = self.directory / "echo.http"
            file.write_bytes(sqs_requests.sends(signer, url, count=REQUESTS_PER_FILE))
            yield Echo(server, file, self.plan, self.load_core)

    @contextmanager
    def node(self, name: str) -> Iterator[Server]:
        """A node that verifies signatures; the data of the same name is found again."""
        data = self.directory / name
        flags = ("--log-level", "error")
        with server_process.verifying_node(
            data, self.server_core, server_process.NODE_COMMAND, *flags
        ) as server:
            yield server


def rig_in(directory: Path, plan: Plan, say: Callable[[str], None]) -> Rig:
    server_core, load_core = machine.choose_cores()
    return Rig(directory, plan, say, server_core, load_core)
