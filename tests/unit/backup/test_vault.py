"""The directory of a backup: one complete backup at every moment, nothing strange, one writer."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import xxhash

from fastnode.backup.manifest import BackupError, BackupFile, BackupGroup
from fastnode.backup.vault import Vault, make_vault, open_vault
from tests.unit.backup.test_backup_manifest import MANIFEST


def file_of(name: str, content: bytes) -> BackupFile:
    return BackupFile(name, len(content), xxhash.xxh3_128_hexdigest(content))


OLD, KEPT, NEW = file_of("1.sst", b"old"), file_of("2.sst", b"kept"), file_of("3.sst", b"new")
FIRST = msgspec.structs.replace(MANIFEST, groups=[BackupGroup(0, 1, 1, 1, [OLD, KEPT])])
SECOND = msgspec.structs.replace(MANIFEST, groups=[BackupGroup(0, 2, 1, 2, [KEPT, NEW])])


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    made = make_vault(tmp_path / "backup")
    made.add(OLD, [b"o", b"ld"])
    made.add(KEPT, [b"kept"])
    made.commit(FIRST)
    yield made
    made.close()


def names(vault: Vault) -> set[str]:
    return {path.name for path in (vault.path / "files").iterdir()}


def test_the_next_backup_adds_what_is_new_and_removes_what_nobody_names(vault: Vault) -> None:
    assert vault.has(KEPT) and not vault.has(NEW)
    vault.add(NEW, [b"new"])
    assert vault.manifest() == FIRST
    assert b"".join(vault.pieces(OLD)) == b"old"
    vault.commit(SECOND)
    assert vault.manifest() == SECOND
    assert names(vault) == {KEPT.checksum, NEW.checksum}


def test_an_interrupted_backup_leaves_the_last_one_as_it_was(vault: Vault) -> None:
    def broken() -> Iterator[bytes]:
        yield b"ne"
        raise ConnectionError("cut")

    with pytest.raises(BackupError):
        vault.add(NEW, broken())
    assert not vault.has(NEW)
    assert vault.manifest() == FIRST
    assert b"".join(vault.pieces(OLD)) == b"old"
    vault.commit(FIRST)
    assert names(vault) == {OLD.checksum, KEPT.checksum}


def test_what_arrives_damaged_is_not_kept(vault: Vault) -> None:
    with pytest.raises(BackupError, match=r"3\.sst arrived damaged"):
        vault.add(NEW, [b"mew"])
    assert names(vault) == {OLD.checksum, KEPT.checksum}


def test_damage_on_disk_is_found(vault: Vault) -> None:
    path = vault.file_path(OLD)
    for content, words in ((b"odd", "its checksum is another"), (b"ol", "has 2 bytes, not 3")):
        path.write_bytes(content)
        with pytest.raises(BackupError, match=words):
            list(vault.pieces(OLD))
    path.unlink()
    with pytest.raises(BackupError, match="is missing"):
        list(vault.pieces(OLD))


def test_files_are_their_owners_alone(vault: Vault) -> None:
    assert vault.file_path(OLD).stat().st_mode & 0o077 == 0


def test_one_writes_or_many_read(vault: Vault) -> None:
    for opening in (make_vault, open_vault):
        with pytest.raises(BackupError, match="by another command"):
            opening(vault.path)


def test_a_directory_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(BackupError, match=r"holds 'photo\.jpg'"):
        make_vault(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(BackupError, match="is not a backup"):
            open_vault(path)
