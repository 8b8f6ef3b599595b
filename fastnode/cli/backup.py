"""`fastnode backup DIR`: fetches the state of a running node, or of the cluster that it belongs to,
into a directory; what the directory has already is not fetched again.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import quote

import msgspec

from fastnode.backup.manifest import BackupError, BackupFile, BackupGroup, BackupManifest
from fastnode.backup.vault import Vault, has_backup, make_vault
from fastnode.cli.actions import Parser, whole_number
from fastnode.cli.node_client import AdminClient, AdminRefusal, Unreachable
from fastnode.cli.target import admin_of, with_admin, with_json
from fastnode.cli.terminal import Progress, as_json
from fastnode.clock import NS_PER_MS, SystemClock
from fastnode.errors import FastnodeError, StartError

_PATH: Final = "/api/v1/backup"
_MIB: Final = 1_048_576
_RATE_DEFAULT: Final = 64
_POLL_SECONDS: Final = 0.2
# A node that is away for a moment, or busy, is asked again.
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 4.0)

P = ParamSpec("P")
T = TypeVar("T")


def backup(arguments: Sequence[str]) -> int:
    """0 when the directory holds a new complete backup."""
    given = backup_parser().parse(arguments)
    began = time.monotonic()
    with closing(AdminClient(admin_of(given))) as client:
        vault = make_vault(Path(given.directory).absolute())
        try:
            report = _Backup(client, vault, given.rate * _MIB).run()
        finally:
            vault.close()
    report["seconds"] = round(time.monotonic() - began, 1)
    sys.stdout.write(as_json(report) if given.json else _in_words(report))
    return 0


def backup_parser() -> Parser:
    parser = Parser(
        prog="fastnode backup",
        usage="fastnode backup DIR [--rate MIB] [--admin URL] [--ca FILE] [--config FILE] [--json]",
        description="Back up a running node, or the cluster it belongs to, into a directory.",
    )
    parser.add_argument("directory", metavar="DIR", help="a new one, or that of the last backup")
    parser.add_argument(
        "--rate",
        metavar="MIB",
        type=whole_number,
        default=_RATE_DEFAULT,
        help=f"MiB per second at most, 0 for no limit (default {_RATE_DEFAULT})",
    )
    with_admin(parser)
    with_json(parser)
    return parser


def _in_words(report: dict[str, Any]) -> str:
    return (
        f"backed up {report['groups']} groups of cluster {report['cluster']},"
        f" {report['files']:,} files with {report['bytes']:,} bytes, to {report['backup']}\n"
        f"new: {report['new_files']:,} files, {report['new_bytes']:,} bytes,"
        f" in {report['seconds']} s\n"
    )


class _Backup:
    def __init__(self, client: AdminClient, vault: Vault, rate: int) -> None:
        self._client = client
        self._vault = vault
        self._rate = rate
        self._progress = Progress("bytes")
        self._done_bytes = self._new_bytes = self._new_files = 0
        self._began = time.monotonic()

    def run(self) -> dict[str, Any]:
        begun = self._client.ask("POST", _PATH, {})
        try:
            self._check_cluster(begun["cluster"])
            status = self._until_ready()
            manifest = self._fetch(status)
        finally:
            self._progress.end()
            # What stays there after all is dropped by the node itself.
            with contextlib.suppress(FastnodeError):
                self._client.ask("DELETE", f"{_PATH}/{begun['id']}")
        self._vault.commit(manifest)
        return {
            "backup": str(self._vault.path),
            "cluster": manifest.cluster,
            "groups": len(manifest.groups),
            "files": sum(len(group.files) for group in manifest.groups),
            "bytes": manifest.total_bytes,
            "new_files": self._new_files,
            "new_bytes": self._new_bytes,
        }

    def _check_cluster(self, cluster: str) -> None:
        if has_backup(self._vault.path):
            before = self._vault.manifest().cluster
            if before != cluster:
                raise BackupError(
                    f"{self._vault.path} is a backup of cluster {before}, the node is of {cluster}:"
                    " name another directory"
                )

    def _until_ready(self) -> dict[str, Any]:
        while True:
            status: dict[str, Any] = _patiently(self._client.ask, "GET", _PATH)
            if status["state"] == "ready":
                return status
            if status["state"] != "taking":
                reason = status["why"] or "it has ended"
                raise StartError(f"the node could not make the backup: {reason}")
            time.sleep(_POLL_SECONDS)

    def _fetch(self, status: dict[str, Any]) -> BackupManifest:
        root, groups = f"{_PATH}/{status['id']}/groups", list[BackupGroup]()
        for number in range(status["groups"]):
            path = f"{root}/{number}"
            group = _checked_group(_patiently(self._client.ask, "GET", path))
            for file in group.files:
                self._fetch_file(file, f"{path}/files/{quote(file.name)}", status["total_bytes"])
            groups.append(group)
        return BackupManifest(
            cluster=status["cluster"],
            node=status["node"],
            version=status["version"],
            data_format=status["data_format"],
            began_ms=status["began_ms"],
            ended_ms=SystemClock().wall_ns() // NS_PER_MS,
            groups=groups,
        )

    def _fetch_file(self, file: BackupFile, path: str, total: int) -> None:
        if not self._vault.has(file):
            self._vault.add(file, self._pieces(file, path, total))
            self._new_files += 1
            self._new_bytes += file.size
        else:
            self._done_bytes += file.size
        self._progress.show(self._done_bytes, total)

    def _pieces(self, file: BackupFile, path: str, total: int) -> Iterator[bytes]:
        offset = 0
        while offset < file.size:
            piece = _patiently(self._client.octets, f"{path}?offset={offset}")
            if not piece or offset + len(piece) > file.size:
                raise StartError(f"the node sent {len(piece)} bytes of {file.name} at {offset}")
            yield piece
            offset += len(piece)
            self._done_bytes += len(piece)
            self._progress.show(self._done_bytes, total)
            self._pace(len(piece))

    def _pace(self, count: int) -> None:
        if self._rate:
            self._began = max(self._began + count / self._rate, time.monotonic() - 1.0)
            time.sleep(max(0.0, self._began - time.monotonic()))


def _checked_group(answer: Any) -> BackupGroup:
    try:
        return msgspec.convert(answer, BackupGroup)
    except msgspec.ValidationError as error:
        raise StartError(f"the answer of the node is of another version: {error}") from error


def _patiently(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    for pause in _PAUSES:
        try:
            return call(*args, **kwargs)
        except (Unreachable, AdminRefusal) as error:
            if isinstance(error, AdminRefusal) and error.code != "unavailable":
                raise
            time.sleep(pause)
    return call(*args, **kwargs)
