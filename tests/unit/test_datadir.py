"""The data directory: what is created, who is let in, what is refused untouched."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import fastnode
from fastnode.datadir import DataDir, Founding, is_new, open_data_dir
from fastnode.errors import StartError, UsageError
from fastnode.settings import Settings


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outer" / "node"


def settings_for(path: Path, **changes: object) -> Settings:
    explicit = frozenset(changes)
    return Settings(data_dir=str(path), **changes, explicit=explicit)  # type: ignore[arg-type]  # by name


@pytest.fixture
def created(path: Path) -> Iterator[DataDir]:
    data_dir = open_data_dir(settings_for(path, groups=3))
    yield data_dir
    data_dir.close()


def contents(path: Path) -> dict[str, tuple[bytes | None, int]]:
    """Every file below `path` with its bytes and time of change."""
    return {
        str(found.relative_to(path)): (
            found.read_bytes() if found.is_file() else None,
            found.stat().st_mtime_ns,
        )
        for found in sorted(path.rglob("*"))
    }


def change_format(path: Path, **changes: object) -> None:
    file = path / "FORMAT"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def refuse_untouched(settings: Settings, error: type[Exception]) -> str:
    path = Path(settings.data_dir)
    before = contents(path)
    with pytest.raises(error) as caught:
        open_data_dir(settings)
    assert contents(path) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_new_directory_is_private_and_complete(created: DataDir, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert created.path == path
    assert created.log_path == path / "log"
    assert [created.group_path(group) for group in range(3)] == [
        path / "groups" / name for name in ("000", "001", "002")
    ]
    assert created.log_path.is_dir()
    assert all(created.group_path(group).is_dir() for group in range(3))
    assert (path / "LOCK").read_text() == f"{os.getpid()}\n"


def test_format_file_says_what_the_directory_is(created: DataDir, path: Path) -> None:
    assert json.loads((path / "FORMAT").read_text()) == {
        "format": 1,
        "node_id": 1,
        "cluster_id": created.cluster_id,
        "groups": 3,
        "created_by": fastnode.__version__,
        "incarnation": created.incarnation.hex(),
    }
    assert len(bytes.fromhex(created.cluster_id)) == len(created.incarnation) == 16
    assert not (path / "FORMAT.tmp").exists()


def test_second_opening_finds_the_same_identity(created: DataDir, path: Path) -> None:
    created.close()
    again = open_data_dir(settings_for(path, groups=3))
    assert (again.cluster_id, again.node_id, again.groups) == (created.cluster_id, 1, 3)
    again.close()


def test_two_directories_are_two_clusters(tmp_path: Path) -> None:
    one, two = (open_data_dir(settings_for(tmp_path / name)) for name in "ab")
    assert one.cluster_id != two.cluster_id
    one.close()
    two.close()


def test_recorded_groups_beat_the_default(created: DataDir, path: Path) -> None:
    created.close()
    again = open_data_dir(settings_for(path))
    assert again.groups == 3
    again.close()


def test_relative_path_does_not_follow_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data_dir = open_data_dir(settings_for(Path("node")))
    assert data_dir.path == tmp_path / "node"
    data_dir.close()


def test_directory_in_use_names_the_holder(created: DataDir, path: Path) -> None:
    message = refuse_untouched(settings_for(path), StartError)
    assert message == (
        f"{path} is in use by process {os.getpid()}: stop that process or use another --data-dir"
    )


def test_closing_lets_the_next_one_in_and_may_be_repeated(created: DataDir, path: Path) -> None:
    created.close()
    created.close()
    open_data_dir(settings_for(path)).close()


def test_refused_opening_leaves_no_lock_behind(created: DataDir, path: Path) -> None:
    created.close()
    refuse_untouched(settings_for(path, groups=4), UsageError)
    open_data_dir(settings_for(path)).close()


def test_newer_format_is_refused_whatever_else_changed(created: DataDir, path: Path) -> None:
    created.close()
    (path / "FORMAT").write_text('{"format": 3, "groups": {"count": 3}}')
    message = refuse_untouched(settings_for(path), StartError)
    assert message == (
        f"{path} was written by a newer fastnode (format 3, this one reads up to 2): "
        "upgrade fastnode or use another --data-dir"
    )


def test_newer_format_without_a_lock_file_gets_none(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "FORMAT").write_text('{"format": 9}')
    refuse_untouched(settings_for(path), StartError)


def test_other_groups_are_refused_with_the_recorded_number(created: DataDir, path: Path) -> None:
    created.close()
    message = refuse_untouched(settings_for(path, groups=8), UsageError)
    assert "has 3 groups, not 8" in message
    assert "use --groups 3 or another" in message


def test_other_node_is_refused_with_the_recorded_number(created: DataDir, path: Path) -> None:
    created.close()
    message = refuse_untouched(settings_for(path, node_id=2), UsageError)
    assert "belongs to node 1, not 2: use --node-id 1" in message


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": "1"}', '{"format": 1}', '{"format": 1.5}', "\0" * 99]
)
def test_damaged_format_file_is_refused(created: DataDir, path: Path, text: str) -> None:
    created.close()
    (path / "FORMAT").write_text(text)
    message = refuse_untouched(settings_for(path), StartError)
    assert message.startswith(f"{path / 'FORMAT'} is damaged (")


@pytest.mark.parametrize("field", ["format", "groups", "node_id"])
def test_zero_in_the_format_file_is_damage(created: DataDir, path: Path, field: str) -> None:
    created.close()
    change_format(path, **{field: 0})
    assert "is damaged" in refuse_untouched(settings_for(path), StartError)


def test_directory_of_somebody_else_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "thesis.tex").write_text("years of work")
    message = refuse_untouched(settings_for(path), StartError)
    assert "is not empty and not a fastnode data directory (it holds 'thesis.tex')" in message


@pytest.mark.parametrize("name", ["log", "groups", "groups/000"])
def test_data_without_format_file_is_refused(path: Path, name: str) -> None:
    (path / name).mkdir(parents=True)
    (path / name / "segment").write_text("data")
    assert "is not empty" in refuse_untouched(settings_for(path), StartError)


@pytest.mark.parametrize("name", ["log", "groups", "groups/001"])
def test_missing_part_is_lost_data(created: DataDir, path: Path, name: str) -> None:
    created.close()
    (path / name).rename(path.parent / "elsewhere")
    message = refuse_untouched(settings_for(path), StartError)
    assert f"{path / name}" in message
    assert "its data is lost: restore" in message


def test_an_empty_log_is_new_only_before_the_first_start(created: DataDir, path: Path) -> None:
    created.close()
    open_data_dir(settings_for(path)).close()
    (created.log_path / "segment").write_bytes(b"blocks")
    created.mark_started()
    open_data_dir(settings_for(path)).close()
    (created.log_path / "segment").unlink()
    assert "its data is lost" in refuse_untouched(settings_for(path), StartError)


def test_interrupted_creation_is_completed(path: Path) -> None:
    (path / "groups" / "000").mkdir(parents=True)
    (path / "lost+found").mkdir()
    (path / "LOCK").write_text("99\n")
    (path / "FORMAT.tmp").write_text('{"for')
    data_dir = open_data_dir(settings_for(path))
    assert data_dir.group_path(data_dir.groups - 1).is_dir()
    data_dir.close()


def test_failed_creation_lets_the_next_one_in(path: Path) -> None:
    (path / "FORMAT.tmp").mkdir(parents=True)
    with pytest.raises(StartError, match="Is a directory"):
        open_data_dir(settings_for(path))
    (path / "FORMAT.tmp").rmdir()
    open_data_dir(settings_for(path)).close()


def test_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node").write_text("mine")
    with pytest.raises(StartError, match="node is not a directory: move it away"):
        open_data_dir(settings_for(tmp_path / "node"))
    assert (tmp_path / "node").read_text() == "mine"


def test_directory_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(StartError, match="cannot use the data directory /proc/fastnode: "):
        open_data_dir(settings_for(Path("/proc/fastnode")))


def test_name_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="File name too long"):
        open_data_dir(settings_for(tmp_path / ("n" * 300)))


# --- clusters -----------------------------------------------------------------------------------

PEERS = "1=127.0.0.1:7001,2=127.0.0.1:7002"


def identity(settings: Settings, founding: Founding | None = None) -> tuple[str, bytes, int, int]:
    data_dir = open_data_dir(settings, founding)
    data_dir.close()
    return data_dir.cluster_id, data_dir.incarnation, data_dir.node_id, data_dir.groups


def test_members_that_begin_together_find_one_name_and_keep_their_own_incarnations(
    tmp_path: Path,
) -> None:
    one = identity(settings_for(tmp_path / "a", peers=PEERS, node_id=1))
    two = identity(settings_for(tmp_path / "b", peers=PEERS, node_id=2))
    assert one[0] == two[0] and len(bytes.fromhex(one[0])) == 16
    assert one[1] != two[1] and len(one[1]) == 16


@pytest.mark.parametrize(
    "changes", [{"peers": PEERS.replace("7002", "7003")}, {"peers": PEERS, "groups": 4}]
)
def test_members_that_were_told_otherwise_find_another_name(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    one = identity(settings_for(tmp_path / "a", peers=PEERS))
    assert identity(settings_for(tmp_path / "b", **changes))[0] != one[0]


def test_a_directory_that_joins_belongs_to_the_cluster_it_was_told_of(path: Path) -> None:
    founding = Founding("ab" * 16, 5, b"\x07" * 16, {1: "127.0.0.1:7001"})
    settings = settings_for(path, node_id=9)
    assert is_new(settings)
    created = identity(settings, founding)
    assert created == ("ab" * 16, b"\x07" * 16, 9, 5)
    assert not is_new(settings)
    assert identity(settings) == created, "what is recorded counts from then on"
    assert identity(settings, Founding("cd" * 16, 7, b"\x08" * 16)) == created
    again = open_data_dir(settings)
    assert again.members == {1: "127.0.0.1:7001"}
    again.close()


def test_a_wiped_directory_is_another_incarnation(tmp_path: Path) -> None:
    one, two = (identity(settings_for(tmp_path / name, peers=PEERS)) for name in "ab")
    assert one[0] == two[0] and one[1] != two[1]


def test_a_directory_from_before_there_were_incarnations_goes_by_its_cluster(
    created: DataDir, path: Path
) -> None:
    created.close()
    text = json.loads((path / "FORMAT").read_text())
    del text["incarnation"]
    (path / "FORMAT").write_text(json.dumps(text))
    assert identity(settings_for(path))[1] == bytes.fromhex(created.cluster_id)


@pytest.mark.parametrize("field", ["incarnation", "cluster_id"])
@pytest.mark.parametrize("text", ["xyz", "abc", "ab"])
def test_an_identity_that_is_none_is_damage(
    created: DataDir, path: Path, field: str, text: str
) -> None:
    created.close()
    change_format(path, **{field: text})
    assert "is damaged" in refuse_untouched(settings_for(path), StartError)


def test_who_was_spoken_with_is_remembered_across_restarts(created: DataDir, path: Path) -> None:
    one, other = b"\x01" * 16, b"\x02" * 16
    assert created.remember_peer(2, one)
    assert created.remember_peer(2, one)
    assert created.remember_peer(3, other)
    created.close()
    again = open_data_dir(settings_for(path))
    assert again.remember_peer(2, one)
    assert not again.remember_peer(2, other), "another node under the same number"
    assert not again.remember_peer(3, one)
    assert again.remember_peer(2, one), "a refusal changes nothing"
    again.forget_peer(2)
    assert again.remember_peer(2, other)
    again.forget_peer(7)
    again.close()
    assert not (path / "PEERS.tmp").exists()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"x": "ab"}', b'{"2": 5}', b'{"2": "\xff"}'])
def test_a_damaged_list_of_peers_is_told_and_kept(
    created: DataDir, path: Path, text: bytes
) -> None:
    (path / "PEERS").write_bytes(text)
    with pytest.raises(StartError, match="PEERS is damaged"):
        created.remember_peer(2, b"\x01" * 16)
    assert (path / "PEERS").read_bytes() == text


def test_what_peers_can_do_is_remembered_across_restarts(created: DataDir, path: Path) -> None:
    assert created.capable_peers("dedup") == frozenset()
    created.remember_capable("dedup", frozenset({2, 3}))
    created.close()
    again = open_data_dir(settings_for(path))
    assert again.capable_peers("dedup") == {2, 3}
    assert again.capable_peers("other") == frozenset()
    again.close()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"dedup": 2}', b'{"dedup": ["\xff"]}'])
def test_a_damaged_list_of_capabilities_is_nobodys_word(
    created: DataDir, path: Path, text: bytes
) -> None:
    (path / "CAPABLE").write_bytes(text)
    assert created.capable_peers("dedup") == frozenset()
    created.remember_capable("dedup", frozenset({2}))
    assert created.capable_peers("dedup") == {2}


def test_what_cannot_be_written_down_is_not_remembered(created: DataDir, path: Path) -> None:
    created.remember_capable("dedup", frozenset({2}))
    (path / "CAPABLE.tmp").mkdir()
    created.remember_capable("dedup", frozenset({2, 3}))
    assert created.capable_peers("dedup") == {2}


JOINED = Founding("ab" * 16, 3, b"i" * 16, {1: "10.0.0.1:9326"})


@pytest.mark.parametrize(
    ("settings", "founding", "voters"),
    [
        ({}, None, [4]),
        ({"peers": "4=h:1,1=h:2,2=h:3"}, None, [1, 2, 4]),
        ({"join": "10.0.0.1:9326"}, JOINED, []),
    ],
)
def test_who_votes_first_is_the_directorys_business_whatever_later_flags_say(
    path: Path, settings: dict[str, str], founding: Founding | None, voters: list[int]
) -> None:
    chosen = settings_for(path, node_id=4, groups=3, **settings)
    with closing(open_data_dir(chosen, founding)) as made:
        assert made.first_voters == voters
    with closing(open_data_dir(settings_for(path, node_id=4))) as opened:
        assert opened.first_voters == voters


def test_a_directory_that_joined_nobody_does_not_join_later(created: DataDir, path: Path) -> None:
    created.close()
    settings = Settings(data_dir=str(path), groups=3, join="10.0.0.1:9326")
    with pytest.raises(UsageError, match="did not join: start it without --join"):
        open_data_dir(settings)
