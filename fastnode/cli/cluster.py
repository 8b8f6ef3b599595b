"""`fastnode cluster …`: asks the admin API of a node to show or change its cluster.

What is shown is made readable by `cluster_table.py`.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fastnode.cli.actions import Action, Parser, run_action, whole_number
from fastnode.cli.cluster_table import Status, describe
from fastnode.cli.node_client import ask_admin
from fastnode.cli.target import admin_of, with_admin, with_json
from fastnode.cli.terminal import as_json
from fastnode.errors import StartError
from fastnode.settings import PROOF_VARIABLE

ADMIN_DEFAULT: Final = "127.0.0.1:9325"
_PATH: Final = "/api/v1/cluster"


def cluster(arguments: Sequence[str]) -> int:
    """0 when the node did what it was asked, or showed its state, whatever state that is."""
    end = (
        f"--admin is the admin address of any member (default {ADMIN_DEFAULT}).\n"
        f"{PROOF_VARIABLE} is the token, if it asks for one."
    )
    return run_action("cluster", ACTIONS, arguments, end)


# --- the commands -------------------------------------------------------------------------------


def _status(given: argparse.Namespace) -> str:
    answer = _ask(given, "GET", "")
    if given.json:
        return as_json(answer)
    try:
        return describe(msgspec.convert(answer, Status, strict=False))
    except msgspec.ValidationError as error:
        raise StartError(f"the answer of the node is of another version: {error}") from error


def _add(given: argparse.Namespace) -> str:
    answer = _ask(given, "POST", "/members", {"node": given.node, "raft": given.raft})
    if given.json:
        return as_json(answer)
    return (
        f"node {given.node} is a learner and becomes a voter when it has caught up;"
        " 'fastnode cluster status' shows how far it is\n"
    )


def _remove(given: argparse.Namespace) -> str:
    answer = _ask(given, "DELETE", f"/members/{given.node}")
    if given.json:
        return as_json(answer)
    return f"node {given.node} is no longer a member; its data directory can be deleted\n"


def _transfer(given: argparse.Namespace) -> str:
    moved = _ask(given, "POST", "/transfer", _which(given) | {"to": given.to})
    if given.json:
        return as_json(moved)
    groups = ", ".join(map(str, moved["groups"]))
    led = f"groups {groups} too" if groups else "what it led before"
    minutes = round(moved["held_seconds"] / 60)
    return (
        f"node {given.to} now leads {led}; it keeps that for {minutes} minutes, unless it stops"
        " or leads are transferred again\n"
    )


def _snapshot(given: argparse.Namespace) -> str:
    answer = _ask(given, "POST", "/snapshot", _which(given))
    if given.json:
        return as_json(answer)
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


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text):
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text!r}")
    return float(text)


def _asking(parser: Parser) -> None:
    with_admin(parser)
    with_json(parser)


def _with_node(parser: Parser) -> None:
    parser.add_argument("node", metavar="NODE", type=whole_number, help="its --node-id")
    _asking(parser)


def _with_member(parser: Parser) -> None:
    _with_node(parser)
    parser.add_argument("raft", metavar="HOST:PORT", help="its --raft address")


def _with_group(parser: Parser) -> None:
    parser.add_argument(
        "--group", metavar="N", type=whole_number, help="this group only (default all)"
    )
    _asking(parser)


def _with_target(parser: Parser) -> None:
    parser.add_argument(
        "--to", metavar="NODE", type=whole_number, required=True, help="who shall lead"
    )
    _with_group(parser)


def _with_dev(parser: Parser) -> None:
    parser.add_argument("--nodes", metavar="N", type=whole_number, help="how many (default 3)")
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        default="./fastnode-cluster",
        help="where all of them keep their data (default ./fastnode-cluster)",
    )
    parser.add_argument("--groups", metavar="N", type=whole_number, help="as of fastnode run")
    parser.add_argument(
        "--port",
        metavar="BASE",
        type=whole_number,
        help="SQS port of node 1; admin and raft follow, then 10 more per node (default 9324)",
    )
    parser.add_argument(
        "--restart-after",
        metavar="SECONDS",
        type=_seconds,
        help="start a node that ended again, after so long (default: when told to)",
    )


ACTIONS: Final[dict[str, Action]] = {
    "status": Action(
        "status [--json]", "show the nodes, the groups and a verdict", _asking, _status
    ),
    "add": Action(
        "add NODE HOST:PORT", "let a node take part, by its --raft address", _with_member, _add
    ),
    "remove": Action("remove NODE", "take a node out, for good under this id", _with_node, _remove),
    "transfer": Action(
        "transfer --to NODE [--group N]",
        "hand the lead of groups to a node",
        _with_target,
        _transfer,
    ),
    "snapshot": Action(
        "snapshot [--group N]",
        "take a snapshot of each group, to see that it can be done and how large it is",
        _with_group,
        _snapshot,
    ),
    "dev": Action(
        "dev [--nodes N] [--data-dir DIR] …",
        "start a cluster on this machine, to try it",
        _with_dev,
        _dev,
    ),
}


def _ask(given: argparse.Namespace, method: str, path: str, body: object = None) -> Any:
    return ask_admin(admin_of(given), method, _PATH + path, body)
