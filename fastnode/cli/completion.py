"""`fastnode completion SHELL`: a script for the shell, which asks this program what may come next.

The answers come from the same tables as the help, so there is nothing to keep up to date; names of
queues come from the node, if it answers at once.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final

from fastnode.cli.actions import Action, Parser, parser_of
from fastnode.cli.commands import COMMANDS
from fastnode.errors import FastnodeError, UsageError
from fastnode.settings import nearest

_SUGGEST: Final = "suggest"
_NODE_SECONDS: Final = 0.5
# A shell expands what it is given: nothing else gets there.
_SAFE: Final = re.compile(r"[A-Za-z0-9._-]+")
_SCRIPTS: Final = {
    "bash": """\
# Load it with: source <(fastnode completion bash)
_fastnode() {
    local IFS=$'\\n'
    COMPREPLY=($(compgen -W "$(fastnode completion suggest -- \\
        "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _fastnode fastnode
""",
    "zsh": """\
#compdef fastnode
# Load it with: source <(fastnode completion zsh)
_fastnode() {
    local -a found
    found=(${(f)"$(fastnode completion suggest -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then compadd -- $found; else _files; fi
}
compdef _fastnode fastnode
""",
    "fish": """\
# Load it with: fastnode completion fish | source
complete -c fastnode -a '(fastnode completion suggest -- \\
    (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
""",
}


def completion(arguments: Sequence[str]) -> int:
    shells = " | ".join(_SCRIPTS)
    if not arguments or arguments[0] in ("-h", "--help"):
        (sys.stdout if arguments else sys.stderr).write(f"usage: fastnode completion {shells}\n")
        return 0 if arguments else 2
    shell, *words = arguments
    if shell == _SUGGEST:
        sys.stdout.write("".join(f"{word}\n" for word in suggest(words[1:] or [""])))
        return 0
    if shell not in _SCRIPTS or words:
        raise UsageError(f"unknown shell {shell!r}{nearest(shell, _SCRIPTS)}: {shells}")
    sys.stdout.write(_SCRIPTS[shell])
    return 0


def suggest(words: Sequence[str]) -> list[str]:
    """What the last word, which may be empty, can become; nothing if it may be anything."""
    *before, current = words
    found = [word for word in _candidates(before, current) if word.startswith(current)]
    return [word for word in found if _SAFE.fullmatch(word)]


def _candidates(before: Sequence[str], current: str) -> list[str]:
    if not before:
        return list(COMMANDS)
    command, *rest = before
    groups = _groups()
    if command in groups:
        actions = groups[command]
        if not rest:
            return list(actions)
        if rest[0] not in actions:
            return []
        return _of_parser(parser_of(command, rest[0], actions[rest[0]]), current, rest[1:])
    if command == "completion":
        return [] if rest else list(_SCRIPTS)
    return _flags_of(command, current)


def _of_parser(parser: Parser, current: str, given: Sequence[str]) -> list[str]:
    if current.startswith("-"):
        return [flag for flag in parser.flags if flag not in given]
    if given and given[-1].startswith("--"):
        # The value of a flag: a file, a number, anything; of some it is a queue.
        return _queue_names() if given[-1] in ("--dlq", "--to") else []
    takes_queue = "QUEUE" in parser.places
    return _queue_names() if takes_queue else parser.flags


def _groups() -> Mapping[str, Mapping[str, Action]]:
    from fastnode.cli import cluster, config, queue

    return {
        "cluster": cluster.ACTIONS,
        "config": config.ACTIONS,
        "queue": queue.ACTIONS,
    }


def _flags_of(command: str, current: str) -> list[str]:
    from fastnode.cli.backup import backup_parser
    from fastnode.cli.check import check_parser
    from fastnode.cli.doctor import doctor_parser
    from fastnode.cli.flags import build_parser
    from fastnode.cli.restore import restore_parser

    parsers = {
        "run": lambda: build_parser("run"),
        "doctor": doctor_parser,
        "check": check_parser,
        "backup": backup_parser,
        "restore": restore_parser,
    }
    if command not in parsers:
        return []
    parser = parsers[command]()
    # What takes a directory leaves it to the shell to offer some.
    return [] if parser.places and not current.startswith("-") else parser.flags


def _queue_names() -> list[str]:
    """Nothing while the node does not answer: completion never complains."""
    from fastnode.cli.node_client import SqsClient
    from fastnode.cli.queues import Queues, name_of
    from fastnode.cli.target import target_of

    nothing = argparse.Namespace(
        endpoint=None, admin=None, region=None, credentials=None, config=None, ca=None
    )
    try:
        with closing(SqsClient(target_of(nothing), _NODE_SECONDS)) as client:
            return [name_of(url) for url in Queues(client).urls()]
    except FastnodeError:
        return []
