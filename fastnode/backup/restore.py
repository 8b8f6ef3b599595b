"""A data directory made of a backup: one node that begins a new cluster. Shell; all of it blocks.

It is a new cluster because the old one may still run, or come back: a node of the one that talked
to the other would vote, or be sent a log, for another history. So the directory gets a name, an
incarnation and an only voter of its own, and forgets who the members were.

`FORMAT` is written last: a directory without it is none, and whatever fails before removes what was
made.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fastnode import __version__, native
from fastnode.backup.manifest import BackupError, BackupGroup, BackupManifest
from fastnode.backup.vault import Vault, told
from fastnode.clock import IdSource
from fastnode.cluster.member_records import MEMBERS_PREFIX
from fastnode.cluster.replication import encode_restored
from fastnode.data_format import (
    FORMAT_NAME,
    FORMAT_UNMOVED,
    FORMAT_VERSION,
    Format,
    make_directory,
    sync_directory,
    write_format,
)
from fastnode.datadir import group_path, parts_of
from fastnode.errors import FastnodeError
from fastnode.store.apply import load_position
from fastnode.store.engine import RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.swap import write_restored

_IDENTITY_BYTES: Final = 16
_ENGINE_BYTES: Final = 8 * 1_048_576
# What a file system has before anybody uses it.
_ALWAYS_THERE: Final = frozenset({"lost+found"})

# Told how many bytes are there, of how many.
OnProgress = Callable[[int, int], None]


class Restored(NamedTuple):
    cluster_id: str
    node_id: int
    groups: int
    total_bytes: int


def restore(
    vault: Vault, path: Path, node_id: int, ids: IdSource, on_progress: OnProgress
) -> Restored:
    """`BackupError` says why not, and then nothing is there that was not there before."""
    manifest = vault.manifest()
    _check_backup(vault, manifest)
    _check_empty(path)
    with _removed_on_failure(path, len(manifest.groups)):
        make_directory(path)
        _check_space(path, manifest.total_bytes)
        done = 0
        for part in parts_of(path, len(manifest.groups)):
            make_directory(part)
        for group in manifest.groups:
            for count in _copy(vault, group, group_path(path, group.group)):
                done += count
                on_progress(done, manifest.total_bytes)
            _settle(group, group_path(path, group.group), node_id)
        identity = _identity(manifest, node_id, ids)
        write_format(path, identity)
    return Restored(identity.cluster_id, node_id, len(manifest.groups), manifest.total_bytes)


def _check_backup(vault: Vault, manifest: BackupManifest) -> None:
    if manifest.data_format > FORMAT_VERSION:
        raise BackupError(
            f"{vault.path} is of a newer fastnode ({manifest.version}): restore it by that version"
        )
    for file in manifest.files.values():
        if not vault.has(file):
            raise BackupError(
                f"{vault.path} is cut short: {vault.file_path(file).name} is missing or has another"
                " size: use another backup"
            )


def _check_empty(path: Path) -> None:
    with told(path), contextlib.suppress(FileNotFoundError):
        found = sorted(set(os.listdir(path)) - _ALWAYS_THERE)
        if found:
            raise BackupError(
                f"{path} is not empty (it holds {found[0]!r}): restore into a new or an empty"
                " --data-dir"
            )


def _check_space(path: Path, wanted: int) -> None:
    space = os.statvfs(path)
    free = space.f_bavail * space.f_frsize
    if free < wanted:
        raise BackupError(
            f"{path} has room for {free:,} bytes, the backup has {wanted:,}: use another --data-dir"
        )


@contextlib.contextmanager
def _removed_on_failure(path: Path, groups: int) -> Iterator[None]:
    was_there = path.exists()
    try:
        with told(path):
            yield
    except BaseException:
        if was_there:
            for name in (FORMAT_NAME, FORMAT_NAME + ".tmp"):
                (path / name).unlink(missing_ok=True)
            for part in {part.relative_to(path).parts[0] for part in parts_of(path, groups)}:
                shutil.rmtree(path / part, ignore_errors=True)
        else:
            shutil.rmtree(path, ignore_errors=True)
        raise


def _copy(vault: Vault, group: BackupGroup, target: Path) -> Iterator[int]:
    """How much, after each piece."""
    for file in group.files:
        with (target / file.name).open("xb") as copy:
            for piece in vault.pieces(file):
                copy.write(piece)
                yield len(piece)
            copy.flush()
            os.fsync(copy.fileno())
    sync_directory(target)


def _settle(group: BackupGroup, path: Path, node_id: int) -> None:
    """A state that opens, without the members of the old cluster, and what the log begins with."""
    shared = EngineShared(cache_bytes=_ENGINE_BYTES, write_buffer_bytes=_ENGINE_BYTES)
    try:
        engine = RocksEngine(path, shared)
        try:
            position = load_position(engine)
            batch = engine.batch()
            batch.delete_range(MEMBERS_PREFIX, native.prefix_end(MEMBERS_PREFIX))
            engine.write(batch)
            engine.flush()
        finally:
            engine.close()
    except (FastnodeError, ValueError) as error:
        raise BackupError(f"group {group.group} does not open: {error}: use another backup") from (
            error
        )
    if position != group.manifest.position:
        raise BackupError(f"group {group.group} is of another moment: use another backup")
    write_restored(path, encode_restored((group.index, group.term, [node_id], [])))


def _identity(manifest: BackupManifest, node_id: int, ids: IdSource) -> Format:
    return Format(
        format=FORMAT_UNMOVED,
        node_id=node_id,
        cluster_id=ids.take(_IDENTITY_BYTES).hex(),
        groups=len(manifest.groups),
        created_by=__version__,
        incarnation=ids.take(_IDENTITY_BYTES).hex(),
    )
