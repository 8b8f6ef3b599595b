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
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from fastnode import __version__
from fastnode.errors import StartError, UsageError
from fastnode.settings import Settings

FORMAT_VERSION: Final = 1
LOCK_NAME: Final = "LOCK"
FORMAT_NAME: Final = "FORMAT"
STARTED_NAME: Final = "STARTED"
PEERS_NAME: Final = "PEERS"
CAPABLE_NAME: Final = "CAPABLE"
# A volume mounted as data directory is fresh when it holds nothing but ext4's lost+found.
_FILES_BEFORE_FORMAT: Final = frozenset({LOCK_NAME, FORMAT_NAME + ".tmp", "lost+found"})
_LOG_NAME: Final = "log"
_GROUPS_NAME: Final = "groups"
_FORMAT_BYTES_MAX: Final = 64 * 1024
_IDENTITY_MATCH: Final = re.compile(r"[0-9a-f]{32}").fullmatch


class DataDir:
    """An opened data directory, ours alone until `close` or the end of the process."""

    def __init__(self, path: Path, identity: "_Format", lock_descriptor: int) -> None:
        self.path: Final = path
        self.cluster_id: Final = identity.cluster_id
        # Tells this directory from one that another start under the same number began.
        self.incarnation: Final = bytes.fromhex(identity.incarnation or identity.cluster_id)
        self.node_id: Final = identity.node_id
        # Where the members are that this node was told of when it joined them.
        self.members: Final = identity.members
        self._founders = identity.founders
        self.groups: Final = identity.groups
        self._lock_descriptor: int | None = lock_descriptor

    @property
    def first_voters(self) -> list[int]:
        """Of a log that is new; whoever joins others waits until a leader says who they are."""
        return [] if self.members else sorted(self._founders) or [self.node_id]

    @property
    def log_path(self) -> Path:
        return self.path / _LOG_NAME

    def group_path(self, group: int) -> Path:
        assert 0 <= group < self.groups
        return _group_path(self.path, group)

    def mark_started(self) -> None:
        """The log exists and may be answered for from now on."""
        if not (self.path / STARTED_NAME).exists():
            _write_durably(self.path / STARTED_NAME, b"")

    def remember_peer(self, node: int, incarnation: bytes) -> bool:
        """False if the node is known by another incarnation. A node that is new is known durably
        from then on.
        """
        known = self._known_peers()
        if node not in known:
            known[node] = incarnation.hex()
            _write_durably(self.path / PEERS_NAME, msgspec.json.encode(known))
        return known[node] == incarnation.hex()

    def forget_peer(self, node: int) -> None:
        """Whoever comes under this number next is somebody else."""
        known = self._known_peers()
        if known.pop(node, None) is not None:
            _write_durably(self.path / PEERS_NAME, msgspec.json.encode(known))

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
            _write_durably(self.path / CAPABLE_NAME, text)

    def _known_peers(self) -> dict[int, str]:
        path = self.path / PEERS_NAME
        if not path.exists():
            return {}
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[int, str])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _refuse_damaged(path, str(error))

    def close(self) -> None:
        """Let the next process in. Idempotent."""
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None


