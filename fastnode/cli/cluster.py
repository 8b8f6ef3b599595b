"""`fastnode cluster …`: asks the admin API of a node to show or change its cluster.

What is shown is made readable by `cluster_table.py`.
"""

import argparse
import http.client
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import urlsplit

import msgspec

from fastnode.cli.cluster_table import Status, describe
from fastnode.errors import StartError, UsageError
from fastnode.settings import nearest

ADMIN_DEFAULT: Final = "127.0.0.1:9325"
ANSWER_SECONDS: Final = 35.0
ANSWER_BYTES_MAX: Final = 16 * 1_048_576
_PATH: Final = "/api/v1/cluster"


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would print its usage and exit: the program owns both."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))


class _Action(NamedTuple):
    usage: str
    summary: str
    prepare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], str]
    # Of a cluster that runs; `dev` starts one.
    asks_a_node: bool = True


def cluster(arguments: Sequence[str]) -> int:
    """0 when the node did what it was asked, or showed its state, whatever state that is."""
    if not arguments or arguments[0] in ("-h", "--help"):
        (sys.stdout if arguments else sys.stderr).write(help_text())
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in ACTIONS:
        hint = nearest(name, ACTIONS) or "; see fastnode cluster --help"
        raise UsageError(f"unknown command cluster {name!r}{hint}")
    sys.stdout.write(ACTIONS[name].run(_parse(name, rest)))
    return 0


def help_text() -> str:
    lines = [f"  {action.usage:<44}{action.summary}" for action in ACTIONS.values()]
    return "\n".join(
        [
            "usage: fastnode cluster COMMAND [--admin HOST:PORT]",
            "",
            *lines,
            "",
            f"--admin is the admin address of any member (default {ADMIN_DEFAULT}).",
            "",
        ]
    )


def _parse(name: str, arguments: Sequence[str]) -> argparse.Namespace:
    action = ACTIONS[name]
    parser = _Parser(
        prog=f"fastnode cluster {name}",
        usage=f"fastnode cluster {action.usage}{' [--admin HOST:PORT]' * action.asks_a_node}",
        description=f"{action.summary.capitalize()}.",
        allow_abbrev=False,
    )
    if action.asks_a_node:
        parser.add_argument("--admin", metavar="HOST:PORT", default=ADMIN_DEFAULT)
    action.prepare(parser)
    known, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise UsageError(f"unknown argument {unknown[0]!r}; see fastnode cluster {name} --help")
    return known


# --- the commands -------------------------------------------------------------------------------


def _status(given: argparse.Namespace) -> str:
    text = _ask(given, "GET", "")
    if given.json:
        return json.dumps(json.loads(text), indent=2) + "\n"
    try:
        return describe(msgspec.json.decode(text, type=Status))
    except msgspec.DecodeError as error:
        raise StartError(f"the answer of {given.admin} is of another version: {error}") from error


def _add(given: argparse.Namespace) -> str:
    _ask(given, "POST", "/members", {"node": given.node, "raft": given.raft})
    return (
        f"node {given.node} is a learner and becomes a voter when it has caught up;"
        " 'fastnode cluster status' shows how far it is\n"
    )


def _remove(given: argparse.Namespace) -> str:
    _ask(given, "DELETE", f"/members/{given.node}")
    return f"node {given.node} is no longer a member; its data directory can be deleted\n"


def _transfer(given: argparse.Namespace) -> str:
    moved = json.loads(_ask(given, "POST", "/transfer", _which(given) | {"to": given.to}))
    groups = ", ".join(map(str, moved["groups"]))
    led = f"groups {groups} too" if groups else "what it led before"
    minutes = round(moved["held_seconds"] / 60)
    return (
        f"node {given.to} now leads {led}; it keeps that for {minutes} minutes, unless it stops"
        " or leads are transferred again\n"
    )


def _snapshot(given: argparse.Namespace) -> str:
    answer = json.loads(_ask(given, "POST", "/snapshot", _which(given)))
    return "".join(
        f"group {row['group']}: snapshot at index {row['index']}, term {row['term']},"
        f" {row['total_bytes']:,} bytes\n"
        for row in answer["snapshots"]
    )


