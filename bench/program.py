"""What all measuring programs have in common: options, the disk, the end of a run.

Exit codes: 0 every target met, 1 one is missed, 2 the measurement could not run. A short run shows
only that everything works: it prints verdicts and leaves the exit code at 0.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Protocol

import msgspec

from bench import machine, report
from bench.load import LoadError
from bench.report import Line
from bench.server_process import ROOT, ServerError

MISSED, NOT_RUN = 1, 2
# What may go wrong while a server is measured: it fails, or the machine lacks something.
PROBLEMS = (LoadError, ServerError, OSError, TimeoutExpired)


class Table(Protocol):
    """Results that can be written as JSON."""

    @property
    def machine(self) -> machine.Machine: ...

    @property
    def lines(self) -> list[Line]: ...


def options(name: str, description: str, *, json: str | None = None) -> argparse.ArgumentParser:
    """A parser with the options that every program has; its results go to `build/NAME.json`."""
    parser = argparse.ArgumentParser(prog=f"bench.{name}", description=description)
    parser.add_argument("--short", action="store_true", help="a smoke: verdicts do not count")
    parser.add_argument(
        "--data-under",
        type=Path,
        default=ROOT / "build",
        metavar="DIRECTORY",
        help="which disk is measured",
    )
    file = ROOT / "build" / (json or f"{name}.json")
    parser.add_argument("--json", type=Path, default=file, metavar="FILE")
    return parser


def finish(chosen: argparse.Namespace, measure: Callable[[Path], Table]) -> int:
    """Measures in the directory of the options, prints, writes; the exit code."""
    try:
        results = measure(data_directory(chosen))
    except PROBLEMS as problem:
        return refuse(str(problem))
    print(*results.machine.lines(), report.render(results.lines), sep="\n")
    write(chosen.json, results)
    return exit_code(results.lines, is_short=chosen.short)


def data_directory(chosen: argparse.Namespace) -> Path:
    """It exists, and on a disk: a durable rate that is measured in memory says nothing."""
    directory: Path = chosen.data_under
    directory.mkdir(parents=True, exist_ok=True)
    filesystem = machine.describe(directory).filesystem
    if filesystem in machine.MEMORY_FILESYSTEMS and not chosen.short:
        raise ServerError(f"{directory} is on {filesystem}: choose a disk with --data-under")
    return directory


def write(file: Path, results: object) -> None:
    """The results as JSON that people can read."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(results)))


def exit_code(lines: Sequence[Line], *, is_short: bool) -> int:
    return MISSED if not is_short and not all(line.is_met for line in lines) else 0


def refuse(problem: str) -> int:
    """One line on stderr and the exit code of a measurement that could not run."""
    sys.stderr.write(f"bench: {problem}\n")
    return NOT_RUN
