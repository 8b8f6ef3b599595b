"""`fastnode check`: reads every row of a stopped node's groups, or of a backup, and shows one
checksum each.

It changes nothing but the lock it holds meanwhile. What was acknowledged and not yet flushed is in
the log, which is not applied here; a backup needs no log.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from fastnode.backup.manifest import BackupError, BackupGroup
from fastnode.backup.vault import Vault, has_backup, open_vault
from fastnode.cli.actions import Parser
from fastnode.data_format import FORMAT_NAME
from fastnode.datadir import STARTED_NAME, DataDir, open_data_dir
from fastnode.errors import StartError, UsageError
from fastnode.settings import Settings, load_settings
from fastnode.store.checksum import EMPTY_STATE, StateChecksum, state_checksum
from fastnode.store.cut import Marks, marks_of, misfit
from fastnode.store.engine import EngineError, RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.swap import state_path

_CACHE_BYTES: Final = 8 * 1_048_576


class _NodeId(msgspec.Struct, frozen=True):
    node_id: int


def check(arguments: Sequence[str]) -> int:
    """0 when every row of every group could be read."""
    given = check_parser().parse(arguments)
    if given.directory is not None and given.data_dir is not None:
        raise UsageError("name one directory: DIR or --data-dir DIR")
    named = given.directory if given.data_dir is None else given.data_dir
    flags = {} if named is None else {"data_dir": named}
    settings = load_settings(flags, os.environ)
    path = Path(settings.data_dir).absolute()
    if has_backup(path):
        _check_backup(path, given)
    else:
        _check_data(settings, given)
    return 0


def _check_data(settings: Settings, given: argparse.Namespace) -> None:
    data = open_existing(settings)
    try:
        for number in choose_groups(data.groups, given.group):
            _show(number, read_state(data, number), given)
    finally:
        data.close()


def _check_backup(path: Path, given: argparse.Namespace) -> None:
    with closing(open_vault(path)) as vault:
        groups = vault.manifest().groups
        for number in choose_groups(len(groups), given.group):
            _show(number, read_backup(vault, groups[number]), given)
        if given.group is None and (complaint := misfit_of(vault, groups)):
            raise BackupError(f"{path} does not fit together: {complaint}: use another backup")


def _show(number: int, state: StateChecksum, given: argparse.Namespace) -> None:
    sys.stdout.write(as_json(number, state) if given.json else describe(number, state))
    sys.stdout.flush()


def check_parser() -> Parser:
    parser = Parser(
        prog="fastnode check",
        usage="fastnode check [DIR | --data-dir DIR] [--group N] [--json]",
        description="Read the state of a stopped node, or a backup, and show a checksum of each"
        " group.",
    )
    parser.add_argument("directory", metavar="DIR", nargs="?", help="a data directory or a backup")
    parser.add_argument("--data-dir", metavar="DIR", help="the same")
    parser.add_argument("--group", metavar="N", help="this group only (default all)")
    parser.add_argument("--json", action="store_true", help="a JSON object per line")
    return parser


# --- a backup -------------------------------------------------------------------------------------


def read_backup(vault: Vault, group: BackupGroup) -> StateChecksum:
    """The files are those of the manifest, byte by byte, and they are a state."""
    for file in group.files:
        for _ in vault.pieces(file):
            pass
    with vault.laid_out(group) as path:
        try:
            state = _read_engine(path)
        except (EngineError, ValueError) as error:
            reason = str(error).removeprefix(f"{path}: ")
            shown = f"{vault.path}: group {group.group}"
            raise BackupError(f"{shown} is damaged: {reason}: use another backup") from error
    if state.position != group.manifest.position:
        raise BackupError(f"{vault.path}: group {group.group} is of another moment")
    return state


def misfit_of(vault: Vault, groups: Sequence[BackupGroup]) -> str:
    marks: list[Marks] = []
    for group in groups:
        with vault.laid_out(group) as path, closing(_open_engine(path)) as engine:
            marks.append(marks_of(engine, len(groups)))
    return misfit(marks)


# --- a data directory -----------------------------------------------------------------------------


def open_existing(settings: Settings) -> DataDir:
    """As a node would open it, but never made, and whichever node it belongs to."""
    path = Path(settings.data_dir).absolute()
    try:
        text = (path / FORMAT_NAME).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise StartError(
            f"{path} is not a fastnode data directory: name one with --data-dir"
        ) from None
    except OSError as error:
        raise StartError(f"cannot read {path / FORMAT_NAME}: {error.strerror}") from None
    try:
        node_id = msgspec.json.decode(text, type=_NodeId).node_id
    except msgspec.DecodeError:
        # Opening it says what is wrong with it.
        node_id = settings.node_id
    return open_data_dir(Settings(data_dir=settings.data_dir, node_id=node_id))


def choose_groups(count: int, group: str | None) -> Sequence[int]:
    if group is None:
        return range(count)
    if not (group.isascii() and group.isdigit() and len(group) < 10 and int(group) < count):
        raise UsageError(f"--group must be a whole number from 0 to {count - 1}, not {group}")
    return (int(group),)


def read_state(data: DataDir, group: int) -> StateChecksum:
    path = state_path(data.group_path(group))
    if not any(path.iterdir()):
        if (data.path / STARTED_NAME).exists():
            raise StartError(f"{path} is empty, its data is lost: restore it from a backup")
        return EMPTY_STATE
    try:
        return _read_engine(path)
    except (EngineError, ValueError) as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise StartError(f"{path} is damaged: {reason}: restore it from a backup") from error


def _read_engine(path: Path) -> StateChecksum:
    with closing(_open_engine(path)) as engine:
        return state_checksum(engine)


def _open_engine(path: Path) -> RocksEngine:
    shared = EngineShared(cache_bytes=_CACHE_BYTES, write_buffer_bytes=_CACHE_BYTES)
    return RocksEngine(path, shared, is_read_only=True)


def describe(group: int, state: StateChecksum) -> str:
    """The line that scripts compare; its shape is part of the interface."""
    index, _, commit_ts = state.position
    return (
        f"group {group:03d} applied={index} commit_ts={commit_ts} "
        f"rows={state.rows} checksum={state.checksum}\n"
    )


def as_json(group: int, state: StateChecksum) -> str:
    index, _, commit_ts = state.position
    shown = {"group": group, "applied": index, "commit_ts": commit_ts, "rows": state.rows}
    return json.dumps(shown | {"checksum": state.checksum}) + "\n"
