"""What a supervisor and a worker say to each other: lines of JSON over a socket pair. When the
socket ends, so has the other side.
"""

import asyncio
import socket
from typing import Final

import msgspec

from fastnode.settings import Settings

_LINE_BYTES_MAX: Final = 4 * 1_048_576


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The first word, to a worker: who it is. The addresses in `settings` have their ports."""

    settings: Settings
    worker: int
    data_path: str
    lock_descriptor: int


class Drain(msgspec.Struct, frozen=True, tag=True):
    """To a worker: take no new calls; say when those that were taken are answered."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """To a worker: nobody needs you any more."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Of a worker: it serves. Only the first one has an admin listener."""

    sqs_url: str
    admin_url: str = ""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Of a worker: it cannot start, for a reason that an operator can do something about."""

    reason: str
    is_usage: bool


class Drained(msgspec.Struct, frozen=True, tag=True):
    """Of a worker: everything that it took is answered."""


ToWorker = Begin | Drain | Stop
OfWorker = Ready | Failed | Drained
Word = ToWorker | OfWorker

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Word).decode


class Control:
    """One end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, word: Word) -> None:
        """Without effect when the other side has ended."""
        if not self._writer.is_closing():
            self._writer.write(_encode(word) + b"\n")

    async def hear(self) -> Word | None:
        """None: the other side has ended."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        return _decode(line) if line.endswith(b"\n") else None

    async def flush(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


async def open_control(own: socket.socket) -> Control:
    own.setblocking(False)
    return Control(*await asyncio.open_unix_connection(sock=own, limit=_LINE_BYTES_MAX))
