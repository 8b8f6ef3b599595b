"""What members prove to each other, read from the files that the settings name. Shell.

A secret that both know, a certificate that the cluster's signer has signed, or both.
"""

from pathlib import Path
from typing import NamedTuple

from fastnode import config
from fastnode.errors import StartError
from fastnode.peers.tls import PeerTls, TlsFiles, load_tls
from fastnode.settings import Settings


class MemberProof(NamedTuple):
    """An empty secret proves nothing: links allow it where TLS does, or on loopback."""

    secret: bytes = b""
    tls: PeerTls | None = None


def read_proof(settings: Settings) -> MemberProof:
    """`StartError` if a file is not what it should be."""
    files = TlsFiles(settings.peer_tls_cert, settings.peer_tls_key, settings.peer_tls_ca)
    secret = read_secret(settings.cluster_secret) if settings.cluster_secret else b""
    return MemberProof(secret, load_tls(files) if all(files) else None)


def read_secret(path: str) -> bytes:
    """What members prove to each other that they know."""
    file = Path(path)
    try:
        secret, mode = file.read_bytes().strip(), file.stat().st_mode
    except OSError as error:
        reason = f"--cluster-secret {path}: {error.strerror}"
        raise StartError(f"{reason}: give a readable file") from None
    if mode & 0o077:
        raise StartError(f"--cluster-secret {path} can be read by others: chmod 600 {path}")
    if len(secret) < config.CLUSTER_SECRET_BYTES_MIN:
        raise StartError(
            f"--cluster-secret {path} holds {len(secret)} bytes: "
            f"at least {config.CLUSTER_SECRET_BYTES_MIN}, such as `openssl rand -hex 32`"
        )
    return secret
