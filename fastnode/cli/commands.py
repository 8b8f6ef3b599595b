"""The table of commands and the program's own help. Not here: what any command does."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

Run = Callable[[Sequence[str]], int]


class Command(msgspec.Struct, frozen=True):
    summary: str
    load: Callable[[], Run]


def _run() -> Run:
    from fastnode.cli.run import run

    return run


def _check() -> Run:
    from fastnode.cli.check import check

    return check


def _backup() -> Run:
    from fastnode.cli.backup import backup

    return backup


def _restore() -> Run:
    from fastnode.cli.restore import restore_command

    return restore_command


def _cluster() -> Run:
    from fastnode.cli.cluster import cluster

    return cluster


def _load() -> Run:
    from fastnode.cli.load import load

    return load


def _queue() -> Run:
    from fastnode.cli.queue import queue

    return queue


def _config() -> Run:
    from fastnode.cli.config import config

    return config


def _completion() -> Run:
    from fastnode.cli.completion import completion

    return completion


def _doctor() -> Run:
    from fastnode.cli.doctor import doctor

    return doctor


def _version() -> Run:
    from fastnode.cli.version import version

    return version


COMMANDS: Final[dict[str, Command]] = {
    "run": Command("start a node; without any flag one durable node on loopback", _run),
    "backup": Command("copy the state of a running node or cluster into a directory", _backup),
    "restore": Command("make the data directory of a new cluster of a backup", _restore),
    "check": Command("read a stopped node's data, or a backup, and show checksums", _check),
    "cluster": Command("show or change the cluster of a running node", _cluster),
    "load": Command("generate load by Spark, replay it, judge what came of it", _load),
    "queue": Command("list, show, create, fill, peek into, redrive and delete queues", _queue),
    "config": Command("write, check, show or convert a configuration file", _config),
    "doctor": Command("check this machine and the configuration, and say what to do", _doctor),
    "completion": Command("show a script that completes commands in a shell", _completion),
    "version": Command("show the version and how it was built", _version),
}


def help_text() -> str:
    lines = [f"  {name:<12}{command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: fastnode COMMAND [FLAG...]",
            "",
            "A durable message queue that speaks Amazon SQS.",
            "",
            "commands:",
            *lines,
            "",
            "'fastnode COMMAND --help' shows the flags of a command.",
            "",
        ]
    )
