"""Where the microseconds of a replicated send go, at its leader, at a follower, at a forwarder.

    python -m bench.cluster_profile [--connections N] [--seconds S] [--rows N] [--to-leader]
                                    [--data-under DIRECTORY]

One load to one queue while every node samples itself (`sampled_node`, which says what it cannot
see). The load goes to a node that does not lead the queue, unless it is to go to the leader. Every
figure is CPU microseconds per request. Nothing here is a gate.
"""

import argparse
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench import load, profile_node
from bench.cluster_nodes import Nodes, three_nodes, write_sends
from bench.load import Load, LoadError
from bench.profile_node import WRITE_SECONDS_MAX, Whole
from bench.program import refuse
from bench.sampled_node import Profile
from bench.server_process import ROOT, ServerError
from tests.cluster.network import Loopback, Place

GROUPS = 8


class Sampled(Loopback):
    """Every node is started as one that samples itself, with the same flags."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def place(self, node: int) -> Place:
        command = [sys.executable, "-m", "bench.sampled_node", str(self.file(node))]
        # In place of `python -m fastnode`; exec keeps the number of the process.
        script = f'shift 3; exec {shlex.join(command)} "$@"'
        return super().place(node)._replace(prefix=("sh", "-c", script, "sh"))

    def file(self, node: int) -> Path:
        return self._directory / f"profile-{node}.json"


def take_profiles(nodes: Nodes, network: Sampled, slice_: Load) -> tuple[int, dict[int, Profile]]:
    """How many requests were answered meanwhile, and what each node found."""
    for pid in nodes.pids():
        os.kill(pid, signal.SIGUSR1)
    outcome = load.run(slice_)
    for pid in nodes.pids():
        os.kill(pid, signal.SIGUSR2)
    outcome.check()
    cpu = f"{outcome.server_cpu_us:.0f} µs CPU of all nodes"
    print(f"{outcome.rate:,.0f} requests/s, p50 {outcome.step.p50_us:,.0f} µs, {cpu}")
    return outcome.answered, {node: read(network.file(node)) for node in nodes.cluster.members}


def read(file: Path) -> Profile:
    deadline = time.monotonic() + WRITE_SECONDS_MAX
    while not file.exists():
        if time.monotonic() > deadline:
            raise ServerError("a node did not write its profile")
        time.sleep(0.02)
    return msgspec.json.decode(file.read_bytes(), type=Profile)


def print_profile(role: str, requests: int, profile: Profile, rows: int) -> None:
    whole = Whole(requests, max(profile.seconds_main, 1e-9))
    main_us, all_us = (
        seconds * 1e6 / requests for seconds in (profile.seconds_main, profile.seconds_all_threads)
    )
    print(f"\n=== {role}: {main_us:.0f} µs main thread, {all_us - main_us:.0f} µs other threads")
    own = profile_node.own_time(profile.stacks, profile_node.label_function)
    profile_node.print_times("own time and the compiled code they call", own, whole, rows)
    inclusive = profile_node.inclusive_time(profile.stacks, profile_node.label_function)
    profile_node.print_times("with all they call", inclusive, whole, rows)


def profile(chosen: argparse.Namespace, directory: Path) -> None:
    network = Sampled(directory)
    with three_nodes(directory / "nodes", GROUPS, network) as nodes:
        queue, leader, follower = nodes.leader_and_follower()
        target = leader if chosen.to_leader else follower
        slice_ = Load(
            target=target,
            seconds=chosen.seconds,
            cycles=[(chosen.connections, write_sends(directory / "sends", target, [queue]))],
            watched=nodes.pids(),
        )
        requests, profiles = take_profiles(nodes, network, slice_)
        roles = {leader: "leader", follower: "follower" if chosen.to_leader else "forwarder"}
        for node, found in profiles.items():
            role = roles.get(nodes.cluster.members[node].place.listen, "other follower")
            print_profile(role, requests, found, chosen.rows)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.cluster_profile", description="where the CPU goes")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--to-leader", action="store_true")
    parser.add_argument("--data-under", type=Path, default=ROOT / "build", metavar="DIRECTORY")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parse_arguments(arguments)
    chosen.data_under.mkdir(parents=True, exist_ok=True)
    load.build()
    with tempfile.TemporaryDirectory(prefix="profile-", dir=chosen.data_under.resolve()) as name:
        try:
            profile(chosen, Path(name))
        except (LoadError, ServerError) as problem:
            return refuse(str(problem))
    return 0


if __name__ == "__main__":
    sys.exit(main())
