"""`fastnode config …`: the configuration file, before a node has it."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fastnode.cli.actions import Action, Parser, run_action
from fastnode.cli.flags import add_options, texts_of
from fastnode.cli.target import with_json
from fastnode.cli.terminal import as_json, table
from fastnode.cli.toml_text import toml_value
from fastnode.errors import StartError, UsageError
from fastnode.settings import (
    CONFIG_VARIABLE,
    OPTIONS,
    Settings,
    load_settings,
)
from fastnode.settings_file import as_text, read_document

FILE_DEFAULT: Final = "fastnode.toml"
_TO_STDOUT: Final = "-"


def config(arguments: Sequence[str]) -> int:
    return run_action("config", ACTIONS, arguments)


# --- init -----------------------------------------------------------------------------------------

_HEAD: Final = """\
# Configuration of a fastnode. Start it with: fastnode run --config FILE
# A flag beats an environment variable, which beats this file. What is commented out is the default.
# On SIGHUP the node reads the log level, credentials, new queues and limits of queues again.
"""
_QUEUES: Final = """
# Queues that exist from the start, with attributes of CreateQueue; one that exists stays as it is.
# A dead-letter queue comes before those that use it. Names with a dot are quoted.
# [queues.orders-dead]
#
# [queues.orders]
# VisibilityTimeout = 45
# RedrivePolicy = '''{"maxReceiveCount": 5,
#   "deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:orders-dead"}'''
# tags = { team = "blue" }
#
# [queues."orders.fifo"]
# FifoQueue = true
"""


def example() -> str:
    """A file with every option and its default, all commented out."""
    parts = [
        f"\n# {option.summary[0].upper()}{option.summary[1:]} ({option.flag}, {option.variable}).\n"
        f"# {option.field} = {toml_value(option.default_text, option.toml_type)}\n"
        for option in OPTIONS
    ]
    return _HEAD + "".join(parts) + _QUEUES


def _init(given: argparse.Namespace) -> str:
    if given.file == _TO_STDOUT:
        return example()
    write_new(given.file, example(), is_forced=given.force)
    return f"{given.file}: edit it, then 'fastnode config check {given.file}'\n"


def write_new(path: str, text: str, *, is_forced: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if is_forced else os.O_EXCL)
    try:
        with open(os.open(path, flags, 0o644), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise StartError(f"{path} exists: name another, or add --force to replace it") from None
    except OSError as error:
        raise StartError(f"cannot write {path}: {error.strerror}") from None


# --- check and show -------------------------------------------------------------------------------


def _check(given: argparse.Namespace) -> str:
    path = given.file or os.environ.get(CONFIG_VARIABLE) or FILE_DEFAULT
    settings = load_settings({}, os.environ, config=path)
    check_all(settings)
    if given.json:
        return as_json({"file": path, "queues": sorted(settings.queues), "valid": True})
    return f"{path} is fine; it declares {len(settings.queues)} queues\n"


def check_all(settings: Settings) -> None:
    """What a node would refuse at its start, without a data directory. Raises `UsageError` or
    `StartError`.
    """
    from fastnode.http.credentials import read_credentials
    from fastnode.queue.predeclared import check_declared
    from fastnode.serve import declaration

    check_declared(declaration(settings))
    if settings.credentials:
        read_credentials(settings.credentials)


def _show(given: argparse.Namespace) -> str:
    is_json = given.json
    del given.json
    flags, path = texts_of(given)
    settings = load_settings(flags, os.environ, config=path)
    origins = origins_of(settings)
    values = {option.field: as_text(getattr(settings, option.field)) for option in OPTIONS}
    if is_json:
        shown = {name: {"value": values[name], "from": origins[name]} for name in values}
        return as_json({"settings": shown, "queues": settings.queues, "tags": settings.queue_tags})
    rows = [(name, value or "-", origins[name]) for name, value in values.items()]
    rows += [(f"queues.{name}", "declared", settings.config_file) for name in settings.queues]
    return table(("KEY", "VALUE", "FROM"), rows)


def origins_of(settings: Settings) -> dict[str, str]:
    """Where each value came from."""
    path = settings.config_file
    in_file = read_document(path).keys() if path else frozenset()
    origins = {}
    for option in OPTIONS:
        if option.field in settings.flags:
            origins[option.field] = option.flag
        elif option.variable in os.environ:
            origins[option.field] = option.variable
        else:
            origins[option.field] = path if option.field in in_file else "default"
    return origins


# --- from-elasticmq -------------------------------------------------------------------------------


def _from_elasticmq(given: argparse.Namespace) -> str:
    from fastnode.cli.elasticmq import convert

    try:
        text = Path(given.file).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {given.file}: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{given.file} is not UTF-8 text") from None
    try:
        converted = convert(text)
    except ValueError as error:
        raise UsageError(f"{given.file}: {error}") from None
    for warning in converted.warnings:
        sys.stderr.write(f"fastnode: {given.file}: {warning}\n")
    return converted.toml


def _with_new_file(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default=FILE_DEFAULT, help="- writes it to stdout"
    )
    parser.add_argument("--force", action="store_true", help="replace a file that exists")


def _with_file(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help=f"default {FILE_DEFAULT}")
    with_json(parser)


def _with_settings(parser: Parser) -> None:
    add_options(parser)
    with_json(parser)


def _with_elasticmq(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="ElasticMQ's configuration (HOCON)")


ACTIONS: Final[dict[str, Action]] = {
    "init": Action(
        "init [FILE]", "write a file with every option, explained", _with_new_file, _init
    ),
    "check": Action("check [FILE]", "see whether a node would take a file", _with_file, _check),
    "show": Action(
        "show [FLAG of run...]", "show every setting and where it comes from", _with_settings, _show
    ),
    "from-elasticmq": Action(
        "from-elasticmq FILE",
        "show the queues of an ElasticMQ file as TOML",
        _with_elasticmq,
        _from_elasticmq,
    ),
}
