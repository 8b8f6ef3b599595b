"""The command line: which commands there are, and one line for whatever goes wrong.

What a command does is in its module, which has `add_arguments(parser)` and `run(options) -> int`.
Exit codes: 0 done or verdict clean, 1 violations found, 2 wrong usage or it cannot run.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from spark_load.errors import LoadError
from spark_load.names import nearest

EXIT_OK: Final = 0
EXIT_VIOLATIONS: Final = 1
EXIT_USAGE: Final = 2


class Command(NamedTuple):
    module: str
    summary: str


COMMANDS: Final = {
    "run": Command("spark_load.run_all", "all of the following against a cluster, in one go"),
    "generate": Command("spark_load.generate", "make a trace from a workload file"),
    "import": Command("spark_load.import_log", "make a trace from an access log, CSV or Parquet"),
    "replay": Command("spark_load.replay.command", "send a trace to a cluster, record a history"),
    "verify": Command("spark_load.verify", "judge a history: lost, doubled, reordered, …"),
    "report": Command("spark_load.report.command", "draw one or two histories as an HTML page"),
}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except LoadError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        return _complain("interrupted")


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        (sys.stdout if arguments else sys.stderr).write(help_text())
        return EXIT_OK if arguments else EXIT_USAGE
    name, *rest = arguments
    command = COMMANDS.get(name)
    if command is None:
        raise LoadError(f"unknown command {name!r}{nearest(name, COMMANDS)}")
    module = importlib.import_module(command.module)
    parser = argparse.ArgumentParser(f"spark_load {name}", description=command.summary)
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(rest)))


def help_text() -> str:
    rows = "".join(f"  {name:<10}{command.summary}\n" for name, command in COMMANDS.items())
    return (
        "usage: fastnode load COMMAND …   (or: python -m spark_load COMMAND …)\n\n"
        f"{rows}\nCOMMAND --help lists its flags; docs/load.md has a tour.\n"
    )


def _complain(message: str) -> int:
    """One line, whatever the message quotes: scripts read line by line."""
    sys.stderr.write(f"spark_load: {' '.join(message.split())}\n")
    return EXIT_USAGE
