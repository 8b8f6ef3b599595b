"""Asks all members at once whether they have a capability. Shell: sockets and time limits; what an
answer is worth is in `capabilities.py`.

Every way of not answering properly is the answer no: a member that cannot be asked may be one that
would harm what it does not know.
"""

import asyncio
import math
import re
import ssl
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

from fastnode.cluster.capabilities import Member, Report, health_url, problem_of
from fastnode.config import (
    CAPABILITY_BODY_BYTES_MAX,
    CAPABILITY_HEAD_BYTES_MAX,
    CAPABILITY_SECONDS,
)

_PORTS: Final = {"http": 80, "https": 443}
_STATUS_MATCH: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]").match
_LENGTHS: Final = re.compile(rb"\r\ncontent-length:[ \t]*([^\r\n]*?)[ \t]*(?=\r\n)", re.IGNORECASE)
_ENCODING: Final = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)


async def poll(
    addresses: Sequence[str],
    capability: str,
    *,
    seconds: float = CAPABILITY_SECONDS,
    deadline: float = math.inf,
) -> Report:
    """Each member has so many seconds, and nobody longer than until `deadline`, which is a time of
    the event loop.
    """
    ends_at = min(asyncio.get_running_loop().time() + seconds, deadline)
    asked = (_ask(address, capability, ends_at) for address in addresses)
    return Report(tuple(await asyncio.gather(*asked)))


async def _ask(address: str, capability: str, ends_at: float) -> Member:
    try:
        async with asyncio.timeout_at(ends_at):
            problem = problem_of(*await _fetch(health_url(address)), capability)
    except TimeoutError:
        problem = "no answer in time"
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
        problem = f"{type(error).__name__}: {error}"
    return Member(address, problem)


async def _fetch(url: str) -> tuple[int, bytes]:
    """Status and body; the body only of a 200."""
    target = urlsplit(url)
    if target.scheme not in _PORTS or not target.hostname:
        raise ValueError("the address is neither HOST:PORT nor an http or https URL")
    reader, writer = await asyncio.open_connection(
        target.hostname,
        _PORTS[target.scheme] if target.port is None else target.port,
        ssl=_unproved() if target.scheme == "https" else None,
        limit=CAPABILITY_HEAD_BYTES_MAX,
    )
    try:
        writer.write(_request(target))
        status, length = parse_head(await reader.readuntil(b"\r\n\r\n"))
        return status, await _read_body(reader, length) if status == 200 else b""
    finally:
        # Not `close`, which would wait for a member that does not read.
        writer.transport.abort()


def _unproved() -> ssl.SSLContext:
    """Members need not have certificates of one signer, nor for the addresses that they listen at;
    that they are members they have proved on their links. So this is worth as much as an answer
    without TLS.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _request(target: SplitResult) -> bytes:
    host = target.netloc.rpartition("@")[2]
    return (
        f"GET {target.path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n"
        "Connection: close\r\n\r\n"
    ).encode("ascii")


def parse_head(head: bytes) -> tuple[int, int | None]:
    """Status and length of the body; without a length it ends with the connection. A member sends
    no body in pieces, so whoever does is none.
    """
    status = _STATUS_MATCH(head)
    lengths = _LENGTHS.findall(head)
    if status is None or _ENCODING.search(head) or len(lengths) > 1:
        raise ValueError("the answer is not the HTTP of a member")
    return int(status[1]), _length(lengths[0]) if lengths else None


def _length(text: bytes) -> int:
    if not text.isdigit() or len(text) > 9:
        raise ValueError("the answer's Content-Length is not a length")
    return int(text)


async def _read_body(reader: asyncio.StreamReader, length: int | None) -> bytes:
    if length is not None and length <= CAPABILITY_BODY_BYTES_MAX:
        return await reader.readexactly(length)
    body = b""
    while length is None and len(body) <= CAPABILITY_BODY_BYTES_MAX:
        part = await reader.read(CAPABILITY_BODY_BYTES_MAX + 1 - len(body))
        if not part:
            return body
        body += part
    raise ValueError(f"the answer has more than {CAPABILITY_BODY_BYTES_MAX} bytes")
