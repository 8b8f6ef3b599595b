"""A group's state on its way to another node: taken, cut into chunks, received, verified.

A snapshot is a RocksDB checkpoint (hard links beside the group's own directory) and a manifest: the
group, its applied position, and every file with its size and checksum. The stream is the files one
after another in the manifest's order, so an offset names a place in it and a transfer that broke
goes on where it ended. Conflict table, counters and clock are rows and come along.

All functions here block: call them in a thread. Not here: how a received state takes the place of
the old one (`swap`), the network, when a snapshot is needed, and what the log must forget then.
"""

import contextlib
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol

import msgspec
import xxhash

from fastnode.errors import OperationError
from fastnode.store.apply import Position, load_position
from fastnode.store.engine import EngineError, RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.swap import (
    INCOMING,
    OUTGOING,
    READY,
    SnapshotError,
    beside,
    install_incoming,
    remove,
    sync_directory,
    typed_errors,
)

FORMAT_VERSION: Final = 1
CHUNK_BYTES_MAX: Final = 256 * 1024
# Table and blob files are about 64 MiB, so this is a terabyte.
FILES_MAX: Final = 16_384
MANIFEST_BYTES_MAX: Final = 4 * 1_048_576
STATE_BYTES_MAX: Final = 1 << 44

_CHECKSUM_BYTES: Final = 16
_HEAD_BYTES: Final = 1 + _CHECKSUM_BYTES
# The names RocksDB gives, and none that leaves the directory. LOCK is a node's own.
_FILE_NAME: Final = re.compile(r"(?!LOCK$)[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
_READ_BYTES: Final = 1_048_576
# For a look at one row of a checkpoint.
_LOOK_BYTES: Final = 1_048_576


class SnapshotCorrupt(SnapshotError):
    """The files are not those of the manifest, or the manifest is no manifest: begin again."""


class SnapshotVersion(SnapshotError):
    """A format that this version cannot read."""


class ChunkRefused(SnapshotError):
    """Not the chunk that comes next, or not whole. Nothing changed: go on from `offset`."""

    def __init__(self, path: Path, detail: str, offset: int) -> None:
        super().__init__(path, detail)
        self.offset = offset


class SnapshotBusy(OperationError):
    """The group's last snapshot is not discarded yet."""


class SnapshotFile(msgspec.Struct, frozen=True, array_like=True):
    name: str
    size: int
    checksum: bytes


class Manifest(msgspec.Struct, frozen=True, array_like=True):
    group: int
    applied_index: int
    term: int
    commit_ts: int
    files: tuple[SnapshotFile, ...]

    @property
    def position(self) -> Position:
        return Position(self.applied_index, self.term, self.commit_ts)


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """A part of one file. The checksum finds damage now, not at the end of a large file."""

    offset: int
    content: bytes
    checksum: int


class Place(NamedTuple):
    """An offset of the stream: which file, where in it, and how much of it is left."""

    file: int
    offset: int
    left: int


class Layout:
    """Where each file lies in the stream."""

    def __init__(self, files: Iterable[SnapshotFile]) -> None:
        self._ends = list(accumulate(file.size for file in files))
        self._starts = [0, *self._ends[:-1]]
        self.total_bytes = self._ends[-1] if self._ends else 0

    def locate(self, offset: int) -> Place:
        assert 0 <= offset < self.total_bytes
        # Empty files share their start with the next one, which is the one that holds the offset.
        file = bisect_right(self._starts, offset) - 1
        return Place(file, offset - self._starts[file], self._ends[file] - offset)


def encode_manifest(manifest: Manifest) -> bytes:
    body = msgspec.msgpack.encode(manifest)
    return bytes((FORMAT_VERSION,)) + xxhash.xxh3_128_digest(body) + body


def decode_manifest(encoded: bytes, path: Path) -> Manifest:
    """`path` is the group's directory, for the error."""
    if not _HEAD_BYTES < len(encoded) <= MANIFEST_BYTES_MAX:
        raise SnapshotCorrupt(path, f"a manifest of {len(encoded)} bytes")
    if encoded[0] != FORMAT_VERSION:
        raise SnapshotVersion(path, f"snapshot format {encoded[0]}, not {FORMAT_VERSION}")
    body = encoded[_HEAD_BYTES:]
    if xxhash.xxh3_128_digest(body) != encoded[1:_HEAD_BYTES]:
        raise SnapshotCorrupt(path, "the manifest is damaged")
    try:
        manifest = msgspec.msgpack.decode(body, type=Manifest)
    # ValueError: a name that is not UTF-8.
    except (msgspec.MsgspecError, ValueError) as error:
        raise SnapshotCorrupt(path, f"no manifest: {error}") from error
    if complaint := complaint_about(manifest):
        raise SnapshotCorrupt(path, complaint)
    return manifest


def complaint_about(manifest: Manifest) -> str | None:
    """What is wrong with a manifest that somebody else wrote."""
    files = manifest.files
    if min(manifest.group, *manifest.position) < 0:
        return "a negative number"
    if not 0 < len(files) <= FILES_MAX or len({file.name for file in files}) != len(files):
        return f"{len(files)} files, or one of them twice"
    for file in files:
        if not _FILE_NAME.fullmatch(file.name) or len(file.checksum) != _CHECKSUM_BYTES:
            return f"the file {file.name!r}"
    if min(file.size for file in files) < 0 or sum(file.size for file in files) > STATE_BYTES_MAX:
        return "a file of impossible size"
    return None


def seal_chunk(offset: int, content: bytes) -> Chunk:
    return Chunk(offset, content, xxhash.xxh3_64_intdigest(content))


class Checkpointed(Protocol):
    def checkpoint(self, path: Path) -> None: ...


class Snapshot:
    """A group's state at `manifest.position`, whatever the group does meanwhile."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._layout = Layout(manifest.files)
        self.total_bytes = self._layout.total_bytes

    def chunk(self, offset: int) -> Chunk:
        """What the stream holds at `offset`, up to the end of a file."""
        place = self._layout.locate(offset)
        size = min(place.left, CHUNK_BYTES_MAX)
        path = self.path / self.manifest.files[place.file].name
        with typed_errors(path), path.open("rb") as file:
            content = os.pread(file.fileno(), size, place.offset)
        if len(content) != size:
            raise SnapshotCorrupt(path, "shorter than when the snapshot was taken")
        return seal_chunk(offset, content)

    def chunks(self, offset: int = 0) -> Iterator[Chunk]:
        while offset < self.total_bytes:
            chunk = self.chunk(offset)
            yield chunk
            offset += len(chunk.content)

    def discard(self) -> None:
        """Give the disk space back. Idempotent."""
        with typed_errors(self.path):
            remove(self.path)


def take_snapshot(engine: Checkpointed, group: int, group_path: Path) -> Snapshot:
    """One at a time per group, because it lies in a place that a start can clean."""
    path = beside(group_path, OUTGOING)
    if path.exists():
        raise SnapshotBusy(f"{path} is still being sent")
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(remove, path)
        engine.checkpoint(path)
        manifest = describe(path, group)
        on_failure.pop_all()
    return Snapshot(path, manifest)


def describe(
    path: Path, group: int, describe_file: Callable[[Path], SnapshotFile] | None = None
) -> Manifest:
    """Of a checkpoint; `describe_file` may know files from another time."""
    names = sorted(os.listdir(path))
    if len(names) > FILES_MAX:
        raise SnapshotError(path, f"{len(names)} files, {FILES_MAX} at most")
    one = describe_file or summed_file
    files = tuple(one(path / name) for name in names)
    # From the checkpoint itself: the engine may have gone on since.
    return Manifest(group, *position_in(path), files)


def summed_file(path: Path, pace: Callable[[int], None] = lambda _count: None) -> SnapshotFile:
    """`pace` is told how much was read, and may take its time."""
    digest, size = xxhash.xxh3_128(), 0
    with typed_errors(path), path.open("rb") as file:
        while content := file.read(_READ_BYTES):
            digest.update(content)
            size += len(content)
            pace(len(content))
    return SnapshotFile(path.name, size, digest.digest())


def position_in(path: Path) -> Position:
    shared = EngineShared(cache_bytes=_LOOK_BYTES, write_buffer_bytes=_LOOK_BYTES)
    engine = RocksEngine(path, shared, is_read_only=True)
    try:
        return load_position(engine)
    finally:
        engine.close()


class Receiver:
    """Takes the chunks of one snapshot in order; `write` all, `verify`, then `install`."""

    def __init__(self, group: int, group_path: Path, manifest: Manifest) -> None:
        if manifest.group != group:
            raise SnapshotCorrupt(group_path, f"a snapshot of group {manifest.group}, not {group}")
        assert not beside(group_path, READY).exists(), "recover_swap comes first"
        self.manifest = manifest
        self.received_bytes = 0
        self._layout = Layout(manifest.files)
        self.total_bytes = self._layout.total_bytes
        self._group_path = group_path
        self._path = beside(group_path, INCOMING)
        self._file: BinaryIO | None = None
        self._digest = xxhash.xxh3_128()
        self._is_verified = False
        with typed_errors(self._path):
            remove(self._path)
            self._path.mkdir(mode=0o700)

    def write(self, chunk: Chunk) -> None:
        """`ChunkRefused` and `DiskFull` leave everything as it was: go on from `received_bytes`.
        After any other error only `abort` is left.
        """
        if complaint := self._refuse(chunk):
            raise ChunkRefused(self._path, complaint, self.received_bytes)
        place = self._layout.locate(chunk.offset)
        with typed_errors(self._path):
            if self._file is None:
                self._open(self.manifest.files[place.file])
            self._put(chunk.content, place.offset)
            if place.left == len(chunk.content):
                self._complete(self.manifest.files[place.file])
        self.received_bytes += len(chunk.content)

    def verify(self) -> None:
        """All there, on disk, and a state that opens: RocksDB itself has the last word."""
        if self.received_bytes < self.total_bytes:
            raise ChunkRefused(self._path, "the rest is missing", self.received_bytes)
        with typed_errors(self._path):
            for file in self.manifest.files:
                if file.size == 0:
                    self._open(file)
                    self._complete(file)
            self._open_state()
            sync_directory(self._path)
        self._is_verified = True

    def install(self) -> None:
        """Replace the group's state. Its engine is closed before and opened after.

        After an error nobody can tell how far it came: stop, and let `recover_swap` finish it.
        """
        assert self._is_verified
        self._is_verified = False
        install_incoming(self._group_path)

    def abort(self) -> None:
        """Forget what was received. Idempotent; harmless after `install`."""
        self._is_verified = False
        if self._file is not None:
            self._file.close()
            self._file = None
        with typed_errors(self._path):
            remove(self._path)

    def _refuse(self, chunk: Chunk) -> str | None:
        if chunk.offset != self.received_bytes:
            return f"a chunk of offset {chunk.offset}, not {self.received_bytes}"
        if not 0 < len(chunk.content) <= CHUNK_BYTES_MAX:
            return f"a chunk of {len(chunk.content)} bytes"
        if chunk.checksum != xxhash.xxh3_64_intdigest(chunk.content):
            return "the chunk is damaged"
        if chunk.offset == self.total_bytes:
            return "a chunk behind the end"
        if self._layout.locate(chunk.offset).left < len(chunk.content):
            return "a chunk of more than one file"
        return None

    def _open(self, file: SnapshotFile) -> None:
        self._file = (self._path / file.name).open("wb", buffering=0)
        self._digest = xxhash.xxh3_128()

    def _put(self, content: bytes, offset: int) -> None:
        """At its own offset, so that a chunk that found no space can be written again."""
        assert self._file is not None
        done = 0
        while done < len(content):
            done += os.pwrite(self._file.fileno(), content[done:], offset + done)
        # Begin to write it back now, and without waiting: a whole file at once, when it is synced,
        # would hold up the log on the same disk.
        os.posix_fadvise(self._file.fileno(), offset, done, os.POSIX_FADV_DONTNEED)
        self._digest.update(content)

    def _complete(self, file: SnapshotFile) -> None:
        assert self._file is not None
        with self._file as written:
            self._file = None
            try:
                os.fsync(written.fileno())
            except OSError as error:
                # What reached the disk is unknown now, so a full disk is no reason to go on later.
                raise SnapshotError(self._path / file.name, str(error.strerror)) from error
        if self._digest.digest() != file.checksum:
            raise SnapshotCorrupt(self._path / file.name, "not the file that was sent")

    def _open_state(self) -> None:
        try:
            position = position_in(self._path)
        except (EngineError, ValueError) as error:
            raise SnapshotCorrupt(self._path, f"does not open: {error}") from error
        if position != self.manifest.position:
            raise SnapshotCorrupt(self._path, f"{position}, not {self.manifest.position}")
