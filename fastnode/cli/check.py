"""`fastnode check`: reads every row of a stopped node's groups and shows one checksum each.

It changes nothing but the lock it holds meanwhile. What was acknowledged and not yet flushed is in
the log, which is not applied here.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from fastnode.cli.actions import Parser
from fastnode.data_format import FORMAT_NAME
from fastnode.datadir import STARTED_NAME, DataDir, open_data_dir
from fastnode.errors import StartError, UsageError
from fastnode.settings import Settings, load_settings
from fastnode.store.checksum import EMPTY_STATE, StateChecksum, state_checksum
from fastnode.store.engine import EngineError, RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.swap import state_path

_CACHE_BYTES: Final = 8 * 1_048_576


class _NodeId(msgspec.Struct, frozen=True):
    node_id: int


def check(arguments: Sequence[str]) -> int:
    """0 when every row of every group could be read."""
    flags, group, is_json = parse_check_flags(arguments)
    settings = load_settings(flags, os.environ)
    data = open_existing(settings)
    try:
        for number in choose_groups(data, group):
            state = read_state(data, number)
            sys.stdout.write(as_json(number, state) if is_json else describe(number, state))
            sys.stdout.flush()
    finally:
        data.close()
    return 0


def parse_check_flags(arguments: Sequence[str]) -> tuple[dict[str, str], str | None, bool]:
    """The text given for the data directory, if any, and for the group; and whether JSON is wanted.
    `--help` prints, exits.
    """
    known = check_parser().parse(arguments)
    flags = {} if known.data_dir is None else {"data_dir": known.data_dir}
    return flags, known.group, known.json


def check_parser() -> Parser:
    parser = Parser(
        prog="fastnode check",
        usage="fastnode check [--data-dir DIR] [--group N] [--json]",
        description="Read the state of a stopped node and show a checksum of each group.",
    )
    parser.add_argument("--data-dir", metavar="DIR", help="the node's data directory")
    parser.add_argument("--group", metavar="N", help="this group only (default all)")
    parser.add_argument("--json", action="store_true", help="a JSON object per line")
    return parser


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


def choose_groups(data: DataDir, group: str | None) -> Sequence[int]:
    if group is None:
        return range(data.groups)
    if not (group.isascii() and group.isdigit() and len(group) < 10 and int(group) < data.groups):
        raise UsageError(f"--group must be a whole number from 0 to {data.groups - 1}, not {group}")
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
    shared = EngineShared(cache_bytes=_CACHE_BYTES, write_buffer_bytes=_CACHE_BYTES)
    engine = RocksEngine(path, shared, is_read_only=True)
    try:
        return state_checksum(engine)
    finally:
        engine.close()


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
