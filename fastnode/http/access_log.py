"""The access log: one JSON line per answered request, in files that are rotated. A shell.

What a line says is in `access_row.py`. A tap between a request's exchange and its connection sees
the answer go by, so nothing in the way of a request asks whether there is a log. Lines are written
in blocks. A directory that cannot be written to costs lines and never requests.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fastnode.config import ACCESS_LOG_FILE_BYTES_MAX, ACCESS_LOG_FILES_MAX
from fastnode.errors import StartError
from fastnode.http.access_row import RowReader, encode_row
from fastnode.http.exchange import Exchange, Owner
from fastnode.http.host import Respond
from fastnode.http.http1 import Request

FLUSH_SECONDS: Final = 1.0
BLOCK_BYTES: Final = 64 * 1024
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
# Where a response has its status.
_STATUS: Final = slice(9, 12)
_DIGITS: Final = 8
_SUFFIX: Final = ".jsonl"
log: Final = logging.getLogger("fastnode.access_log")


class RotatedFile:
    """Blocks of whole lines, in files of bounded size, of which the newest are kept. Each name has
    files of its own: a busy process does not remove those of an idle one.
    """

    def __init__(self, directory: str, name: str = "access") -> None:
        """Raises `StartError`. A new start begins a new file."""
        self._directory = Path(directory)
        self._name = name
        self._bytes = 0
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            stems = [path.stem for path in self._files()]
            self._number = int(stems[-1][-_DIGITS:]) if stems else 0
            self._file = self._open_next()
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise StartError(f"--access-log {directory}: {reason}; choose another place") from error

    def write(self, block: bytes) -> None:
        """Raises OSError; then the block may be there in part."""
        if self._bytes and self._bytes + len(block) > ACCESS_LOG_FILE_BYTES_MAX:
            os.close(self._file)
            self._file = self._open_next()
        while block:
            written = os.write(self._file, block)
            self._bytes += written
            block = block[written:]

    def close(self) -> None:
        os.close(self._file)

    def _open_next(self) -> int:
        """A number that nobody has taken: several nodes may share the directory."""
        self._bytes = 0
        while True:
            self._number += 1
            with contextlib.suppress(FileExistsError):
                path = self._directory / f"{self._name}-{self._number:0{_DIGITS}d}{_SUFFIX}"
                file = os.open(path, _NEW_FILE, 0o600)
                break
        for old in self._files()[:-ACCESS_LOG_FILES_MAX]:
            old.unlink(missing_ok=True)
        return file

    def _files(self) -> list[Path]:
        """By age."""
        return sorted(self._directory.glob(f"{self._name}-{'[0-9]' * _DIGITS}{_SUFFIX}"))


class AccessLog:
    """`respond` does what the given one does, and logs what comes of it."""

    def __init__(
        self, respond: Respond, reader: RowReader, file: RotatedFile, wall_ns: Callable[[], int]
    ) -> None:
        self._respond = respond
        self._reader = reader
        self._file = file
        self._wall_ns = wall_ns
        self._lines: list[bytes] = []
        self._bytes = 0
        self._lost = 0

    def respond(self, request: Request, exchange: Exchange) -> None:
        exchange.tap(lambda owner: _Tap(self, owner, request, self._wall_ns()))
        self._respond(request, exchange)

    def add(self, request: Request, status: int, began_ns: int) -> None:
        duration_us = (self._wall_ns() - began_ns) // 1000
        row = self._reader.row(request, status, began_ns // 1000, max(0, duration_us))
        line = encode_row(row) + b"\n"
        self._lines.append(line)
        self._bytes += len(line)
        if self._bytes >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        lines, self._lines, self._bytes = self._lines, [], 0
        if not lines:
            return
        try:
            self._file.write(b"".join(lines))
        except OSError as error:
            if self._lost == 0:
                log.error("the access log loses lines: %s", error)
            self._lost += len(lines)
        else:
            if self._lost:
                log.warning("the access log is written again, lines lost=%d", self._lost)
            self._lost = 0

    async def flush_forever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self.flush()

    def close(self) -> None:
        self.flush()
        self._file.close()


class _Tap:
    """Stands where the connection stood, for one exchange."""

    __slots__ = ("_began_ns", "_log", "_owner", "_request")

    def __init__(self, log: AccessLog, owner: Owner, request: Request, began_ns: int) -> None:
        self._log = log
        self._owner = owner
        self._request = request
        self._began_ns = began_ns

    @property
    def has_ended(self) -> bool:
        return self._owner.has_ended

    @property
    def peer(self) -> tuple[str, int] | None:
        return self._owner.peer

    def on_answer(self, exchange: Exchange) -> None:
        assert exchange.answer is not None
        status = exchange.answer[0]
        self._owner.on_answer(exchange)
        self._log.add(self._request, status, self._began_ns)

    def write_alone(self, exchange: Exchange, response: bytes) -> bool:
        is_written = self._owner.write_alone(exchange, response)
        if is_written:
            self._log.add(self._request, int(response[_STATUS]), self._began_ns)
        return is_written
