"""The REST part of the admin listener that is about backups, `/api/v1/backup…`: begin one, follow
it, read its files piece by piece, end it. Shell: it starts what the node does and waits for it.

A backup holds every message and what receipt handles are signed with, so all of it, reading too, is
for tokens of the full role (`admin_api.py`).
"""

import re
from collections.abc import Awaitable
from typing import Any, Final, Protocol

from msgspec import Struct

from fastnode.cluster.backups import BackupStatus
from fastnode.errors import FastnodeError, Unavailable
from fastnode.http.admin_request import (
    Answer,
    Number,
    Octets,
    method_of,
    not_found,
    number_of,
    parameters_of,
)
from fastnode.http.admin_work import awaited
from fastnode.http.http1 import Request

_ONE: Final = re.compile(r"backup/([0-9a-f]{16})")
_GROUP: Final = re.compile(r"backup/([0-9a-f]{16})/groups/([0-9]{1,3})")
_FILE: Final = re.compile(
    r"backup/([0-9a-f]{16})/groups/([0-9]{1,3})/files/([A-Za-z0-9][A-Za-z0-9_.-]{0,63})"
)
_OFFSET: Final = Number(0, 0, 1 << 44)


class GroupState(Protocol):
    @property
    def group(self) -> int: ...
    @property
    def applied_index(self) -> int: ...
    @property
    def term(self) -> int: ...
    @property
    def commit_ts(self) -> int: ...
    @property
    def files(self) -> tuple[Any, ...]: ...


class BackupMaker(Protocol):
    """The node, which makes one backup at a time."""

    def status(self) -> BackupStatus: ...
    def begin(self) -> BackupStatus: ...
    def group(self, backup_id: str, group: int) -> GroupState: ...
    def piece(self, backup_id: str, group: int, name: str, offset: int) -> Awaitable[bytes]: ...
    def end(self, backup_id: str) -> Awaitable[None]: ...


class _File(Struct, frozen=True):
    name: str
    size: int
    checksum: str


class _Group(Struct, frozen=True):
    group: int
    index: int
    term: int
    commit_ts: int
    files: list[_File]


class AdminBackup:
    """`answer` is what an `AdminApi` calls."""

    def __init__(self, maker: BackupMaker) -> None:
        self._maker = maker

    def answer(self, request: Request, path: str) -> Answer:
        """`Refusal` if it cannot be done as it was asked."""
        if path == "backup":
            return self._backup(request)
        if one := _ONE.fullmatch(path):
            method_of(request, "DELETE")
            parameters_of(request)
            return awaited(self._end(one[1]))
        if group := _GROUP.fullmatch(path):
            method_of(request, "GET, HEAD")
            parameters_of(request)
            return awaited(self._group(group[1], int(group[2])))
        if file := _FILE.fullmatch(path):
            method_of(request, "GET, HEAD")
            offset = number_of(parameters_of(request, "offset"), "offset", _OFFSET)
            return awaited(self._piece(file[1], int(file[2]), file[3], offset))
        raise not_found()

    def _backup(self, request: Request) -> Answer:
        parameters_of(request)
        is_new = method_of(request, "GET, HEAD, POST") == "POST"
        return awaited(self._begin() if is_new else self._status())

    async def _status(self) -> BackupStatus:
        return self._maker.status()

    async def _begin(self) -> BackupStatus:
        return self._maker.begin()

    async def _group(self, backup_id: str, group: int) -> _Group:
        state = self._maker.group(backup_id, group)
        files = [_File(file.name, file.size, file.checksum.hex()) for file in state.files]
        return _Group(group, state.applied_index, state.term, state.commit_ts, files)

    async def _piece(self, backup_id: str, group: int, name: str, offset: int) -> Octets:
        try:
            return Octets(await self._maker.piece(backup_id, group, name, offset))
        except FastnodeError as error:
            raise _told(error) from error

    async def _end(self, backup_id: str) -> dict[str, object]:
        await self._maker.end(backup_id)
        return {}


def _told(error: FastnodeError) -> Exception:
    """A disk that does not give the file back is no bug of the API."""
    return error if hasattr(error, "retry_after_seconds") else Unavailable(str(error))
