"""The directory of a backup: `BACKUP`, and in `files/` every file by the checksum of its content.
Shell; all of it blocks.

Another backup into the same directory only adds files that are not there, then replaces `BACKUP` by
a rename, then removes what nobody names any more. So whatever interrupts it, `BACKUP` and all that
it names are there, and what was fetched for the next one is not fetched again.
"""

import contextlib
import errno
import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import xxhash

from fastnode.backup.manifest import (
    MANIFEST_BYTES_MAX,
    BackupError,
    BackupFile,
    BackupGroup,
    BackupManifest,
    decode_manifest,
    encode_manifest,
)
from fastnode.data_format import make_directory, sync_directory, write_durably

MANIFEST_NAME: Final = "BACKUP"
READ_BYTES: Final = 1_048_576
_FILES_NAME: Final = "files"
_PART: Final = ".part"
_OWN: Final = frozenset({MANIFEST_NAME, MANIFEST_NAME + ".tmp", _FILES_NAME, "lost+found"})


class Vault:
    """Held until `close`: by many who read, or by one who writes."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._files = path / _FILES_NAME
        self._descriptor = descriptor

    def close(self) -> None:
        os.close(self._descriptor)

    # --- reading -------------------------------------------------------------------------------

    def manifest(self) -> BackupManifest:
        path = self.path / MANIFEST_NAME
        with told(path), path.open("rb") as file:
            return decode_manifest(file.read(MANIFEST_BYTES_MAX), path)

    def file_path(self, file: BackupFile) -> Path:
        return self._files / file.checksum

    def has(self, file: BackupFile) -> bool:
        """By name and size: a file gets its name when its content was verified and synced."""
        with contextlib.suppress(FileNotFoundError):
            return self.file_path(file).stat().st_size == file.size
        return False

    def pieces(self, file: BackupFile) -> Iterator[bytes]:
        """The content. Raises at the end if it is not what it was."""
        path, digest, size = self.file_path(file), xxhash.xxh3_128(), 0
        try:
            with told(path), path.open("rb") as opened:
                while piece := opened.read(READ_BYTES):
                    digest.update(piece)
                    size += len(piece)
                    yield piece
        except FileNotFoundError:
            raise BackupError(f"{path} is missing: {_REPAIR}") from None
        if size != file.size:
            raise BackupError(f"{path} has {size} bytes, not {file.size}: {_REPAIR}")
        if digest.hexdigest() != file.checksum:
            raise BackupError(f"{path} is damaged, its checksum is another: {_REPAIR}")

    @contextlib.contextmanager
    def laid_out(self, group: BackupGroup) -> Iterator[Path]:
        """A directory in which the group's files have their own names, to look at."""
        with tempfile.TemporaryDirectory(prefix="fastnode-") as name:
            for file in group.files:
                (Path(name) / file.name).symlink_to(self.file_path(file))
            yield Path(name)

    # --- writing -------------------------------------------------------------------------------

    def add(self, file: BackupFile, pieces: Iterable[bytes]) -> None:
        part, digest = self._files / (file.checksum + _PART), xxhash.xxh3_128()
        with told(part):
            with os.fdopen(_private(part), "wb") as opened:
                for piece in pieces:
                    digest.update(piece)
                    opened.write(piece)
                opened.flush()
                os.fsync(opened.fileno())
            if digest.hexdigest() != file.checksum:
                part.unlink()
                raise BackupError(f"{file.name} arrived damaged: back up again")
            part.rename(self.file_path(file))

    def commit(self, manifest: BackupManifest) -> None:
        """From now on, durably, this is the backup."""
        with told(self.path):
            sync_directory(self._files)
            write_durably(self.path / MANIFEST_NAME, encode_manifest(manifest))
            wanted = manifest.files
            for path in self._files.iterdir():
                if path.name not in wanted:
                    path.unlink()


_REPAIR: Final = "use another backup, or delete the file and back up into this directory again"


def has_backup(path: Path) -> bool:
    return (path / MANIFEST_NAME).is_file()


def open_vault(path: Path) -> Vault:
    """To read a backup. Nothing is changed."""
    if not has_backup(path):
        raise BackupError(f"{path} is not a backup: name the directory that one was made in")
    return Vault(path, _hold(path, fcntl.LOCK_SH))


def make_vault(path: Path) -> Vault:
    """To write the first backup or the next one."""
    with told(path):
        if path.exists() and not path.is_dir():
            raise BackupError(f"{path} is not a directory: name a new one")
        make_directory(path)
        if strange := sorted(set(os.listdir(path)) - _OWN):
            raise BackupError(
                f"{path} is not empty and no backup (it holds {strange[0]!r}): name a new directory"
            )
        vault = Vault(path, _hold(path, fcntl.LOCK_EX))
        make_directory(path / _FILES_NAME)
    return vault


def _hold(path: Path, how: int) -> int:
    with told(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise BackupError(f"{path} is being written or read by another command: wait") from None
    return descriptor


def _private(path: Path) -> int:
    """Messages are in it, whoever made the directory."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """What the system refuses, in one line; what is missing is the caller's to explain."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = ": free some space and try again" if full else ""
        raise BackupError(f"{error.filename or path}: {error.strerror}{hint}") from error
