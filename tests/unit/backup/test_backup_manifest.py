"""The manifest of a backup: it comes back as it was, and damage of any kind is one line."""

from pathlib import Path

import msgspec
import pytest
import xxhash

from fastnode.backup.manifest import (
    BackupError,
    BackupFile,
    BackupGroup,
    BackupManifest,
    decode_manifest,
    encode_manifest,
)

PATH = Path("BACKUP")
FILE = BackupFile("000012.sst", 3, xxhash.xxh3_128_hexdigest(b"abc"))
MANIFEST = BackupManifest(
    cluster="ab" * 16,
    node=1,
    version="0.1.0",
    data_format=2,
    began_ms=1,
    ended_ms=2,
    groups=[BackupGroup(0, 7, 2, 99, [FILE]), BackupGroup(1, 3, 2, 98, [FILE])],
)


def refused(text: bytes) -> str:
    with pytest.raises(BackupError) as raised:
        decode_manifest(text, PATH)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_what_is_written_is_read() -> None:
    text = encode_manifest(MANIFEST)
    assert text.startswith(b"fastnode-backup 1 ")
    assert decode_manifest(text, PATH) == MANIFEST
    assert MANIFEST.total_bytes == 6 and list(MANIFEST.files) == [FILE.checksum]


def test_every_prefix_and_every_changed_byte_is_refused() -> None:
    text = encode_manifest(MANIFEST)
    for end in range(0, len(text), 7):
        refused(text[:end])
    for at in range(0, len(text), 5):
        changed = bytearray(text)
        changed[at] ^= 1
        refused(bytes(changed))


def test_another_format_is_named() -> None:
    text = encode_manifest(MANIFEST).replace(b"fastnode-backup 1 ", b"fastnode-backup 2 ", 1)
    assert "is of backup format 2, this fastnode reads 1" in refused(text)


@pytest.mark.parametrize(
    "file",
    [
        msgspec.structs.replace(FILE, name="../../etc/passwd"),
        msgspec.structs.replace(FILE, name="LOCK"),
        msgspec.structs.replace(FILE, size=-1),
        msgspec.structs.replace(FILE, checksum="../" + FILE.checksum[3:]),
        msgspec.structs.replace(FILE, checksum="ab"),
    ],
)
def test_a_hostile_manifest_is_refused(file: BackupFile) -> None:
    groups = [BackupGroup(0, 7, 2, 99, [file])]
    assert "is damaged" in refused(
        encode_manifest(msgspec.structs.replace(MANIFEST, groups=groups))
    )


def test_groups_are_all_there_and_in_order() -> None:
    for groups in ([], MANIFEST.groups[1:], MANIFEST.groups[::-1]):
        changed = msgspec.structs.replace(MANIFEST, groups=groups)
        assert "the groups are not 0 to the last" in refused(encode_manifest(changed))
