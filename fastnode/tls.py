"""PEM files of a certificate and its key: read, checked, put into contexts. And the one thing that
every listener needs for TLS of its own: bytes that came too early. A leaf, shell.

Whatever is wrong with files is found when they are read: whoever loads them shakes hands with
itself. What a certificate is for, and who is trusted, is the business of whoever loads it.
"""

import contextlib
import os
import ssl
import stat
from asyncio import BufferedProtocol, Transport
from typing import Any, Final, NamedTuple, cast

from fastnode.config import PEM_BYTES_MAX
from fastnode.errors import StartError

CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
KEY: Final = b"PRIVATE KEY-----"
_OPENED_BY_OTHERS: Final = 0o077
# TLS 1.3 takes three flights.
_FLIGHTS: Final = 3


class Pem(NamedTuple):
    """A file, and the flag that names it."""

    flag: str
    path: str

    def __str__(self) -> str:
        return f"{self.flag} {self.path}"


def read_pem(file: Pem, mark: bytes) -> bytes:
    """`StartError` unless it has something with the mark in it; others must not read a key."""
    try:
        with open(file.path, "rb", opener=_open_at_once) as opened:
            mode = os.fstat(opened.fileno()).st_mode
            content = opened.read(PEM_BYTES_MAX) if stat.S_ISREG(mode) else b""
    except OSError as error:
        raise StartError(f"{file}: {error.strerror}: give a readable file") from None
    if mark not in content:
        wanted = "private key" if mark == KEY else "certificate"
        raise StartError(f"{file} holds no {wanted}: give a PEM file")
    if mark == KEY and mode & _OPENED_BY_OTHERS:
        raise StartError(f"{file} can be read by others: chmod 600 {file.path}")
    return content


def _open_at_once(path: str, flags: int) -> int:
    """A pipe that was named by mistake may never be written to."""
    return os.open(path, flags | os.O_NONBLOCK)


def load_pair(context: ssl.SSLContext, certificate: Pem, key: Pem) -> None:
    try:
        # An empty password instead of a question on the terminal.
        context.load_cert_chain(certificate.path, key.path, password="")
    except ssl.SSLError as error:
        both = f"{certificate} and {key}"
        if error.reason == "KEY_VALUES_MISMATCH":
            raise StartError(f"{both} do not belong together: give the key of it") from error
        if error.reason in ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"):
            raise StartError(f"{both} are too weak: give an EC key, or RSA of 2048 bits") from error
        advice = "give whole PEM files, the key without a passphrase"
        raise StartError(f"{both} cannot be used: {advice}") from error
    except OSError as error:
        both = f"{certificate} and {key}"
        raise StartError(f"{both}: {error.strerror}: give readable files") from None


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, Any]:
    """Both ends in this process; the certificate that was shown. Raises `ssl.SSLError`."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True))
    for _ in range(_FLIGHTS):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return cast(dict[str, Any], ends[0].getpeercert() or {})


def reason_of(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return error.reason or str(error)


def name_in(certificate: Any) -> str:
    """A host that a certificate (as `getpeercert` tells it) is made out to; empty if none is."""
    names = (certificate or {}).get("subjectAltName", ())
    hosts = [name for kind, name in names if kind in ("DNS", "IP Address")]
    # A pattern stands for all names that match it.
    return hosts[0].replace("*", "member") if hosts else ""


def check_named(file: Pem, certificate: dict[str, Any]) -> None:
    if not name_in(certificate):
        raise StartError(f"{file} names no host: add this node's as subjectAltName, DNS:… or IP:…")


def expiry_of(certificate: dict[str, Any]) -> int:
    """In seconds since 1970."""
    return int(ssl.cert_time_to_seconds(certificate["notAfter"]))


def feed(transport: Transport, data: bytes) -> None:
    """What a connection has received before `start_tls` was asked for. To be scheduled just before
    that: it runs when TLS has put its protocol in place, and before it begins.
    """
    protocol = cast(BufferedProtocol, transport.get_protocol())
    while data:
        buffer = cast(memoryview, protocol.get_buffer(len(data)))
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        protocol.buffer_updated(size)
        data = data[size:]
