"""Sends to a cluster: against a single node, through a follower, and one at a time.

All loads of a table take turns within one run, and every ratio is taken within a turn.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import msgspec

from bench import cluster_floor, report
from bench.cluster_nodes import Nodes, create_queues, run_together, write_sends
from bench.load import Load
from bench.report import Line
from bench.server_process import Server

CONNECTIONS = 64
RATE_RATIO_MIN = 0.3
FORWARDED_RATIO_MAX = 1.8
COMMIT_SLACK_SECONDS = 0.001
FORWARDED_CONNECTIONS = (1, 16)


class Turns(msgspec.Struct, frozen=True):
    """How much is measured."""

    rounds: int
    slice_seconds: float
    warmup_seconds: float
    probes: int


class Slice(msgspec.Struct, frozen=True):
    """One load on one or more nodes; CPU is of all nodes of the cluster."""

    rate: float
    cpu_us: float
    p50_us: float


class Lane(msgspec.Struct, frozen=True):
    """One of the loads that take turns: so many connections to each target."""

    targets: Sequence[tuple[str, int, Path]]
    pids: Sequence[int]

    def measure(self, turns: Turns) -> Slice:
        # The first load generator watches for all: their windows differ by milliseconds.
        outcomes = run_together(
            [
                Load(
                    target=target,
                    seconds=turns.slice_seconds,
                    warmup=turns.warmup_seconds,
                    cycles=[(connections, file)],
                    watched=() if number else self.pids,
                )
                for number, (target, connections, file) in enumerate(self.targets)
            ]
        )
        rate = sum(outcome.rate for outcome in outcomes)
        cpu_us = outcomes[0].watched_cpu_s / outcomes[0].elapsed_s / rate * 1e6
        return Slice(rate, cpu_us, median(outcome.step.p50_us for outcome in outcomes))


Slices = dict[str, list[Slice]]
Pick = Callable[[Slice], float]


def take_turns(lanes: dict[str, Lane], turns: Turns) -> Slices:
    """Every lane once per round; every other round backwards, so that drift favours none."""
    slices: Slices = {name: [] for name in lanes}
    order = list(lanes.items())
    for _ in range(turns.rounds):
        for name, lane in order:
            slices[name].append(lane.measure(turns))
        order.reverse()
    return slices


def rate(slice_: Slice) -> float:
    return slice_.rate


def cpu_us(slice_: Slice) -> float:
    return slice_.cpu_us


def p50_us(slice_: Slice) -> float:
    return slice_.p50_us


def ratios(above: Sequence[Slice], below: Sequence[Slice], pick: Pick) -> list[float]:
    """One per turn."""
    return [pick(a) / pick(b) for a, b in zip(above, below, strict=True)]


def middle(slices: Sequence[Slice], pick: Pick) -> float:
    return median(map(pick, slices))


# --- against a single node -----------------------------------------------------------------------


def measure_rates(nodes: Nodes, single: Server, turns: Turns) -> list[Line]:
    """Sends at 64 connections: to queues of all groups, two thirds of them led elsewhere; and to
    one queue at its leader. The single node gets the same sends.
    """
    create_queues(single.address, nodes.queues)
    addresses, pids = nodes.addresses(), nodes.pids()
    queue, leader, _ = nodes.leader_and_follower()

    def to(address: str, names: Sequence[str], connections: int) -> tuple[str, int, Path]:
        return address, connections, sends_file(nodes, address, names)

    shares = zip(addresses, split(CONNECTIONS, len(addresses)), strict=True)
    own = single.process_ids()
    slices = take_turns(
        {
            "single, all": Lane([to(single.address, nodes.queues, CONNECTIONS)], own),
            "single, one": Lane([to(single.address, [queue], CONNECTIONS)], own),
            "spread": Lane([to(each, nodes.queues, count) for each, count in shares], pids),
            "one node": Lane([to(addresses[0], nodes.queues, CONNECTIONS)], pids),
            "leader": Lane([to(leader, [queue], CONNECTIONS)], pids),
        },
        turns,
    )
    return [
        rate_line("over all nodes", slices["spread"], slices["single, all"]),
        rate_line("all to one node", slices["one node"], slices["single, all"]),
        rate_line("one queue at its leader", slices["leader"], slices["single, one"]),
    ]


def split(whole: int, parts: int) -> list[int]:
    """As evenly as it goes."""
    return [whole // parts + (number < whole % parts) for number in range(parts)]


def sends_file(nodes: Nodes, address: str, names: Sequence[str]) -> Path:
    kind = "all" if len(names) > 1 else names[0]
    file = nodes.directory / f"{kind}-{address.rpartition(':')[2]}.http"
    return write_sends(file, address, names)


def rate_line(name: str, cluster: Sequence[Slice], single: Sequence[Slice]) -> Line:
    found = ratios(cluster, single, rate)
    rates = f"{middle(cluster, rate):,.0f}/s against {middle(single, rate):,.0f}/s"
    costs = f"CPU {middle(cluster, cpu_us):.0f} µs against {middle(single, cpu_us):.0f} µs"
    title = f"SendMessage, {CONNECTIONS}, {name} / single node"
    detail = f"{rates}, {costs}, {report.spread(found)}"
    return Line(title, median(found), detail, at_least=RATE_RATIO_MIN)


# --- through a follower --------------------------------------------------------------------------


def measure_forwarding(nodes: Nodes, turns: Turns) -> list[Line]:
    """The same sends to a queue's leader and to another node, which passes them on."""
    name, leader, follower = nodes.leader_and_follower()
    files = {address: sends_file(nodes, address, [name]) for address in (leader, follower)}
    lines: list[Line] = []
    for connections in FORWARDED_CONNECTIONS:
        local, forwarded = (
            Lane([(address, connections, files[address])], nodes.pids())
            for address in (leader, follower)
        )
        slices = take_turns({"local": local, "forwarded": forwarded}, turns)
        lines += forwarding_lines(connections, slices["forwarded"], slices["local"])
    return lines


