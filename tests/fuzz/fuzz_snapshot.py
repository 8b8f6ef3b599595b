"""Any manifest, and any chunks for a good one: a snapshot as somebody else sends it.

`m` and bytes: the manifest. `s` and steps of four bytes: offset from where it is, length, what is
wrong with it, and the first byte of its content. A chunk is refused and nothing has changed, or it
is what comes next; what is not the state that was announced is never installed.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Final

import xxhash

from fastnode.store.snapshot import (
    Chunk,
    ChunkRefused,
    Manifest,
    Receiver,
    SnapshotCorrupt,
    SnapshotFile,
    SnapshotVersion,
    decode_manifest,
    encode_manifest,
    seal_chunk,
)

CONTENTS: Final = {"CURRENT": bytes(range(100)), "000001.sst": b"", "MANIFEST-1": b"rows " * 12}
STREAM: Final = b"".join(CONTENTS.values())
GOOD: Final = Manifest(
    0,
    5,
    1,
    7,
    tuple(
        SnapshotFile(name, len(content), xxhash.xxh3_128_digest(content))
        for name, content in CONTENTS.items()
    ),
)
STEPS_MAX: Final = 24


def check(data: bytes) -> None:
    kind, rest = data[:1], data[1:]
    if kind in (b"m", b"b"):
        _announce(rest, is_sealed=kind == b"b")
    elif kind == b"s":
        with tempfile.TemporaryDirectory(dir=_place()) as directory:
            _stream(Path(directory) / "000", rest)


def _place() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _announce(data: bytes, *, is_sealed: bool) -> None:
    """Sealed: with a head that fits, so that what is inside is looked at."""
    head = encode_manifest(GOOD)[:1] + xxhash.xxh3_128_digest(data) if is_sealed else b""
    try:
        manifest = decode_manifest(head + data, Path("group"))
    except (SnapshotCorrupt, SnapshotVersion):
        return
    assert decode_manifest(encode_manifest(manifest), Path("group")) == manifest
    assert all("/" not in file.name and file.name != ".." for file in manifest.files)


def _stream(group: Path, data: bytes) -> None:
    receiver = Receiver(0, group, GOOD)
    try:
        for at in range(0, min(len(data), 4 * STEPS_MAX), 4):
            if len(step := data[at : at + 4]) == 4 and not _write(receiver, step):
                return
        try:
            receiver.verify()
        except (ChunkRefused, SnapshotCorrupt):
            return
        raise AssertionError("what is no state was accepted as one")
    finally:
        receiver.abort()
        shutil.rmtree(group, ignore_errors=True)


def _write(receiver: Receiver, step: bytes) -> bool:
    """False when only giving up is left."""
    shift, size, fault, first = step
    before = receiver.received_bytes
    offset = before + (shift - 256 if shift > 127 else shift)
    content = STREAM[max(offset, 0) : max(offset, 0) + size]
    if fault & 1:
        content = bytes([first]) + content[1:]
    chunk = seal_chunk(offset, content)
    if fault & 2:
        chunk = Chunk(chunk.offset, chunk.content, chunk.checksum ^ 1 << first % 64)
    try:
        receiver.write(chunk)
    except ChunkRefused:
        assert receiver.received_bytes == before
        return True
    except SnapshotCorrupt:
        return False
    assert offset == before and receiver.received_bytes == before + len(content)
    return receiver.received_bytes <= receiver.total_bytes
