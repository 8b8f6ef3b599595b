"""`fastnode check` on the directories of real nodes: stopped, killed, running, damaged."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nodes import JsonClient, Node, environment

CHECK_SECONDS = 120.0
LINE = re.compile(r"group (\d{3}) applied=(\d+) commit_ts=(\d+) rows=(\d+) checksum=([0-9a-f]{32})")


def check(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fastnode", "check", "--data-dir", str(data_dir), *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=CHECK_SECONDS,
        check=False,
    )


def groups_of(data_dir: Path, *arguments: str) -> list[tuple[int, int, int, int, str]]:
    """(group, applied, commit_ts, rows, checksum) of each line."""
    ended = check(data_dir, *arguments)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    found = [LINE.fullmatch(line) for line in ended.stdout.splitlines()]
    return [
        (int(match[1]), int(match[2]), int(match[3]), int(match[4]), match[5])
        for match in found
        if match is not None
    ]


def refusal(data_dir: Path, *arguments: str) -> str:
    """The one line of a check that fails."""
    ended = check(data_dir, *arguments)
    assert ended.returncode == 1, ended
    assert re.fullmatch(r"fastnode: [^\n]+\n", ended.stderr), ended.stderr
    return ended.stderr


def send(node: Node, count: int, size: int = 10) -> None:
    client = JsonClient(node.sqs_url)
    url = client.call("CreateQueue", QueueName="jobs")["QueueUrl"]
    for number in range(count):
        client.call("SendMessage", QueueUrl=url, MessageBody=f"{number:0{size}d}")
    client.close()


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """The directory of a node with two groups that was stopped."""
    node = Node(tmp_path / "data", "--groups", "2")
    with node:
        send(node, 5, size=30_000)
        assert node.stop() == 0
    return node.data_dir


def test_stopped_node_has_a_line_per_group_and_checking_changes_nothing(used: Path) -> None:
    files = sorted(str(path) for path in used.rglob("*"))
    groups = groups_of(used)
    assert [group for group, *_ in groups] == [0, 1]
    assert any(rows > 5 for _, _, _, rows, _ in groups)
    assert groups_of(used) == groups
    assert groups_of(used, "--group", "1") == groups[1:]
    assert sorted(str(path) for path in used.rglob("*")) == files


def test_further_messages_show_in_the_line_of_their_group(used: Path) -> None:
    before = groups_of(used)
    with Node(used) as node:
        send(node, 1)
        assert node.stop() == 0
    after = groups_of(used)
    changed = [old[3] != new[3] for old, new in zip(before, after, strict=True)]
    assert sorted(changed) == [False, True]
    used_group = changed.index(True)
    assert after[used_group][1] > before[used_group][1]
    assert after[used_group][2] > before[used_group][2]
    assert after[used_group][4] != before[used_group][4]


def test_killed_node_shows_what_was_flushed_and_all_of_it_after_a_restart(tmp_path: Path) -> None:
    node = Node(tmp_path / "data", "--groups", "1")
    with node:
        send(node, 5)
        node.kill()
    ((_, applied, _, rows, _),) = groups_of(node.data_dir)
    assert rows < 5
    with Node(node.data_dir) as restarted:
        assert restarted.stop() == 0
    ((_, applied_later, _, rows_later, _),) = groups_of(node.data_dir)
    assert applied_later > applied
    assert rows_later > 5


def test_running_node_is_left_alone(tmp_path: Path) -> None:
    with Node(tmp_path / "data", "--groups", "1") as node:
        line = refusal(node.data_dir)
        assert f"is in use by process {node.process.pid}" in line
        send(node, 1)
        assert node.stop() == 0


def test_damaged_group_is_named_and_the_others_are_shown(used: Path) -> None:
    # The group that holds the bodies: they are in a blob file.
    (blob,) = used.glob("groups/*/*.blob")
    content = bytearray(blob.read_bytes())
    content[len(content) // 2] ^= 1
    blob.write_bytes(content)
    assert f"{blob.parent} is damaged: Corruption" in refusal(used, "--group", blob.parent.name)
    other = 1 - int(blob.parent.name)
    assert len(groups_of(used, "--group", str(other))) == 1


def test_emptied_group_is_lost_not_empty(used: Path) -> None:
    for path in (used / "groups" / "001").iterdir():
        path.unlink()
    assert "001 is empty, its data is lost" in refusal(used, "--group", "1")
    assert list((used / "groups" / "001").iterdir()) == []


def test_group_without_its_current_file_is_damaged(used: Path) -> None:
    (used / "groups" / "000" / "CURRENT").unlink()
    assert "000 is damaged" in refusal(used)


def test_state_of_an_interrupted_swap_is_found(used: Path) -> None:
    groups = groups_of(used)
    path = used / "groups" / "000"
    path.rename(used / "groups" / "000.ready")
    path.mkdir()
    assert groups_of(used) == groups


def test_directory_of_any_node_can_be_checked(tmp_path: Path) -> None:
    with Node(tmp_path / "data", "--groups", "1", "--node-id", "7") as node:
        assert node.stop() == 0
    assert len(groups_of(tmp_path / "data")) == 1


def test_directory_that_is_not_ours_is_refused_and_never_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("missing", "empty", "file"):
        assert "is not a fastnode data directory" in refusal(tmp_path / name)
    assert not (tmp_path / "missing").exists()
    assert list((tmp_path / "empty").iterdir()) == []


def test_newer_and_damaged_formats_are_refused(used: Path) -> None:
    text = (used / "FORMAT").read_text()
    (used / "FORMAT").write_text(json.dumps(json.loads(text) | {"format": 99}))
    assert "newer fastnode" in refusal(used)
    (used / "FORMAT").write_text("{")
    assert "FORMAT is damaged" in refusal(used)


def test_wrong_flags_are_usage_errors(used: Path) -> None:
    for arguments, words in {
        ("--group", "2"): "--group must be a whole number from 0 to 1, not 2",
        ("--group", "x"): "--group must be a whole number from 0 to 1, not x",
        ("--group",): "--group: expected one argument",
        ("--grop", "1"): "unknown flag --grop; did you mean --group?",
        ("more",): "name one directory: DIR or --data-dir DIR",
    }.items():
        ended = check(used, *arguments)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr == f"fastnode: {words}\n"