def forwarding_lines(
    connections: int, forwarded: Sequence[Slice], local: Sequence[Slice]
) -> list[Line]:
    picks: dict[str, Pick] = {"CPU of all nodes": cpu_us, "p50": p50_us}
    return [
        Line(
            f"forwarded / local, {connections}: {what}",
            median(found := ratios(forwarded, local, pick)),
            f"{middle(forwarded, pick):,.0f} µs against {middle(local, pick):,.0f} µs, "
            f"{report.spread(found)}",
            at_most=FORWARDED_RATIO_MAX,
        )
        for what, pick in picks.items()
    ]


# --- one at a time -------------------------------------------------------------------------------


def measure_commit(nodes: Nodes, turns: Turns) -> list[Line]:
    """A lone send to the leader against what network and disk take, measured in the same turn."""
    name, leader, _ = nodes.leader_and_follower()
    lane = Lane([(leader, 1, sends_file(nodes, leader, [name]))], nodes.pids())
    found: list[tuple[float, float, float]] = []
    with ExitStack() as stack:
        wire = stack.enter_context(cluster_floor.network())
        disk = stack.enter_context(cluster_floor.disk(nodes.directory))
        for _ in range(turns.rounds):
            found.append((lane.measure(turns).p50_us / 1e6, wire(turns.probes), disk(turns.probes)))
    return [commit_line(found)]


def commit_line(found: Sequence[tuple[float, float, float]]) -> Line:
    shares = [send / (wire + 2 * disk + COMMIT_SLACK_SECONDS) for send, wire, disk in found]
    send, wire, disk = (median(column) * 1e6 for column in zip(*found, strict=True))
    detail = (
        f"p50 {send:,.0f} µs against a round trip of {wire:,.0f} µs + 2 fsyncs of {disk:,.0f} µs "
        f"+ 1,000 µs, {report.spread(shares)}"
    )
    return Line("lone send to the leader / its bound", median(shares), detail, at_most=1.0)
