"""The directory of a `fastnode cluster dev` and its ports, before any node is started. Shell.

`PLAN` says how the cluster was begun, `secret` is what its members prove to each other, `node1/`
and so on are the data directories of the nodes.
"""

import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from fastnode.cli import dev_plan
from fastnode.cli.dev_plan import Plan
from fastnode.errors import StartError, UsageError
from fastnode.option_values import Address

_PLAN_NAME: Final = "PLAN"
_KEY_NAME: Final = "secret"
# Until the plan is there, the directory is not in use.
_FILES_BEFORE_PLAN: Final = frozenset({_KEY_NAME, _PLAN_NAME + ".tmp"})


def open_directory(directory: Path, wanted: Mapping[str, int]) -> Plan:
    """The plan of the cluster that lives there, or a new one. Its ports are free."""
    path = directory / _PLAN_NAME
    try:
        if path.exists():
            plan = _read_plan(path)
            _check_same(directory, plan, wanted)
            _check_ports(plan)
        else:
            plan = Plan(**wanted)
            dev_plan.check_plan(plan)
            # First: a plan whose ports are taken must not be the one that stays.
            _check_ports(plan)
            _create(directory, plan)
    except OSError as error:
        reason = f"cannot use {directory}: {error.strerror}"
        raise StartError(f"{reason}: name another --data-dir") from error
    return plan


def _create(directory: Path, plan: Plan) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if {entry.name for entry in directory.iterdir()} - _FILES_BEFORE_PLAN:
        raise StartError(f"{directory} is not empty and no cluster: name another --data-dir")
    _write(directory / _KEY_NAME, secrets.token_hex(32).encode() + b"\n")
    temporary = directory / f"{_PLAN_NAME}.tmp"
    _write(temporary, msgspec.json.encode(plan))
    temporary.replace(directory / _PLAN_NAME)


def secret_path(directory: Path) -> str:
    return str(directory / _KEY_NAME)


def node_path(directory: Path, node: int) -> str:
    return str(directory / f"node{node}")


def _read_plan(path: Path) -> Plan:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Plan)
    except msgspec.DecodeError as error:
        raise StartError(f"{path} is damaged: {error}: use another --data-dir") from error


def _check_same(directory: Path, plan: Plan, wanted: Mapping[str, int]) -> None:
    for field, value in wanted.items():
        known = getattr(plan, field)
        if value != known:
            raise UsageError(
                f"{directory} was begun with --{field} {known}: leave --{field} out,"
                " or use another --data-dir"
            )


def _write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _check_ports(plan: Plan) -> None:
    """All of them before the first node is started, so that a taken one costs nothing."""
    every = [address for place in dev_plan.places(plan) for address in place[1:]]
    taken = [address for address in every if not _is_free(address)]
    if taken:
        raise StartError(dev_plan.describe_taken(plan, taken))


def _is_free(address: Address) -> bool:
    with socket.socket() as probe:
        # As the node's listeners: a port that only old connections remember is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError:
            return False
    return True
