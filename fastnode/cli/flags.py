"""Command-line flags from the table of options. Not here: what the values mean (`settings.py`)."""

import argparse
from collections.abc import Sequence
from typing import Final

from fastnode.cli.actions import Parser
from fastnode.errors import UsageError
from fastnode.settings import CONFIG_VARIABLE, OPTIONS, Option, nearest

_CONFIG_FLAG: Final = "--config"
_CONFIG_SUMMARY: Final = f"TOML file with the same options as keys ({CONFIG_VARIABLE})"


def parse_flags(command: str, arguments: Sequence[str]) -> tuple[dict[str, str], str | None]:
    """The text given for each field, and the configuration file. `--help` prints and exits 0."""
    known, unknown = build_parser(command).parse_known_args(arguments)
    if unknown:
        raise UsageError(_describe_unknown(command, unknown[0]))
    return texts_of(known)


def texts_of(known: argparse.Namespace) -> tuple[dict[str, str], str | None]:
    texts: dict[str, str | None] = dict(vars(known))
    config = texts.pop("config")
    return {field: text for field, text in texts.items() if text is not None}, config


def build_parser(command: str) -> Parser:
    parser = Parser(
        prog=f"fastnode {command}",
        usage=f"fastnode {command} [FLAG...]",
        description="Every flag is also an environment variable and a key of the TOML file; "
        "flag beats variable beats file.",
    )
    add_options(parser)
    return parser


def add_options(parser: Parser) -> None:
    parser.add_argument(_CONFIG_FLAG, metavar="FILE", help=_CONFIG_SUMMARY)
    for option in OPTIONS:
        _add_option(parser, option)


def _add_option(parser: Parser, option: Option) -> None:
    summary = f"{option.summary} (default {option.default_text or 'none'}; {option.variable})"
    summary = summary.replace("%", "%%")
    if option.is_switch:
        # The optional value lets a flag clear what the environment or the file has set.
        parser.add_argument(
            option.flag, metavar="true|false", nargs="?", const="true", help=summary
        )
    else:
        parser.add_argument(option.flag, metavar=option.metavar, help=summary)


def _describe_unknown(command: str, argument: str) -> str:
    name = argument.partition("=")[0]
    if not name.startswith("-"):
        return f"unexpected argument {argument!r}; see fastnode {command} --help"
    hint = nearest(name, [_CONFIG_FLAG, "--help", *(option.flag for option in OPTIONS)])
    return f"unknown flag {name}{hint or f'; see fastnode {command} --help'}"
