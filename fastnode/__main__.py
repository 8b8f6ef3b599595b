"""The `fastnode` program: picks a command and turns what it raises into one line and an exit code.

0 is success, 2 a wrong command line, environment or configuration file, 3 a node that does not
answer, 4 a queue that does not exist, 1 anything else. A bug is none of them: its traceback is
wanted and Python shows it.
"""

import os
import sys
from collections.abc import Sequence

from fastnode.cli.commands import COMMANDS, help_text
from fastnode.errors import FastnodeError, UsageError

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    try:
        exit_code = _dispatch(arguments)
        sys.stdout.flush()
        return exit_code
    except FastnodeError as error:
        return _complain(str(error), error.exit_code)
    except BrokenPipeError:
        # Whoever reads has seen enough (`| head`); Python must not find out again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except KeyboardInterrupt:
        # A running node handles the signal itself and stops cleanly; this one was not yet running.
        return _complain("interrupted", EXIT_FAILURE)


def _dispatch(arguments: Sequence[str]) -> int:
    if not arguments:
        sys.stderr.write(help_text())
        return EXIT_USAGE
    name, *rest = arguments
    if name in ("-h", "--help", "help"):
        sys.stdout.write(help_text())
        return EXIT_OK
    command = COMMANDS.get("version" if name == "--version" else name)
    if command is None:
        raise UsageError(f"unknown command {name!r}{_nearest_command(name)}")
    return command.load()(rest)


def _nearest_command(name: str) -> str:
    # Loaded late: only a wrong command line pays for the table of options.
    from fastnode.settings import nearest

    return nearest(name, COMMANDS) or "; see fastnode --help"


def _complain(message: str, exit_code: int) -> int:
    """One line, whatever the message quotes: scripts and log collectors read line by line."""
    sys.stderr.write(f"fastnode: {' '.join(message.splitlines())}\n")
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
