"""What `fastnode doctor` looks at: one function per thing, each with what was seen and what to do.

Limits are those at which a node becomes noticeably worse, not those at which it fails.
"""

import ctypes
import enum
import errno
import os
import platform
import resource
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fastnode import config
from fastnode.cli.node_client import ask_admin
from fastnode.cli.version import facts
from fastnode.clock import SystemClock
from fastnode.data_format import FORMAT_NAME
from fastnode.errors import FastnodeError
from fastnode.option_values import Address
from fastnode.settings import Settings
from fastnode.upkeep import disk_space, reserve_bytes

_SYNCS: Final = 32
_SYNC_BYTES: Final = b"\x00" * 4_096
_SYNC_SLOW_MS: Final = 10.0
_SYNC_TOO_SLOW_MS: Final = 100.0
# Faster than any disk that keeps what it promises.
_SYNC_UNREAL_MS: Final = 0.005
_MEMORY_BYTES_MIN: Final = 512 * 1_048_576
_GIB: Final = 1 << 30
_ADMIN_SECONDS: Final = 2.0
_DAY_SECONDS: Final = 86_400
_NS_PER_SECOND: Final = 1_000_000_000
_CLOCK_OFF_MS: Final = 500
_TIME_ERROR: Final = 5
_MEMORY_FILE_SYSTEMS: Final = frozenset({"tmpfs", "ramfs"})
_NETWORK_FILE_SYSTEMS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})


class Verdict(enum.StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


class Finding(NamedTuple):
    check: str
    verdict: Verdict
    seen: str
    advice: str = ""


Findings = Iterator[Finding]


# --- what is installed ----------------------------------------------------------------------------


def versions(_settings: Settings) -> Findings:
    found = facts()
    yield Finding(
        "versions",
        Verdict.OK,
        f"fastnode {found['fastnode']}, Python {found['python']}, "
        f"{platform.system()} {platform.release()}",
    )
    native, raft = found["native_modules"], found["raft_extension"]
    if raft != "present":
        yield Finding(
            "raft extension", Verdict.FAIL, "missing", "no node can start: run make build"
        )
    if native == "compiled":
        yield Finding("compiled modules", Verdict.OK, "all of them are in use")
    else:
        yield Finding(
            "compiled modules",
            Verdict.WARN,
            f"{native}: a node is several times slower",
            "unset FASTNODE_PURE, or run make build",
        )


# --- the disk -------------------------------------------------------------------------------------


def disk(settings: Settings) -> Findings:
    place = _existing(Path(settings.data_dir).absolute())
    if not os.access(place, os.W_OK | os.X_OK):
        yield Finding(
            "data directory",
            Verdict.FAIL,
            f"{place} cannot be written to",
            "give it to the user that runs the node, or choose another with --data-dir",
        )
        return
    yield _file_system(place)
    yield _space(place)
    yield _sync_time(place, settings)


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _file_system(place: Path) -> Finding:
    kind = _file_system_of(place)
    if kind in _MEMORY_FILE_SYSTEMS:
        return Finding(
            "file system",
            Verdict.WARN,
            f"{place} is on {kind}, in memory: a reboot loses it",
            "choose a directory on a disk with --data-dir",
        )
    if kind in _NETWORK_FILE_SYSTEMS:
        return Finding(
            "file system",
            Verdict.WARN,
            f"{place} is on {kind}: locks and fsync may not hold",
            "choose a directory on a local disk with --data-dir",
        )
    return Finding("file system", Verdict.OK, f"{place} is on {kind}")


def _file_system_of(place: Path) -> str:
    """By the longest mount point above it."""
    found = ("", "an unknown file system")
    try:
        mounts = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return found[1]
    for line in mounts:
        _, point, kind, *_ = line.split(" ")
        point = point.encode().decode("unicode_escape")
        if place.is_relative_to(point) and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1]


