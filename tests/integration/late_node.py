"""A node whose wall clock is ahead, so that a test need not wait for days to pass.

    python -m tests.integration.late_node SECONDS -- run --data-dir DIRECTORY ...

The product is patched from outside, so it carries no code for this.
"""

import sys
from collections.abc import Sequence

from fastnode import __main__ as program
from fastnode.clock import SystemClock


def command_of(plain: Sequence[str], seconds: int) -> list[str]:
    """The command line that does what `python -m fastnode ...` does, so many seconds later."""
    python, _, _, *arguments = plain
    return [python, "-m", "tests.integration.late_node", str(seconds), "--", *arguments]


def main(arguments: Sequence[str]) -> int:
    seconds, separator, *rest = arguments
    assert separator == "--", "usage: late_node SECONDS -- run ..."
    shift_wall_clock(int(seconds) * 1_000_000_000)
    return program.main(rest)


def shift_wall_clock(ahead_ns: int) -> None:
    original = SystemClock.__init__

    def shifted(clock: SystemClock) -> None:
        original(clock)
        wall_ns = clock.wall_ns
        # A partial function for mypy, any callable for those who use it.
        setattr(clock, "wall_ns", lambda: wall_ns() + ahead_ns)  # noqa: B010

    # A method for mypy that nobody may replace.
    setattr(SystemClock, "__init__", shifted)  # noqa: B010


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
