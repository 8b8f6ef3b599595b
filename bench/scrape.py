"""What a scrape of `/metrics` takes from a node.

    python -m bench.scrape [--queues N] [--scrapes N] [--data-under DIR]

A node with so many queues, each with a message, is scraped again and again while nothing else is
asked of it: CPU time of all its threads by scrape. A node under load loses just that. The share is
that of a core at Prometheus's own interval. Exit codes as in `node_load`.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from bench import machine, program
from bench.report import Line
from bench.server_process import Server, come_to_rest, cpu_seconds, fetch, node
from tests.cluster.client import Client
from tests.cluster.workload import url_of

QUEUES, SCRAPES = 1_000, 200
INTERVAL_SECONDS = 15.0
SHARE_MAX = 0.01


class Results(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    machine: machine.Machine
    lines: list[Line]


def measure(directory: Path, queues: int, scrapes: int) -> Results:
    core, _ = machine.choose_cores()
    with tempfile.TemporaryDirectory(prefix="scrape-", dir=directory) as scratch:
        with node(Path(scratch, "data"), core) as server:
            fill(server, queues)
            come_to_rest(server)
            cpu_ms, size = scraped(server, scrapes)
    share = cpu_ms / 1000 / INTERVAL_SECONDS
    detail = f"{cpu_ms:.2f} ms of CPU and {size:,} bytes a scrape, {queues:,} queues"
    line = Line("a scrape every 15 s: share of a core", share, detail, at_most=SHARE_MAX)
    return Results(machine.describe(directory), [line])


def fill(server: Server, queues: int) -> None:
    with closing(Client(lambda: [f"http://{server.address}"])) as client:
        for number in range(queues):
            client.call("CreateQueue", QueueName=f"q{number}")
            client.call("SendMessage", QueueUrl=url_of(f"q{number}"), MessageBody="m")


def scraped(server: Server, scrapes: int) -> tuple[float, int]:
    """Milliseconds of CPU and bytes of one."""
    assert server.admin is not None
    page = fetch(server.admin, "/metrics")
    used = cpu_seconds(server.process_ids())
    for _ in range(scrapes):
        page = fetch(server.admin, "/metrics")
    used = cpu_seconds(server.process_ids()) - used
    return used * 1000 / scrapes, len(page)


def main(arguments: Sequence[str] | None = None) -> int:
    parser: argparse.ArgumentParser = program.options("scrape", "what a scrape of /metrics takes")
    parser.add_argument("--queues", type=int, default=QUEUES)
    parser.add_argument("--scrapes", type=int, default=SCRAPES)
    chosen = parser.parse_args(arguments)
    return program.finish(chosen, lambda under: measure(under, chosen.queues, chosen.scrapes))


if __name__ == "__main__":
    sys.exit(main())