class _Format(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of `FORMAT`; readers of a newer format rely on `format` staying where it is."""

    format: int
    node_id: int
    cluster_id: str
    groups: int
    created_by: str
    incarnation: str = ""
    members: dict[int, str] = {}
    # Numbers of the nodes that began the cluster together; none if one did, or it was joined.
    founders: tuple[int, ...] = ()


class Founding(msgspec.Struct, frozen=True):
    """What a new directory belongs to, if that is not a cluster of its own."""

    cluster_id: str
    groups: int
    incarnation: bytes
    # Where the members were when this one joined them, by number.
    members: dict[int, str] = {}


class _FormatVersion(msgspec.Struct, frozen=True):
    format: int


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


def _open(path: Path, settings: Settings, founding: Founding | None) -> DataDir:
    _make_directory(path)
    # Looked at before the lock, so that a directory we refuse is left without a trace of us, and
    # again under it, because the holder before us may have completed it in between.
    _check(path, _read_format(path), settings)
    lock_descriptor = _lock(path)
    with contextlib.ExitStack() as on_refusal:
        on_refusal.callback(os.close, lock_descriptor)
        identity = _read_format(path)
        _check(path, identity, settings)
        identity = identity or _create(path, settings, founding)
        on_refusal.pop_all()
    return DataDir(path, identity, lock_descriptor)


def _check(path: Path, identity: _Format | None, settings: Settings) -> None:
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
    for part in _parts(path, identity.groups):
        if not part.is_dir():
            raise StartError(
                f"{part} is missing, its data is lost: "
                f"restore {path} from a backup or use another --data-dir"
            )
    if (path / STARTED_NAME).exists() and not _holds_files(path / _LOG_NAME):
        raise StartError(
            f"{path / _LOG_NAME} is empty, its data is lost: "
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


def _read_format(path: Path) -> _Format | None:
    try:
        with (path / FORMAT_NAME).open("rb") as file:
            text = file.read(_FORMAT_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        version = msgspec.json.decode(text, type=_FormatVersion).format
        if version > FORMAT_VERSION:
            _refuse_newer(path, version)
        identity = msgspec.json.decode(text, type=_Format)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _refuse_damaged(path / FORMAT_NAME, str(error))
    if identity.format < 1 or identity.groups < 1 or identity.node_id < 1:
        _refuse_damaged(path / FORMAT_NAME, "a number in it is below 1")
    for name in (identity.cluster_id, identity.incarnation or identity.cluster_id):
        if not _IDENTITY_MATCH(name):
            _refuse_damaged(path / FORMAT_NAME, "an identity in it is not 32 hexadecimal digits")
    return identity


def _refuse_newer(path: Path, version: int) -> NoReturn:
    raise StartError(
        f"{path} was written by a newer fastnode "
        f"(format {version}, this one reads up to {FORMAT_VERSION}): "
        "upgrade fastnode or use another --data-dir"
    )


def _refuse_damaged(path: Path, reason: str) -> NoReturn:
    raise StartError(
        f"{path} is damaged ({reason}): restore it from a backup or use another --data-dir"
    )


def _create(path: Path, settings: Settings, founding: Founding | None) -> _Format:
    founding = founding or Founding(_cluster_id(settings), settings.groups, secrets.token_bytes(16))
    for part in _parts(path, founding.groups):
        _make_directory(part)
    identity = _Format(
        format=FORMAT_VERSION,
        node_id=settings.node_id,
        cluster_id=founding.cluster_id,
        groups=founding.groups,
        created_by=__version__,
        incarnation=founding.incarnation.hex(),
        members=founding.members,
        founders=tuple(settings.peer_addresses),
    )
    text = json.dumps(msgspec.to_builtins(identity), indent=2) + "\n"
    _write_durably(path / FORMAT_NAME, text.encode())
    return identity


def _cluster_id(settings: Settings) -> str:
    """Members that begin a cluster together find its name each for itself, and those that were told
    of different members find different ones.
    """
    if not settings.peers:
        return secrets.token_hex(16)
    founded = f"{settings.peers} {settings.groups}"
    return hashlib.sha256(founded.encode()).hexdigest()[:32]


def _parts(path: Path, groups: int) -> list[Path]:
    return [path / _LOG_NAME, *(_group_path(path, group) for group in range(groups))]


def _group_path(path: Path, group: int) -> Path:
    return path / _GROUPS_NAME / f"{group:03d}"


def _make_directory(path: Path) -> None:
    """Make it and its parents, each durable in the directory that names it."""
    if path.is_dir():
        return
    if not path.parent.exists():
        _make_directory(path.parent)
    path.mkdir(mode=0o700)
    _sync_directory(path.parent)


def _write_durably(path: Path, text: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
