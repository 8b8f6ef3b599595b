"""The data directory: who may use it and what it says about itself. A leaf; a shell.

Layout: `LOCK` (flock held for the life of the process, holds its pid), `FORMAT` (JSON, what the
directory is), `log/` (the replicated log) and `groups/<3 digits>/` (one state machine each). What
is inside `log/` and `groups/` belongs to the layers that write it.

Two rules keep strangers' files and other versions' data safe. A directory that is not ours, or that
a newer version wrote, is refused before anything in it changes. And `FORMAT` is written last, when
everything it vouches for exists: a directory with `FORMAT` but without its `log/` has lost data and
is refused, while one without `FORMAT` was never used and is completed. `STARTED` is written before
the first request is answered: from then on an empty `log/` is a lost log, not a new one. `PEERS`
holds the incarnation of every member this node ever spoke with, `CAPABLE` who could do what when
last heard.

A node that is one process has one log, in `log/` itself. Several workers have one each, in
`log/<epoch>/<worker>`; `FORMAT` says which epoch counts, so that writing it anew is what takes a
node from one number of workers to another (`workers/log_move.py`).
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
from pathlib import Path
from typing import Final

import msgspec

from fastnode import __version__
from fastnode.data_format import (
    FORMAT_NAME,
    FORMAT_UNMOVED,
    FORMAT_VERSION,
    Format,
    make_directory,
    read_format,
    refuse_damaged,
    write_durably,
    write_format,
)
from fastnode.errors import StartError, UsageError
from fastnode.settings import Settings

LOCK_NAME: Final = "LOCK"
STARTED_NAME: Final = "STARTED"
PEERS_NAME: Final = "PEERS"
CAPABLE_NAME: Final = "CAPABLE"
# A volume mounted as data directory is fresh when it holds nothing but ext4's lost+found.
_FILES_BEFORE_FORMAT: Final = frozenset({LOCK_NAME, FORMAT_NAME + ".tmp", "lost+found"})
_LOG_NAME: Final = "log"
_GROUPS_NAME: Final = "groups"


class DataDir:
    """An opened data directory, ours alone until `close` or the end of the process."""

    def __init__(self, path: Path, identity: Format, lock_descriptor: int) -> None:
        self.path: Final = path
        self.cluster_id: Final = identity.cluster_id
        # Tells this directory from one that another start under the same number began.
        self.incarnation: Final = bytes.fromhex(identity.incarnation or identity.cluster_id)
        self.node_id: Final = identity.node_id
        # Where the members are that this node was told of when it joined them.
        self.members: Final = identity.members
        self._founders = identity.founders
        self.groups: Final = identity.groups
        self._identity = identity
        self._lock_descriptor: int | None = lock_descriptor

    @property
    def first_voters(self) -> list[int]:
        """Of a log that is new; whoever joins others waits until a leader says who they are."""
        return [] if self.members else sorted(self._founders) or [self.node_id]

    @property
    def workers(self) -> int:
        """How many have a log here."""
        return self._identity.workers

    @property
    def log_epoch(self) -> int:
        return self._identity.log_epoch

    @property
    def log_path(self) -> Path:
        """Of a node that is one process."""
        assert self.workers == 1, "several workers have a log each"
        return self.worker_log_path(0)

    def worker_log_path(self, worker: int) -> Path:
        assert 0 <= worker < self.workers
        return worker_log_path(self.path, self.log_epoch, worker)

    def switch_logs(self, workers: int, log_epoch: int) -> None:
        """From now on, durably, the logs of that epoch count."""
        identity = msgspec.structs.replace(
            self._identity, format=FORMAT_VERSION, workers=workers, log_epoch=log_epoch
        )
        write_format(self.path, identity)
        self._identity = identity

    @property
    def lock_descriptor(self) -> int:
        """For processes of this node: whoever has it keeps other nodes out."""
        assert self._lock_descriptor is not None, "the directory is held"
        return self._lock_descriptor

    def group_path(self, group: int) -> Path:
        assert 0 <= group < self.groups
        return group_path(self.path, group)

    def mark_started(self) -> None:
        """The log exists and may be answered for from now on."""
        if not (self.path / STARTED_NAME).exists():
            write_durably(self.path / STARTED_NAME, b"")

    def remember_peer(self, node: int, incarnation: bytes) -> bool:
        """False if the node is known by another incarnation. A node that is new is known durably
        from then on.
        """
        known = self._known_peers()
        if node not in known:
            known[node] = incarnation.hex()
            write_durably(self.path / PEERS_NAME, msgspec.json.encode(known))
        return known[node] == incarnation.hex()

    def forget_peer(self, node: int) -> None:
        """Whoever comes under this number next is somebody else."""
        known = self._known_peers()
        if known.pop(node, None) is not None:
            write_durably(self.path / PEERS_NAME, msgspec.json.encode(known))

    def capable_peers(self, capability: str) -> frozenset[int]:
        """Who advertised the capability when last heard. A file that is no such list is nobody's
        word, and the members say it again.
        """
        try:
            text = (self.path / CAPABLE_NAME).read_bytes()
            return msgspec.json.decode(text, type=dict[str, frozenset[int]])[capability]
        except (FileNotFoundError, KeyError, msgspec.DecodeError, UnicodeDecodeError):
            return frozenset()

    def remember_capable(self, capability: str, nodes: frozenset[int]) -> None:
        text = msgspec.json.encode({capability: sorted(nodes)})
        # On a full disk the next start may have to hear somebody again.
        with contextlib.suppress(OSError):
            write_durably(self.path / CAPABLE_NAME, text)

    def _known_peers(self) -> dict[int, str]:
        path = self.path / PEERS_NAME
        if not path.exists():
            return {}
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[int, str])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            refuse_damaged(path, str(error))

    def close(self) -> None:
        """Let the next process in. Idempotent."""
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None


class Founding(msgspec.Struct, frozen=True):
    """What a new directory belongs to, if that is not a cluster of its own."""

    cluster_id: str
    groups: int
    incarnation: bytes
    # Where the members were when this one joined them, by number.
    members: dict[int, str] = {}


def is_new(settings: Settings) -> bool:
    """Whether no node has used the directory before."""
    return not (Path(settings.data_dir) / FORMAT_NAME).exists()


def open_data_dir(settings: Settings, founding: Founding | None = None) -> DataDir:
    """Create or open `settings.data_dir` and hold it; StartError or UsageError say why not."""
    # Absolute, so that a later change of the working directory cannot move the node's files.
    path = Path(settings.data_dir).absolute()
    try:
        return _open(path, settings, founding)
    except (NotADirectoryError, FileExistsError):
        raise StartError(
            f"{path} is not a directory: move it away or use another --data-dir"
        ) from None
    except OSError as error:
        raise StartError(
            f"cannot use the data directory {path}: {error.strerror}: "
            "make it writable for this user or use another --data-dir"
        ) from None


def adopt_data_dir(path: Path, lock_descriptor: int) -> DataDir:
    """The directory that a process holds which has passed its lock on to this one."""
    identity = read_format(path)
    assert identity is not None, "whoever holds the directory has made it"
    return DataDir(path, identity, lock_descriptor)


def recorded_workers(settings: Settings) -> int:
    """How many workers the directory is laid out for; 1 if it is new, or nobody can tell."""
    try:
        identity = read_format(Path(settings.data_dir).absolute())
    except OSError:
        return 1
    return 1 if identity is None else identity.workers


def _open(path: Path, settings: Settings, founding: Founding | None) -> DataDir:
    make_directory(path)
    # Looked at before the lock, so that a directory we refuse is left without a trace of us, and
    # again under it, because the holder before us may have completed it in between.
    _check(path, read_format(path), settings)
    lock_descriptor = _lock(path)
    with contextlib.ExitStack() as on_refusal:
        on_refusal.callback(os.close, lock_descriptor)
        identity = read_format(path)
        _check(path, identity, settings)
        identity = identity or _create(path, settings, founding)
        on_refusal.pop_all()
    return DataDir(path, identity, lock_descriptor)


def _check(path: Path, identity: Format | None, settings: Settings) -> None:
    if identity is None:
        _check_unused(path)
        return
    if identity.node_id != settings.node_id:
        raise UsageError(
            f"{path} belongs to node {identity.node_id}, not {settings.node_id}: "
            f"use --node-id {identity.node_id} or another --data-dir"
        )
    if "groups" in settings.explicit and identity.groups != settings.groups:
        raise UsageError(
            f"{path} has {identity.groups} groups, not {settings.groups}, and the number is fixed: "
            f"use --groups {identity.groups} or another --data-dir"
        )
    if settings.peers and identity.created_by and not identity.founders:
        raise UsageError(
            f"{path} belongs to a cluster that was not begun with --peers: start this node without "
            "it, and let others --join it, or use another --data-dir"
        )
    if settings.join and not identity.members:
        raise UsageError(
            f"{path} belongs to a cluster that this node did not join: start it without --join, "
            "or use another --data-dir"
        )
    for part in parts_of(path, identity.groups):
        if not part.is_dir():
            raise StartError(
                f"{part} is missing, its data is lost: "
                f"restore {path} from a backup or use another --data-dir"
            )
    logs = worker_log_path(path, identity.log_epoch, 0)
    if (path / STARTED_NAME).exists() and not (logs.exists() and _holds_files(logs)):
        raise StartError(
            f"{logs} is empty, its data is lost: "
            f"restore {path} from a backup or use another --data-dir"
        )


def _check_unused(path: Path) -> None:
    """Without FORMAT only what an interrupted creation leaves may be here: no file with content."""
    for entry in sorted(path.iterdir()):
        if entry.name in _FILES_BEFORE_FORMAT:
            continue
        if entry.name in (_LOG_NAME, _GROUPS_NAME) and not _holds_files(entry):
            continue
        raise StartError(
            f"{path} is not empty and not a fastnode data directory (it holds {entry.name!r}): "
            "use an empty or a new --data-dir"
        )


def _holds_files(path: Path) -> bool:
    return not path.is_dir() or any(files for _, _, files in os.walk(path))


def _lock(path: Path) -> int:
    descriptor = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise StartError(
            f"{path} is in use by process {holder or '(unknown)'}: "
            "stop that process or use another --data-dir"
        ) from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _create(path: Path, settings: Settings, founding: Founding | None) -> Format:
    founding = founding or Founding(_cluster_id(settings), settings.groups, secrets.token_bytes(16))
    for part in parts_of(path, founding.groups):
        make_directory(part)
    identity = Format(
        format=FORMAT_UNMOVED,
        node_id=settings.node_id,
        cluster_id=founding.cluster_id,
        groups=founding.groups,
        created_by=__version__,
        incarnation=founding.incarnation.hex(),
        members=founding.members,
        founders=tuple(settings.peer_addresses),
    )
    write_format(path, identity)
    return identity


def _cluster_id(settings: Settings) -> str:
    """Members that begin a cluster together find its name each for itself, and those that were told
    of different members find different ones.
    """
    if not settings.peers:
        return secrets.token_hex(16)
    founded = f"{settings.peers} {settings.groups}"
    return hashlib.sha256(founded.encode()).hexdigest()[:32]


def parts_of(path: Path, groups: int) -> list[Path]:
    """The directories that a data directory consists of."""
    return [path / _LOG_NAME, *(group_path(path, group) for group in range(groups))]


def worker_log_path(path: Path, log_epoch: int, worker: int) -> Path:
    logs = path / _LOG_NAME
    return logs / f"{log_epoch:06d}" / f"{worker:03d}" if log_epoch else logs


def group_path(path: Path, group: int) -> Path:
    return path / _GROUPS_NAME / f"{group:03d}"
