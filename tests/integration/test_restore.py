"""`fastnode restore` of what cannot be restored, and the cluster that a restored node begins."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastnode.backup.manifest import decode_manifest, encode_manifest
from tests.integration.backup_kit import (
    admin_of,
    back_up,
    done,
    fastnode,
    fill,
    refusal,
    tree,
)
from tests.nodes import JsonClient, Node, Refused


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup with large messages, of a node that is gone."""
    folder = tmp_path_factory.mktemp("made")
    with Node(folder / "node", "--groups", "2") as node:
        fill(node, "jobs", 20, size=60_000)
        back_up(node, folder / "backup")
    return folder / "backup"


@pytest.fixture
def backup(made: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    shutil.copytree(made, tmp_path / "backup")
    return tmp_path / "backup"


def spoil_manifest(backup: Path, **changes: object) -> None:
    path = backup / "BACKUP"
    manifest = msgspec.structs.replace(decode_manifest(path.read_bytes(), path), **changes)
    path.write_bytes(encode_manifest(manifest))


def largest(backup: Path) -> Path:
    return max((backup / "files").iterdir(), key=lambda path: path.stat().st_size)


def cut_manifest(backup: Path) -> None:
    text = (backup / "BACKUP").read_bytes()
    (backup / "BACKUP").write_bytes(text[: len(text) // 2])


def cut_file(backup: Path) -> None:
    path = largest(backup)
    path.write_bytes(path.read_bytes()[:-1])


def change_byte(backup: Path) -> None:
    path = largest(backup)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def other_format(backup: Path) -> None:
    text = (backup / "BACKUP").read_bytes()
    (backup / "BACKUP").write_bytes(text.replace(b"fastnode-backup 1", b"fastnode-backup 9", 1))


SPOILED = {
    cut_manifest: "is damaged or cut short",
    cut_file: "cut short|bytes, not",
    lambda backup: largest(backup).unlink(): "cut short|is missing",
    change_byte: "its checksum is another",
    other_format: "is of backup format 9",
}


@pytest.mark.parametrize(("spoil", "words"), SPOILED.items(), ids=list(SPOILED.values()))
def test_a_spoiled_backup_is_refused_and_nothing_is_made(
    spoil: Any, words: str, backup: Path, tmp_path: Path
) -> None:
    spoil(backup)
    before = tree(backup)
    (tmp_path / "empty").mkdir()
    for target in ("new", "empty"):
        line = refusal("restore", str(backup), "--data-dir", str(tmp_path / target))
        assert any(word in line for word in words.split("|")), line
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "empty").iterdir()) == []
    ended = fastnode("check", str(backup))
    assert ended.returncode == 1 and any(word in ended.stderr for word in words.split("|"))
    assert tree(backup) == before


def test_a_backup_of_a_newer_version_is_refused(backup: Path, tmp_path: Path) -> None:
    spoil_manifest(backup, data_format=99, version="9.9.9")
    line = refusal("restore", str(backup), "--data-dir", str(tmp_path / "new"))
    assert "is of a newer fastnode (9.9.9)" in line


def test_only_an_empty_directory_is_restored_into(made: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "x").write_text("mine")
    (tmp_path / "file").write_text("mine")
    used = refusal("restore", str(made), "--data-dir", str(tmp_path / "used"))
    assert "used is not empty (it holds 'x'): restore into a new or an empty --data-dir" in used
    assert "Not a directory" in refusal("restore", str(made), "--data-dir", str(tmp_path / "file"))
    assert tree(tmp_path / "used") == {"x": b"mine"}
    for backup in (tmp_path / "used", tmp_path / "absent"):
        line = refusal("restore", str(backup), "--data-dir", str(tmp_path / "new"))
        assert "is not a backup" in line
    assert not (tmp_path / "new").exists()
    done("restore", str(made), "--data-dir", str(tmp_path / "new"))
    assert "is not empty" in refusal("restore", str(made), "--data-dir", str(tmp_path / "new"))


def test_wrong_flags_and_addresses_change_nothing(made: Path, tmp_path: Path) -> None:
    new = str(tmp_path / "new")
    for arguments, words in {
        ("restore",): "the following arguments are required: BACKUP",
        ("restore", str(made), "--data-dir", new, "--node-id", "0"): "--node-id must be from 1",
        ("restore", str(made), "--data-dir", new, "--node-id", "x"): "--node-id: must be a whole",
        ("backup",): "the following arguments are required: DIR",
        ("backup", new, "--rate", "fast"): "--rate: must be a whole number",
        ("backup", new, "--admin", "nowhere"): "--admin must be HOST:PORT",
    }.items():
        assert words in refusal(*arguments, code=2)
    line = refusal("backup", new, "--admin", "127.0.0.1:1", code=3)
    assert "no answer from 127.0.0.1:1" in line


def test_two_clusters_do_not_share_a_directory(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "backup")
    before = tree(tmp_path / "backup")
    with Node(tmp_path / "node", "--groups", "2") as node:
        line = refusal("backup", str(tmp_path / "backup"), *admin_of(node))
        assert "is a backup of cluster" in line and "name another directory" in line
        assert tree(tmp_path / "backup") == before
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "x.jpg").write_text("")
        assert "holds 'x.jpg'" in refusal("backup", str(tmp_path / "photos"), *admin_of(node))
        # Neither has left the node with a backup that stands in the way of the next.
        back_up(node, tmp_path / "good")


@pytest.fixture
def restored(made: Path, tmp_path: Path) -> Iterator[Node]:
    done("restore", str(made), "--data-dir", str(tmp_path / "new"), "--node-id", "5")
    with Node(tmp_path / "new", "--node-id", "5") as node:
        yield node


def test_a_restored_node_is_of_a_new_cluster_with_the_groups_of_the_old(
    restored: Node, made: Path
) -> None:
    manifest = decode_manifest((made / "BACKUP").read_bytes(), made / "BACKUP")
    status = json.loads(done("cluster", "status", "--json", *admin_of(restored)))
    assert status["cluster"] != manifest.cluster
    assert [node["id"] for node in status["nodes"]] == [5]
    assert [group["voters"] for group in status["groups"]] == [[5], [5]]
    client = JsonClient(restored.sqs_url)
    answer = client.call("ReceiveMessage", QueueUrl="jobs", MaxNumberOfMessages=10)
    assert len(answer["Messages"]) == 10
    with pytest.raises(Refused):
        client.call("GetQueueUrl", QueueName="absent")
    client.close()
