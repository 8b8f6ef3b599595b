"""What a data directory says about itself, and how small files are written there. A leaf; a shell.

Who may use the directory, and what else is in it, is in `datadir.py`.
"""

import json
import os
import re
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from fastnode.errors import StartError

FORMAT_VERSION: Final = 2
# What a log that was never moved can be read by.
FORMAT_UNMOVED: Final = 1
FORMAT_NAME: Final = "FORMAT"
_FORMAT_BYTES_MAX: Final = 64 * 1024
_IDENTITY_MATCH: Final = re.compile(r"[0-9a-f]{32}").fullmatch


class Format(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The contents of `FORMAT`; readers of a newer format rely on `format` staying where it is."""

    format: int
    node_id: int
    cluster_id: str
    groups: int
    created_by: str
    incarnation: str = ""
    members: dict[int, str] = {}
    # Numbers of the nodes that began the cluster together; none if one did, or it was joined.
    founders: tuple[int, ...] = ()
    workers: int = 1
    # 0: the log was never moved.
    log_epoch: int = 0


class _FormatVersion(msgspec.Struct, frozen=True):
    format: int


def read_format(path: Path) -> Format | None:
    try:
        with (path / FORMAT_NAME).open("rb") as file:
            text = file.read(_FORMAT_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        version = msgspec.json.decode(text, type=_FormatVersion).format
        if version > FORMAT_VERSION:
            _refuse_newer(path, version)
        identity = msgspec.json.decode(text, type=Format)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        refuse_damaged(path / FORMAT_NAME, str(error))
    if min(identity.format, identity.groups, identity.node_id, identity.workers) < 1:
        refuse_damaged(path / FORMAT_NAME, "a number in it is below 1")
    for name in (identity.cluster_id, identity.incarnation or identity.cluster_id):
        if not _IDENTITY_MATCH(name):
            refuse_damaged(path / FORMAT_NAME, "an identity in it is not 32 hexadecimal digits")
    return identity


def _refuse_newer(path: Path, version: int) -> NoReturn:
    raise StartError(
        f"{path} was written by a newer fastnode "
        f"(format {version}, this one reads up to {FORMAT_VERSION}): "
        "upgrade fastnode or use another --data-dir"
    )


def refuse_damaged(path: Path, reason: str) -> NoReturn:
    raise StartError(
        f"{path} is damaged ({reason}): restore it from a backup or use another --data-dir"
    )


def write_format(path: Path, identity: Format) -> None:
    text = json.dumps(msgspec.to_builtins(identity), indent=2) + "\n"
    write_durably(path / FORMAT_NAME, text.encode())


def make_directory(path: Path) -> None:
    """Make it and its parents, each durable in the directory that names it."""
    if path.is_dir():
        return
    if not path.parent.exists():
        make_directory(path.parent)
    path.mkdir(mode=0o700)
    sync_directory(path.parent)


def write_durably(path: Path, text: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
