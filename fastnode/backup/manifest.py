"""What a backup says about itself: the file `BACKUP`, a line and JSON. Pure.

The line has the format and a checksum of the rest, so a newer format is told from damage, and a
file that was cut short from a whole one.
"""

from pathlib import Path
from typing import Final

import msgspec
import xxhash

from fastnode.errors import FastnodeError
from fastnode.store.snapshot import Manifest, SnapshotFile, complaint_about

FORMAT: Final = 1
MANIFEST_BYTES_MAX: Final = 256 * 1_048_576
_MAGIC: Final = "fastnode-backup"
_GROUPS_MAX: Final = 1_024


class BackupError(FastnodeError):
    """The backup, or the directory for one, cannot be used; one line that says what to do."""


class BackupFile(msgspec.Struct, frozen=True):
    """`checksum` is that of the content, XXH3-128 in hexadecimal."""

    name: str
    size: int
    checksum: str


class BackupGroup(msgspec.Struct, frozen=True):
    group: int
    index: int
    term: int
    commit_ts: int
    files: list[BackupFile]

    @property
    def manifest(self) -> Manifest:
        files = tuple(
            SnapshotFile(file.name, file.size, bytes.fromhex(file.checksum)) for file in self.files
        )
        return Manifest(self.group, self.index, self.term, self.commit_ts, files)


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    node: int
    version: str
    data_format: int
    began_ms: int
    ended_ms: int
    groups: list[BackupGroup]

    @property
    def files(self) -> dict[str, BackupFile]:
        """By checksum: files of different groups may be the same."""
        return {file.checksum: file for group in self.groups for file in group.files}

    @property
    def total_bytes(self) -> int:
        return sum(file.size for group in self.groups for file in group.files)


def encode_manifest(manifest: BackupManifest) -> bytes:
    body = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
    return f"{_MAGIC} {FORMAT} {xxhash.xxh3_128_hexdigest(body)}\n".encode() + body


def decode_manifest(text: bytes, path: Path) -> BackupManifest:
    """`path` is the file, for the error."""
    line, _, body = text.partition(b"\n")
    words = line.decode("latin-1").split(" ")
    if len(words) != 3 or words[0] != _MAGIC or not words[1].isdigit():
        raise BackupError(f"{path} is not the manifest of a backup")
    if words[1] != str(FORMAT):
        raise BackupError(
            f"{path} is of backup format {words[1]}, this fastnode reads {FORMAT}: use the version"
            " that wrote it"
        )
    if xxhash.xxh3_128_hexdigest(body) != words[2]:
        raise BackupError(f"{path} is damaged or cut short: use another backup")
    try:
        manifest = msgspec.json.decode(body, type=BackupManifest)
    except msgspec.DecodeError as error:
        raise BackupError(f"{path} is damaged: {error}: use another backup") from error
    if complaint := _complaint(manifest):
        raise BackupError(f"{path} is damaged: {complaint}: use another backup")
    return manifest


def _complaint(manifest: BackupManifest) -> str | None:
    numbers = [group.group for group in manifest.groups]
    if not numbers or numbers != list(range(len(numbers))) or len(numbers) > _GROUPS_MAX:
        return "the groups are not 0 to the last"
    try:
        complaints = [complaint_about(group.manifest) for group in manifest.groups]
    except ValueError as error:
        return str(error)
    return next((f"it names {one}" for one in complaints if one), None)
