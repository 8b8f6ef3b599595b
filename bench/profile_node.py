"""Where a node's microseconds go under load: by Python function and line, by thread and library.

    python -m bench.profile_node [--batch] [--connections N] [--seconds S] [--rows N] [--no-perf]

Two views of the same load, one after the other. The first is the node's own sampler
(`sampled_node`), which knows Python functions and is blind inside compiled code. The second is
`perf`, where it is installed, which knows threads, libraries, native and kernel symbols and is
blind to Python's. Every figure is CPU microseconds per request. Nothing here is a gate.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench import load, machine, node_load, server_process
from bench.load import Load, Outcome
from bench.sampled_node import Profile, Stack
from bench.server_process import ROOT, Server, ServerError

WRITE_SECONDS_MAX = 10.0
PERF_HERTZ = 999
STANDARD_LIBRARY = f"/lib/python{sys.version_info[0]}.{sys.version_info[1]}/"
Label = Callable[[tuple[str, str, int]], str]


class Whole(msgspec.Struct, frozen=True):
    """What the rows of a view are parts of."""

    requests: int
    seconds: float


def label_function(frame: tuple[str, str, int]) -> str:
    """The function, whatever its line."""
    return f"{shorten(frame[0])}  {frame[1]}"


def label_line(frame: tuple[str, str, int]) -> str:
    """The line."""
    return f"{shorten(frame[0])}:{frame[2]}  {frame[1]}"


def shorten(file: str) -> str:
    """A path without the directories in which projects and libraries lie."""
    for place in (f"{ROOT}/", "/site-packages/", STANDARD_LIBRARY):
        file = file.rpartition(place)[2]
    return file


def own_time(stacks: Sequence[tuple[Stack, int]], label: Label) -> Counter[str]:
    """Nanoseconds by innermost frame."""
    totals: Counter[str] = Counter()
    for stack, nanoseconds in stacks:
        totals[label(stack[0]) if stack else "(no Python frame)"] += nanoseconds
    return totals


def inclusive_time(stacks: Sequence[tuple[Stack, int]], label: Label) -> Counter[str]:
    """Nanoseconds by every frame on the stack, each counted once per stack.

    Frames below all others, such as the event loop's, are left out: they hold the whole.
    """
    totals: Counter[str] = Counter()
    for stack, nanoseconds in stacks:
        for name in {label(frame) for frame in stack}:
            totals[name] += nanoseconds
    whole = sum(nanoseconds for _, nanoseconds in stacks)
    return Counter({name: part for name, part in totals.items() if part < whole})


def print_times(title: str, totals: Counter[str], whole: Whole, rows: int) -> None:
    """The heaviest rows as microseconds per request and share of the main thread."""
    print(f"\n{title}")
    for name, nanoseconds in totals.most_common(rows):
        microseconds = nanoseconds / 1e3 / whole.requests
        print(f"{microseconds:8.2f} µs {nanoseconds / 1e9 / whole.seconds:6.1%}  {name}")


def take_profile(node: Server, slice_: Load, file: Path) -> tuple[Outcome, Profile]:
    """One load with the node's sampler on."""
    os.kill(node.pid, signal.SIGUSR1)
    outcome = load.run(slice_)
    os.kill(node.pid, signal.SIGUSR2)
    deadline = time.monotonic() + WRITE_SECONDS_MAX
    while not file.exists():
        if time.monotonic() > deadline:
            raise ServerError("the node did not write its profile")
        time.sleep(0.02)
    outcome.check()
    return outcome, msgspec.json.decode(file.read_bytes(), type=Profile)


def print_profile(outcome: Outcome, profile: Profile, rows: int) -> None:
    """The sampler's view."""
    whole = Whole(outcome.answered, max(profile.seconds_main, 1e-9))
    main_us = profile.seconds_main * 1e6 / whole.requests
    all_us = profile.seconds_all_threads * 1e6 / whole.requests
    print(
        f"{outcome.rate:,.0f} requests/s, {all_us:.1f} µs CPU per request: "
        f"{main_us:.1f} main thread, {max(0.0, all_us - main_us):.1f} other threads"
    )
    views = {
        "Python functions, own time and the compiled code they call": own_time,
        "Python functions, with all they call": inclusive_time,
    }
    for title, total in views.items():
        print_times(title, total(profile.stacks, label_function), whole, rows)
    print_times("Python lines, own time", own_time(profile.stacks, label_line), whole, rows)


def print_perf(node: Server, slice_: Load, directory: Path, rows: int) -> None:
    """The view of `perf`, recorded during one more load of the same kind."""
    record = directory / "perf.data"
    command = ["perf", "record", "--quiet", "-F", str(PERF_HERTZ), "-o", str(record)]
    pids = ",".join(str(pid) for pid in node.process_ids())
    with subprocess.Popen([*command, "-p", pids], stderr=subprocess.DEVNULL) as recorder:
        try:
            outcome = load.run(slice_)
        finally:
            recorder.send_signal(signal.SIGINT)
    outcome.check()
    print(f"\nperf: {outcome.rate:,.0f} requests/s, {outcome.server_cpu_us:.1f} µs per request")
    for title, fields in {
        "threads": "comm",
        "libraries": "dso",
        "symbols": "comm,dso,symbol",
    }.items():
        print(f"\n{title}")
        for share, name in perf_rows(record, fields)[:rows]:
            print(f"{share * outcome.server_cpu_us:8.2f} µs {share:6.1%}  {name}")


def perf_rows(record: Path, fields: str) -> list[tuple[float, str]]:
    """(share, name) of each row of a report, heaviest first."""
    command = ["perf", "report", "-i", str(record), "--stdio", "--no-children", "-g", "none"]
    command += ["-F", f"overhead,{fields}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split(None, 1) for line in done.stdout.splitlines() if "%" in line]
    return [
        (float(row[0].rstrip("%")) / 100, " ".join(row[1].split()))
        for row in rows
        if row[0].endswith("%")
    ]


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench.profile_node", description="where the CPU goes")
    parser.add_argument("--batch", action="store_true", help="SendMessageBatch of ten")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rows", type=int, default=25)
    parser.add_argument("--no-perf", action="store_true", help="the sampler's view only")
    parser.add_argument("--data-under", type=Path, default=ROOT / "build", metavar="DIRECTORY")
    return parser.parse_args(arguments)


def profile(chosen: argparse.Namespace, directory: Path) -> None:
    """Starts a sampled node and prints both views."""
    server_core, load_core = machine.choose_cores()
    file = directory / "profile.json"
    command = (sys.executable, "-m", "bench.sampled_node", str(file))
    with server_process.node(directory / "data", server_core, command) as node:
        single, batch = node_load.write_requests(node, directory)
        slice_ = Load(
            target=node.address,
            seconds=chosen.seconds,
            cycles=[(chosen.connections, batch if chosen.batch else single)],
            core=load_core,
            watched=node.process_ids(),
        )
        print_profile(*take_profile(node, slice_, file), chosen.rows)
        if chosen.no_perf or shutil.which("perf") is None:
            print("\nno perf: threads, libraries and native symbols are not shown")
        else:
            print_perf(node, slice_, directory, chosen.rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 unless the profile could not be taken."""
    chosen = parse_arguments(arguments)
    chosen.data_under.mkdir(parents=True, exist_ok=True)
    load.build()
    with tempfile.TemporaryDirectory(prefix="profile-", dir=chosen.data_under) as name:
        try:
            profile(chosen, Path(name))
        except (load.LoadError, ServerError) as problem:
            return node_load.refuse(str(problem))
    return 0


if __name__ == "__main__":
    sys.exit(main())