def _dev(given: argparse.Namespace) -> str:
    from fastnode.cli.cluster_dev import dev

    chosen = {name: getattr(given, name) for name in ("nodes", "port", "groups")}
    wanted = {name: value for name, value in chosen.items() if value is not None}
    is_installed = Path(sys.argv[0]).name == "fastnode"
    program = sys.argv[0] if is_installed else f"{sys.executable} -m fastnode"
    dev(given.data_dir, wanted, given.restart_after, program)
    return ""


def _which(given: argparse.Namespace) -> dict[str, object]:
    return {"all": True} if given.group is None else {"group": given.group}


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text):
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text!r}")
    return float(text)


def _with_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as the node answers it")


def _with_node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", type=_number, help="its --node-id")


def _with_member(parser: argparse.ArgumentParser) -> None:
    _with_node(parser)
    parser.add_argument("raft", metavar="HOST:PORT", help="its --raft address")


def _with_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", metavar="N", type=_number, help="this group only (default all)")


def _with_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", metavar="NODE", type=_number, required=True, help="who shall lead")
    _with_group(parser)


def _with_dev(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", metavar="N", type=_number, help="how many (default 3)")
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        default="./fastnode-cluster",
        help="where all of them keep their data (default ./fastnode-cluster)",
    )
    parser.add_argument("--groups", metavar="N", type=_number, help="as of fastnode run")
    parser.add_argument(
        "--port",
        metavar="BASE",
        type=_number,
        help="SQS port of node 1; admin and raft follow, then 10 more per node (default 9324)",
    )
    parser.add_argument(
        "--restart-after",
        metavar="SECONDS",
        type=_seconds,
        help="start a node that ended again, after so long (default: when told to)",
    )


ACTIONS: Final[dict[str, _Action]] = {
    "status": _Action(
        "status [--json]", "show the nodes, the groups and a verdict", _with_json, _status
    ),
    "add": _Action(
        "add NODE HOST:PORT", "let a node take part, by its --raft address", _with_member, _add
    ),
    "remove": _Action(
        "remove NODE", "take a node out, for good under this id", _with_node, _remove
    ),
    "transfer": _Action(
        "transfer --to NODE [--group N]",
        "hand the lead of groups to a node",
        _with_target,
        _transfer,
    ),
    "snapshot": _Action(
        "snapshot [--group N]",
        "take a snapshot of each group, to see that it can be done and how large it is",
        _with_group,
        _snapshot,
    ),
    "dev": _Action(
        "dev [--nodes N] [--data-dir DIR] …",
        "start a cluster on this machine, to try it",
        _with_dev,
        _dev,
        asks_a_node=False,
    ),
}


# --- the admin API ------------------------------------------------------------------------------


def _ask(given: argparse.Namespace, method: str, path: str, body: object = None) -> str:
    """The body of the answer; `StartError` with the node's own reason if it was refused."""
    host, port = _parse_admin(given.admin)
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)
    try:
        encoded = None if body is None else json.dumps(body)
        connection.request(method, _PATH + path, encoded, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read(ANSWER_BYTES_MAX).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise StartError(_unreachable(given.admin, error)) from error
    finally:
        connection.close()
    if answer.status != 200:
        raise StartError(_refusal(given.admin, answer.status, text))
    return text


def _parse_admin(text: str) -> tuple[str, int]:
    """HOST:PORT, or the URL that the ready line shows."""
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        if parts.hostname and parts.port and parts.scheme in ("", "http"):
            return parts.hostname, parts.port
    except ValueError:
        pass
    raise UsageError(f"--admin must be HOST:PORT, not {text!r}")


def _unreachable(admin: str, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"no answer from {admin}: {reason}: start the node, or name another member with --admin"


def _refusal(admin: str, status: int, text: str) -> str:
    try:
        error: dict[str, Any] = json.loads(text)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return f"{admin} answered {status}: is it the admin address of a fastnode?"
    if code == "not_found":
        return f"the node at {admin} knows no clusters: is its version older than this command's?"
    if code == "unavailable":
        return f"{message}: try again, or ask another member with --admin"
    return message
