"""`run`: generate, replay, verify and report in one go and in one Spark session.

Each step is the command of that name with its own flags; this only says where they find each
other's directories. The exit code is the verdict's.
"""

import argparse
import os
import sys
from pathlib import Path
from types import ModuleType

from spark_load import generate, session, verify
from spark_load.errors import LoadError
from spark_load.replay import command as replay
from spark_load.replay.job import SETTINGS
from spark_load.replay.plan import endpoints_of
from spark_load.report import command as report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workload", help="a .toml file, or the name of a ready-made one")
    parser.add_argument("directory", type=Path, help="gets trace, history, verdict and report")
    parser.add_argument("--endpoint", action="append", required=True, help="a node; repeatable")
    parser.add_argument("--seed", help="instead of the workload's own")
    parser.add_argument("--speed", default="1", help="times faster than the trace says")
    parser.add_argument("--lanes", type=int, default=1, help="producer tasks")
    parser.add_argument("--consumer-lanes", type=int, default=1, help="consumer tasks")
    parser.add_argument("--faults", help="lines of {at_us, label}, for the report")
    parser.add_argument("--dry-run", action="store_true", help="say what would run, do nothing")
    session.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    trace, history = str(options.directory / "trace"), str(options.directory / "history")
    if (options.directory / "history").exists():
        raise LoadError(f"{history} is there already: name another directory")
    seed = ["--seed", options.seed] if options.seed else []
    if options.dry_run:
        return _show(options, [options.workload, trace, *seed, "--dry-run"], history)
    options.conf = [*(f"{key}={value}" for key, value in SETTINGS.items()), *options.conf]
    with session.session(options, _master(options)):
        _step(generate, [options.workload, trace, "--overwrite", *seed])
        # A history that was cut short is judged as far as it goes, and drawn.
        _step(replay, [trace, history, *_replay_flags(options)])
        verdict = _step(verify, [trace, history])
        _step(report, [trace, history])
    return verdict


def _show(options: argparse.Namespace, generated: list[str], history: str) -> int:
    _step(generate, generated)
    urls = ", ".join(endpoint.url for endpoint in endpoints_of(options.endpoint))
    print(
        f"would replay it to {urls} at speed {options.speed} with {options.lanes} producer and "
        f"{options.consumer_lanes} consumer lanes, and write history, verdict and report to "
        f"{history}"
    )
    return 0


def _replay_flags(options: argparse.Namespace) -> list[str]:
    endpoints = [flag for url in options.endpoint for flag in ("--endpoint", url)]
    lanes = ["--lanes", str(options.lanes), "--consumer-lanes", str(options.consumer_lanes)]
    faults = ["--faults", options.faults] if options.faults else []
    return [*endpoints, *lanes, "--speed", options.speed, *faults]


def _master(options: argparse.Namespace) -> str:
    """On this machine as many slots as lanes, because all of them run at once."""
    if not session.is_local(options.master):
        return str(options.master)
    return f"local[{max(options.lanes + options.consumer_lanes, os.cpu_count() or 1)}]"


def _step(command: ModuleType, arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    code = int(command.run(parser.parse_args(arguments)))
    sys.stdout.flush()
    return code