def _space(place: Path) -> Finding:
    free, total = disk_space(place)
    reserve = reserve_bytes(total)
    seen = (
        f"{free / _GIB:.1f} GiB of {total / _GIB:.1f} GiB are free, {reserve / _GIB:.1f} reserved"
    )
    if free < reserve:
        advice = "new messages would be refused: free some, or choose another --data-dir"
        return Finding("disk space", Verdict.FAIL, seen, advice)
    if free < 2 * reserve:
        return Finding("disk space", Verdict.WARN, seen, "the reserve is near: make room soon")
    return Finding("disk space", Verdict.OK, seen)


def _sync_time(place: Path, settings: Settings) -> Finding:
    try:
        milliseconds = sorted(_sync_times(place))
    except OSError as error:
        return Finding("fsync", Verdict.FAIL, f"failed in {place}: {error.strerror}", "see dmesg")
    median, worst = milliseconds[len(milliseconds) // 2], milliseconds[-1]
    seen = f"median {median:.2f} ms, slowest of {len(milliseconds)} {worst:.2f} ms"
    if settings.fsync == "never":
        advice = "a power cut loses acknowledged messages: leave --fsync at always"
        return Finding("fsync", Verdict.WARN, f"switched off ({seen})", advice)
    if median > _SYNC_SLOW_MS:
        verdict = Verdict.FAIL if median > _SYNC_TOO_SLOW_MS else Verdict.WARN
        advice = "every send waits for one: use a faster disk (NVMe, or one with a protected cache)"
        return Finding("fsync", verdict, seen, advice)
    if median < _SYNC_UNREAL_MS:
        advice = "no disk is so fast: see that the file system keeps what fsync promises"
        return Finding("fsync", Verdict.WARN, seen, advice)
    return Finding("fsync", Verdict.OK, seen)


def _sync_times(place: Path) -> Iterator[float]:
    with tempfile.TemporaryFile(dir=place) as file:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            file.write(_SYNC_BYTES)
            file.flush()
            os.fdatasync(file.fileno())
            yield (time.perf_counter() - began) * 1_000


# --- the machine ----------------------------------------------------------------------------------


def file_limit(_settings: Settings) -> Findings:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = config.HTTP_CONNECTIONS_MAX + config.FILES_RESERVED
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        yield Finding("file limit", Verdict.OK, "unlimited" if hard < 0 else f"{hard:,}")
        return
    clients = max(hard - config.FILES_RESERVED, hard // 2)
    yield Finding(
        "file limit",
        Verdict.WARN,
        f"{hard:,}: {clients:,} connections at most",
        f"raise it to {wanted:,}: LimitNOFILE of the service, or ulimit -Hn",
    )


def memory(_settings: Settings) -> Findings:
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    seen = f"{have / _GIB:.1f} GiB, {len(os.sched_getaffinity(0))} cores"
    if have < _MEMORY_BYTES_MIN:
        advice = "a busy node takes about 400 MB: give the machine more"
        yield Finding("memory", Verdict.WARN, seen, advice)
    else:
        yield Finding("memory", Verdict.OK, seen)


def clock(_settings: Settings) -> Findings:
    """Whether the kernel believes that its clock is disciplined by somebody."""
    advice = "run chrony or systemd-timesyncd: signatures and members bear little difference"
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        state = -1
    if state == -1:
        yield Finding("clock", Verdict.WARN, "cannot tell whether it is synchronised", advice)
    elif state == _TIME_ERROR:
        yield Finding("clock", Verdict.WARN, "not synchronised, as far as the kernel knows", advice)
    else:
        yield Finding("clock", Verdict.OK, "synchronised")


# --- the node -------------------------------------------------------------------------------------


def listeners(settings: Settings) -> Findings:
    running = _running(settings)
    if running is not None:
        yield from running
        return
    flags = ["--listen", "--admin"] + ["--raft"] * (settings.workers == 1)
    for flag in flags:
        yield _port(flag, getattr(settings, flag.removeprefix("--")))


def _running(settings: Settings) -> list[Finding] | None:
    """A node that runs already, seen from its admin listener; None if none does."""
    if settings.admin.port == 0:
        return None
    try:
        status = ask_admin(
            (f"{settings.scheme}://{settings.admin}", settings.tls_cert),
            "GET",
            "/api/v1/cluster",
            seconds=_ADMIN_SECONDS,
        )
        verdict, nodes = str(status["verdict"]), list(status["nodes"])
    except (FastnodeError, KeyError, TypeError):
        return None
    is_healthy = verdict == "healthy"
    advice = "" if is_healthy else "fastnode cluster status says more"
    state = Verdict.OK if is_healthy else Verdict.WARN
    found = [Finding("node", state, f"runs at {settings.admin}, {verdict}", advice)]
    for node in nodes:
        offset = node.get("clock_offset_ms") or 0
        if abs(offset) > _CLOCK_OFF_MS:
            seen = f"that of node {node['id']} is {offset:+} ms off this node's"
            found.append(
                Finding("clock", Verdict.WARN, seen, "synchronise both with a time server")
            )
    return found


def _port(flag: str, address: Address) -> Finding:
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(place)
            one.listen(1)
    except socket.gaierror as error:
        advice = "correct the host, or add it to the name service"
        return Finding(f"port {flag}", Verdict.FAIL, f"{address}: {error.strerror}", advice)
    except OSError as error:
        seen = f"{address}: {os.strerror(error.errno or 0)}"
        taken = error.errno == errno.EADDRINUSE
        advice = f"stop what uses it, or choose another with {flag}" if taken else "choose another"
        return Finding(f"port {flag}", Verdict.FAIL, seen, advice)
    return Finding(f"port {flag}", Verdict.OK, f"{address} is free")


def data_directory(settings: Settings) -> Findings:
    path = Path(settings.data_dir).absolute()
    if not path.exists():
        yield Finding("data directory", Verdict.OK, f"{path} does not exist yet, run creates it")
        return
    mode = path.stat().st_mode & 0o077
    if mode:
        yield Finding(
            "data directory", Verdict.WARN, f"{path} is open to other users", f"chmod 700 {path}"
        )
    elif not (path / FORMAT_NAME).exists() and any(path.iterdir()):
        yield Finding(
            "data directory",
            Verdict.FAIL,
            f"{path} is not empty and not a node's",
            "choose another with --data-dir",
        )
    else:
        yield Finding("data directory", Verdict.OK, str(path))


def certificates(settings: Settings) -> Findings:
    """Of the listeners and for members, and the secret of members: what a node would not start
    with, and what ends soon.
    """
    from fastnode.cluster.member_proof import read_proof
    from fastnode.http.listener_tls import ListenerTls

    now = SystemClock().wall_ns() / _NS_PER_SECOND
    try:
        if settings.tls_cert:
            listener = ListenerTls(settings.tls_cert, settings.tls_key, lambda: now)
            yield _certificate("--tls-cert", listener.expires_at - now)
        proof = read_proof(settings)
        if proof.tls is not None:
            yield _certificate("--peer-tls-cert", proof.tls.expires_at - now)
    except FastnodeError as error:
        yield Finding("certificates", Verdict.FAIL, str(error))


def _certificate(flag: str, seconds_left: float) -> Finding:
    seen = f"ends in {seconds_left / _DAY_SECONDS:.0f} days"
    if seconds_left > config.CERTIFICATE_WARN_SECONDS:
        return Finding(f"certificate {flag}", Verdict.OK, seen)
    advice = "replace its files in time: clients refuse a certificate that has ended"
    return Finding(f"certificate {flag}", Verdict.WARN, seen, advice)


def credentials(settings: Settings) -> Findings:
    if not settings.credentials:
        seen = "none: whoever reaches the API may use it"
        yield Finding("credentials", Verdict.OK, seen)
        return
    from fastnode.http.credentials import read_credentials

    try:
        keys = read_credentials(settings.credentials)
    except FastnodeError as error:
        yield Finding("credentials", Verdict.FAIL, str(error))
    else:
        yield Finding("credentials", Verdict.OK, f"{len(keys)} keys in {settings.credentials}")


CHECKS: Final[tuple[Callable[[Settings], Findings], ...]] = (
    versions,
    data_directory,
    disk,
    memory,
    file_limit,
    clock,
    listeners,
    credentials,
    certificates,
)
