"""Certificates of members: files → what links and the control plane need of them. Shell.

A signer vouches for a cluster: whoever shows a certificate of it is a member, and nobody else. So
both ends of a connection demand one. Whatever is wrong with the files is found when they are read:
the node shakes hands with itself, with the same demands as every other member has.
"""

import contextlib
import ssl
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastnode.errors import StartError
from fastnode.peers.peers import TlsContexts

CERT_FLAG: Final = "--peer-tls-cert"
KEY_FLAG: Final = "--peer-tls-key"
CA_FLAG: Final = "--peer-tls-ca"
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_KEY: Final = b"PRIVATE KEY-----"
_OPENED_BY_OTHERS: Final = 0o077
# TLS 1.3 takes three flights.
_FLIGHTS: Final = 3


class TlsFiles(NamedTuple):
    """Paths of PEM files: this node's certificate and its key, and who signs those of members."""

    certificate: str
    key: str
    authority: str


class PeerTls(NamedTuple):
    """For links, and as PEM texts for whoever makes contexts of its own."""

    contexts: TlsContexts
    certificate: bytes
    key: bytes
    authority: bytes


def load_tls(files: TlsFiles) -> PeerTls:
    """`StartError` if no member would accept what the files hold."""
    certificate = _read(CERT_FLAG, files.certificate, _CERTIFICATE)
    key = _read(KEY_FLAG, files.key, _KEY)
    authority = _read(CA_FLAG, files.authority, _CERTIFICATE)
    if Path(files.key).stat().st_mode & _OPENED_BY_OTHERS:
        raise StartError(f"{KEY_FLAG} {files.key} can be read by others: chmod 600 {files.key}")
    contexts = TlsContexts(
        _context(ssl.PROTOCOL_TLS_SERVER, files), _context(ssl.PROTOCOL_TLS_CLIENT, files)
    )
    _check(contexts.server, files)
    return PeerTls(contexts, certificate, key, authority)


def name_in(certificate: Any) -> str:
    """A host that a certificate (as `getpeercert` tells it) is made out to; empty if none is."""
    names = (certificate or {}).get("subjectAltName", ())
    hosts = [name for kind, name in names if kind in ("DNS", "IP Address")]
    # A pattern stands for all names that match it.
    return hosts[0].replace("*", "member") if hosts else ""


def _read(flag: str, path: str, mark: bytes) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise StartError(f"{flag} {path}: {error.strerror}: give a readable file") from None
    if mark not in content:
        wanted = "private key" if mark == _KEY else "certificate"
        raise StartError(f"{flag} {path} holds no {wanted}: give a PEM file")
    return content


def _context(protocol: int, files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        # Every connection shows its certificate; none goes on where another one ended.
        context.num_tickets = 0
    try:
        context.load_verify_locations(files.authority)
    except ssl.SSLError as error:
        raise StartError(f"{CA_FLAG} {files.authority} is damaged: give a PEM file") from error
    try:
        # An empty password instead of a question on the terminal.
        context.load_cert_chain(files.certificate, files.key, password="")
    except ssl.SSLError as error:
        both = f"{CERT_FLAG} {files.certificate} and {KEY_FLAG} {files.key}"
        if error.reason == "KEY_VALUES_MISMATCH":
            raise StartError(f"{both} do not belong together: give the key of it") from error
        advice = "give whole PEM files, the key without a passphrase"
        raise StartError(f"{both} cannot be used: {advice}") from error
    return context


def _check(server: ssl.SSLContext, files: TlsFiles) -> None:
    client = _context(ssl.PROTOCOL_TLS_CLIENT, files)
    client.check_hostname = False
    try:
        shown = _shake_hands(server, client)
    except ssl.SSLError as error:
        text = f"{CERT_FLAG} {files.certificate} is not good for {CA_FLAG} {files.authority}"
        advice = "give one that it has signed for both ends of a connection"
        raise StartError(f"{text}: {_reason(error)}: {advice}") from error
    if not name_in(shown):
        raise StartError(
            f"{CERT_FLAG} {files.certificate} names no host: "
            "add this node's as subjectAltName, DNS:… or IP:…"
        )


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> object:
    """Both ends in this process; the certificate that was shown."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True))
    for _ in range(_FLIGHTS):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[0].getpeercert()


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return error.reason or str(error)
