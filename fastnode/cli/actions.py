"""Commands that have commands of their own (`cluster`, `queue`, `config`): how one is found, its
flags are read and its help is shown. Not here: what any of them does.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from fastnode.errors import UsageError
from fastnode.settings import nearest


class Parser(argparse.ArgumentParser):
    """Raises where argparse would print its usage and exit: the program owns both. It remembers
    what it was told to take, for shell completion.
    """

    def __init__(self, **options: Any) -> None:
        self.flags: list[str] = []
        self.places: list[str] = []
        super().__init__(**options, allow_abbrev=False)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        flags = [name for name in names if name.startswith("--")]
        self.flags += flags
        if not flags and not names[0].startswith("-"):
            self.places.append(options.get("metavar", names[0]))
        return super().add_argument(*names, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """As `parse_args`; what is unknown is named, with the nearest that is known."""
        known, unknown = self.parse_known_args(arguments)
        for argument in unknown:
            name = argument.partition("=")[0]
            if name.startswith("-"):
                hint = nearest(name, self.flags) or f"; see {self.prog} --help"
                raise UsageError(f"unknown flag {name}{hint}")
            raise UsageError(f"unknown argument {argument!r}; see {self.prog} --help")
        return known


class Action(NamedTuple):
    """`run` returns the text to show; whatever goes wrong, it raises."""

    usage: str
    summary: str
    prepare: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], str]


def run_action(
    group: str, actions: Mapping[str, Action], arguments: Sequence[str], help_end: str = ""
) -> int:
    """`fastnode GROUP ACTION …`: 0, or an error is raised."""
    if not arguments or arguments[0] in ("-h", "--help"):
        stream = sys.stdout if arguments else sys.stderr
        stream.write(_help_text(group, actions, help_end))
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in actions:
        hint = nearest(name, actions) or f"; see fastnode {group} --help"
        raise UsageError(f"unknown command {group} {name!r}{hint}")
    sys.stdout.write(actions[name].run(parser_of(group, name, actions[name]).parse(rest)))
    return 0


def parser_of(group: str, name: str, action: Action) -> Parser:
    parser = Parser(
        prog=f"fastnode {group} {name}",
        usage=f"fastnode {group} {action.usage}",
        description=f"{action.summary[0].upper()}{action.summary[1:]}.",
    )
    action.prepare(parser)
    return parser


def _help_text(group: str, actions: Mapping[str, Action], end: str) -> str:
    width = max(len(action.usage) for action in actions.values()) + 2
    lines = [f"  {action.usage:<{width}}{action.summary}" for action in actions.values()]
    more = f"'fastnode {group} COMMAND --help' shows the flags of a command."
    parts = [f"usage: fastnode {group} COMMAND [FLAG...]", "", *lines, "", more]
    return "\n".join([*parts, *([end] if end else []), ""])


# --- values of flags ------------------------------------------------------------------------------


def whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    return int(text)


def pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, not {text!r}")
    return name, value
