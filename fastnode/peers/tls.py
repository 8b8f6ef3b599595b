"""Certificates of members: files → what links and the control plane need of them. Shell.

A signer vouches for a cluster: whoever shows a certificate of it is a member, and nobody else. So
both ends of a connection demand one. Whatever is wrong with the files is found when they are read:
the node shakes hands with itself, with the same demands as every other member has.
"""

import ssl
from typing import Any, Final, NamedTuple

from fastnode.errors import StartError
from fastnode.peers.peers import TlsContexts
from fastnode.tls import (
    CERTIFICATE,
    KEY,
    Pem,
    check_named,
    expiry_of,
    load_pair,
    read_pem,
    reason_of,
    shake_hands,
)

_CERT_FLAG: Final = "--peer-tls-cert"
_KEY_FLAG: Final = "--peer-tls-key"
_CA_FLAG: Final = "--peer-tls-ca"


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
    expires_at: int


class _Pems(NamedTuple):
    certificate: Pem
    key: Pem
    authority: Pem


def load_tls(files: TlsFiles) -> PeerTls:
    """`StartError` if no member would accept what the files hold."""
    pems = _Pems(*map(Pem, (_CERT_FLAG, _KEY_FLAG, _CA_FLAG), files))
    certificate = read_pem(pems.certificate, CERTIFICATE)
    key = read_pem(pems.key, KEY)
    authority = read_pem(pems.authority, CERTIFICATE)
    contexts = TlsContexts(
        _context(ssl.PROTOCOL_TLS_SERVER, pems), _context(ssl.PROTOCOL_TLS_CLIENT, pems)
    )
    shown = _shown(contexts.server, pems)
    check_named(pems.certificate, shown)
    return PeerTls(contexts, certificate, key, authority, expiry_of(shown))


def _context(protocol: int, pems: _Pems) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        # Every connection shows its certificate; none goes on where another one ended.
        context.num_tickets = 0
    try:
        context.load_verify_locations(pems.authority.path)
    except ssl.SSLError as error:
        raise StartError(f"{pems.authority} is damaged: give a PEM file") from error
    load_pair(context, pems.certificate, pems.key)
    return context


def _shown(server: ssl.SSLContext, pems: _Pems) -> dict[str, Any]:
    client = _context(ssl.PROTOCOL_TLS_CLIENT, pems)
    client.check_hostname = False
    try:
        return shake_hands(server, client)
    except ssl.SSLError as error:
        text = f"{pems.certificate} is not good for {pems.authority}"
        advice = "give one that it has signed for both ends of a connection"
        raise StartError(f"{text}: {reason_of(error)}: {advice}") from error
