"""How a received state takes the place of a group's old one, so that a crash at any step leaves a
usable directory. Not here: what a state consists of and whether it is whole (`snapshot`).

Everything has a place beside the group's directory:

    groups/000             the state
    groups/000.outgoing    a checkpoint that is being sent
    groups/000.incoming    a snapshot that is being received; worthless until it is complete
    groups/000.backup      a checkpoint that a backup is made of
    groups/000.ready       a complete, verified, synced snapshot: from now on it *is* the state

The swap: rename `.incoming` to `.ready`, sync; empty the old directory, sync; rename `.ready` over
it, which POSIX allows for an empty directory; sync. The first rename is the only moment of
decision. Whoever starts before it finds the old state, whoever starts after it finishes the rest
with `recover_swap`, and `groups/000` exists at every step.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fastnode.errors import DiskFull, FastnodeError

OUTGOING: Final = "outgoing"
INCOMING: Final = "incoming"
READY: Final = "ready"
BACKUP: Final = "backup"
# A file of ours among those of RocksDB, which leaves it alone.
RESTORED: Final = "RESTORED"
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class SnapshotError(FastnodeError):
    """Taking or receiving a snapshot failed; the group's own state is as it was."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.path = path
        self.detail = detail


class Step(NamedTuple):
    """One change of the file system: the process may end before or after it, not within."""

    action: Callable[..., None]
    paths: tuple[Path, ...]


def plan_install(group_path: Path, old_names: Iterable[str]) -> list[Step]:
    """From a verified `.incoming`; `old_names` are what the group's directory holds."""
    incoming, ready = beside(group_path, INCOMING), beside(group_path, READY)
    decide = [Step(os.rename, (incoming, ready)), Step(sync_directory, (group_path.parent,))]
    return [*decide, *_plan_replace(group_path, old_names)]


def plan_recovery(group_path: Path, neighbours: Iterable[str], names: Iterable[str]) -> list[Step]:
    """`neighbours` are the names beside the group's directory, `names` those in it."""
    present = frozenset(neighbours)
    leftovers = [beside(group_path, word) for word in (INCOMING, OUTGOING, BACKUP)]
    clean = [Step(remove, (path,)) for path in leftovers if path.name in present]
    if beside(group_path, READY).name not in present:
        return clean
    return [*clean, *_plan_replace(group_path, names)]


def _plan_replace(group_path: Path, old_names: Iterable[str]) -> list[Step]:
    # The old directory is empty on disk before it is replaced, so that no file system has to keep
    # changes of two directories in order for us.
    return [
        *(Step(remove, (group_path / name,)) for name in old_names),
        Step(sync_directory, (group_path,)),
        Step(os.rename, (beside(group_path, READY), group_path)),
        Step(sync_directory, (group_path.parent,)),
    ]


def install_incoming(group_path: Path) -> None:
    """Make a verified `.incoming` the state. Nobody may have the old one open."""
    with typed_errors(group_path):
        run_steps(plan_install(group_path, names_in(group_path)))


def run_steps(steps: Iterable[Step]) -> None:
    for step in steps:
        perform(step)


def perform(step: Step) -> None:
    step.action(*step.paths)


def recover_swap(group_path: Path) -> bool:
    """At every start, before the engine is opened: finish a swap that was decided and remove what
    never became a state. Whether the state is a new one.
    """
    with typed_errors(group_path):
        has_swap = beside(group_path, READY).exists()
        neighbours = names_in(group_path.parent)
        run_steps(plan_recovery(group_path, neighbours, names_in(group_path)))
    return has_swap


def write_restored(directory: Path, text: bytes) -> None:
    """Into a state that nobody uses yet, such as a verified `.incoming`, so that it becomes the
    group's together with it: what the log has to know if the process ends before it was told.
    """
    path = directory / RESTORED
    with typed_errors(path):
        with path.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)


def read_restored(group_path: Path) -> bytes | None:
    """What the snapshot said that the state was last replaced by, if it ever was."""
    path = group_path / RESTORED
    with typed_errors(path):
        return path.read_bytes() if path.exists() else None


def state_path(group_path: Path) -> Path:
    """Where the state lies, for somebody who only reads: after a crash within a swap beside its
    own place.
    """
    ready = beside(group_path, READY)
    return ready if ready.exists() else group_path


def beside(group_path: Path, word: str) -> Path:
    return group_path.with_name(f"{group_path.name}.{word}")


def names_in(path: Path) -> list[str]:
    return sorted(os.listdir(path))


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def typed_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise DiskFull(f"{path}: {error.strerror}") from error
        raise SnapshotError(path, str(error.strerror)) from error
