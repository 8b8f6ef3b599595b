"""An SQS client that costs little: JSON over one keep-alive connection, asyncio, no SDK.

It behaves as the client of the cluster tests does and fails with the same errors: it stays with
one node while that answers, and takes another when it does not. Signs nothing.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.cluster.client import Refused, Unknown
from tests.nodes import AUTHORIZATION

CALL_SECONDS = 8.0


class Client:
    """One call at a time."""

    def __init__(self, endpoints: Callable[[], Sequence[str]], first: int = 0) -> None:
        self._endpoints = endpoints
        self._chosen = first
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, action: str, **members: object) -> Any:
        """One attempt, at one node. After an Unknown the next attempt goes to another one."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                status, body = await self._exchange(action, msgspec.json.encode(members))
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
            await self._move_on()
            raise Unknown(repr(error), None) from error
        if status == 503:
            await self._move_on()
            raise Unknown(f"503 {body!r}", None)
        if status != 200:
            raise Refused(status, body.decode(errors="replace"))
        return msgspec.json.decode(body) if body else {}

    async def close(self) -> None:
        """The next call would connect again."""
        if self._streams is not None:
            (_, writer), self._streams = self._streams, None
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _move_on(self) -> None:
        await self.close()
        self._chosen += 1

    async def _exchange(self, action: str, body: bytes) -> tuple[int, bytes]:
        reader, writer = self._streams or await self._connect()
        head = (
            f"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.{action}\r\n"
            f"Content-Type: application/x-amz-json-1.0\r\nAuthorization: {AUTHORIZATION}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        fields = answer.decode("latin-1").lower()
        length = int(fields.partition("content-length:")[2].partition("\r\n")[0])
        return int(fields.split(None, 2)[1]), await reader.readexactly(length)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        endpoints = self._endpoints()
        address = urlsplit(endpoints[self._chosen % len(endpoints)])
        self._streams = await asyncio.open_connection(address.hostname, address.port)
        return self._streams
