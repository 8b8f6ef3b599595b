"""The swap of a group's directory: a crash between any two steps, also within the recovery."""

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fastnode.errors import DiskFull
from fastnode.store import swap
from fastnode.store.swap import (
    BACKUP,
    INCOMING,
    OUTGOING,
    READY,
    SnapshotError,
    Step,
    beside,
    install_incoming,
    recover_swap,
    state_path,
)

OLD = {"CURRENT": "old", "1.sst": "old", "2.sst": "old"}
NEW = {"CURRENT": "new", "2.sst": "new", "7.blob": "new"}
STEPS_MAX = 50


class Crash(Exception):
    """The process ends here."""


def make(path: Path, files: dict[str, str]) -> None:
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name).write_text(text)


def files_in(path: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in path.iterdir()}


def crash_after(monkeypatch: pytest.MonkeyPatch, steps: int, act: Callable[[], object]) -> bool:
    """Do `act` but end before step number `steps`; whether it ended early."""
    left = steps

    def perform(step: Step) -> None:
        nonlocal left
        if left == 0:
            raise Crash
        left -= 1
        step.action(*step.paths)

    with monkeypatch.context() as patch:
        patch.setattr(swap, "perform", perform)
        try:
            act()
        except Crash:
            return True
    return False


def prepare(base: Path) -> Path:
    group_path = base / "groups" / "000"
    make(group_path, OLD)
    make(beside(group_path, INCOMING), NEW)
    make(base / "groups" / "001", OLD)
    return group_path


def assert_usable(group_path: Path, expected: dict[str, str]) -> None:
    assert files_in(group_path) == expected
    assert sorted(path.name for path in group_path.parent.iterdir()) == ["000", "001"]
    assert files_in(group_path.parent / "001") == OLD


def test_install_replaces_the_state_and_leaves_nothing_behind(tmp_path: Path) -> None:
    group_path = prepare(tmp_path)
    install_incoming(group_path)
    assert_usable(group_path, NEW)
    assert recover_swap(group_path) is False
    assert_usable(group_path, NEW)


def test_crash_at_any_step_leaves_the_old_or_the_new_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for steps in range(STEPS_MAX):
        group_path = prepare(tmp_path / str(steps))
        crashed = crash_after(monkeypatch, steps, partial(install_incoming, group_path))
        assert group_path.is_dir()
        before = files_in(state_path(group_path))
        is_new = recover_swap(group_path)
        expected = NEW if before == NEW else OLD
        assert before == expected
        assert is_new == (before == NEW and crashed and steps < len(OLD) + 4)
        assert_usable(group_path, expected)
        found.append(expected)
        if not crashed:
            break
    # Once decided never undone, and both outcomes were seen.
    assert found == sorted(found, key=lambda state: state == NEW)
    assert found[0] == OLD
    assert found.count(NEW) > len(OLD)


def test_crash_within_the_recovery_can_be_recovered_from_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for steps in range(len(OLD) + 5):
        for recovered in range(STEPS_MAX):
            group_path = prepare(tmp_path / f"{steps}-{recovered}")
            make(beside(group_path, OUTGOING), OLD)
            make(beside(group_path, BACKUP), OLD)
            crash_after(monkeypatch, steps, partial(install_incoming, group_path))
            crashed = crash_after(monkeypatch, recovered, partial(recover_swap, group_path))
            recover_swap(group_path)
            assert_usable(group_path, OLD if steps == 0 else NEW)
            if not crashed:
                break
        else:
            pytest.fail("the recovery never ended")


def test_decision_is_on_disk_before_the_old_state_is_touched(tmp_path: Path) -> None:
    group_path = prepare(tmp_path)
    rename, sync, *rest = swap.plan_install(group_path, sorted(OLD))
    assert rename.paths == (beside(group_path, INCOMING), beside(group_path, READY))
    assert sync == Step(swap.sync_directory, (group_path.parent,))
    assert [step.paths[0].name for step in rest if step.action is swap.remove] == sorted(OLD)
    assert rest[-1] == Step(swap.sync_directory, (group_path.parent,))


def test_start_removes_what_never_became_a_state(tmp_path: Path) -> None:
    group_path = prepare(tmp_path)
    make(beside(group_path, OUTGOING), OLD)
    assert recover_swap(group_path) is False
    assert_usable(group_path, OLD)


def test_directories_of_other_groups_are_nobodys_leftovers(tmp_path: Path) -> None:
    group_path = prepare(tmp_path)
    other = beside(group_path.parent / "001", INCOMING)
    make(other, NEW)
    recover_swap(group_path)
    assert files_in(other) == NEW


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EIO, SnapshotError)],
)
def test_failures_of_the_disk_are_typed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    expected: type[Exception],
) -> None:
    group_path = prepare(tmp_path)

    def fail(_: Step) -> None:
        raise OSError(number, "injected")

    monkeypatch.setattr(swap, "perform", fail)
    with pytest.raises(expected, match="injected"):
        install_incoming(group_path)
