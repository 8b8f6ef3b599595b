"""Who is at the other end: the handshake of a link, both sides. Pure.

    dialer                                  acceptor
    HELLO  who I am, nonce            →
                                      ←     HELLO  who I am, nonce
    PROOF  keyed hash                 →     checks it, then whether it wants this peer
                                      ←     PROOF  keyed hash
    checks it, then the peer; WELCOME →     the link is up on both sides

A proof is HMAC-SHA256 under the cluster secret over the side that proves, both hellos whole and
both nonces. So the secret never travels; an old proof fits no new nonce; a proof sent back to its
maker names the wrong side; and a changed hello (another version range, another id) fits no proof.
Whether a peer is wanted is asked only when it has proved itself. Without a secret the same exchange
runs with an empty key, which proves nothing: `greeting.py` allows it where strangers cannot be.

After the handshake nothing but the TCP connection vouches for a frame: who can change packets on
the way can change frames. Where that is possible, use TLS, which then protects the handshake too.
"""

import hmac
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Annotated, Final

import msgspec

from fastnode.errors import FastnodeError
from fastnode.peers.frames import HELLO, PROOF, REFUSAL, WELCOME, ProtocolError, plain_frame

MAGIC: Final = b"fastnode"
VERSION_MIN: Final = 1
VERSION_MAX: Final = 1
NONCE_BYTES: Final = 32
INCARNATION_BYTES: Final = 16
# Roles: a node that is not a member yet and asks to become one.
JOINING: Final = 1

_DETAIL_BYTES_MAX: Final = 200
# Magic, the range of protocol versions and the side stay where they are in every version.
_FIXED: Final = Struct(f">{len(MAGIC)}sHHB{NONCE_BYTES}s")
_DIALER: Final = 1
_ACCEPTOR: Final = 2
_LABELS: Final = {
    _DIALER: b"fastnode peer link: proof of the dialer\0",
    _ACCEPTOR: b"fastnode peer link: proof of the acceptor\0",
}
_SIZE: Final = Struct(">I")

_Text = Annotated[str, msgspec.Meta(max_length=256)]
_Word = Annotated[str, msgspec.Meta(max_length=64)]


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself. An empty `cluster_id` is of a node that belongs to none yet."""

    node_id: Annotated[int, msgspec.Meta(ge=1, le=65_535)]
    incarnation: Annotated[
        bytes, msgspec.Meta(min_length=INCARNATION_BYTES, max_length=INCARNATION_BYTES)
    ]
    cluster_id: _Word = ""
    roles: Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)] = 0
    version: _Word = ""
    sqs_url: _Text = ""
    admin_url: _Text = ""
    control_port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    capabilities: Annotated[tuple[_Word, ...], msgspec.Meta(max_length=32)] = ()


class Reason(IntEnum):
    """Why a link is refused; the numbers travel."""

    WRONG_CLUSTER = 1
    VERSION = 2
    SECRET = 3
    NO_SECRET = 4
    ITSELF = 5
    ID_IN_USE = 6
    OTHER_INCARNATION = 7
    REMOVED = 8
    NOT_EXPECTED = 9
    NOT_MEMBER = 10
    ALREADY_LINKED = 11


# What happened, as both sides log it, and what to do about it.
ADVICE: Final = {
    Reason.WRONG_CLUSTER: "the nodes belong to different clusters: correct --peers or --join, or "
    "start the node that shall move with a fresh data directory",
    Reason.VERSION: "the nodes have no protocol version in common: upgrade the older one, "
    "release by release",
    Reason.SECRET: "the nodes have different cluster secrets: give both the same file with "
    "--cluster-secret",
    Reason.NO_SECRET: "a link beyond loopback needs a secret or TLS: give all nodes the same file "
    "with --cluster-secret, or certificates with --peer-tls-cert",
    Reason.ITSELF: "the address leads back to the node itself: correct --peers",
    Reason.ID_IN_USE: "another node has the same id: give one of them another --node-id and a "
    "fresh data directory",
    Reason.OTHER_INCARNATION: "a node with this id and another data directory is known: bring its "
    "directory back, or remove the node and add it under a new id",
    Reason.REMOVED: "the node was removed from the cluster: stop it, or add it under a new id with "
    "a fresh data directory",
    Reason.NOT_EXPECTED: "another node than expected answers at this address: correct --peers",
    Reason.NOT_MEMBER: "the node is not a member of the cluster: add it with --join",
    Reason.ALREADY_LINKED: "the nodes are linked already",
}


class Refused(FastnodeError):
    """One of the two sides does not want the link."""

    def __init__(self, reason: Reason, detail: str, *, by_peer: bool = False) -> None:
        super().__init__(f"{ADVICE[reason]} ({detail})" if detail else ADVICE[reason])
        self.reason = reason
        self.detail = detail
        self.by_peer = by_peer

    def frame(self) -> bytes:
        detail = self.detail.encode("utf-8", "replace")[:_DETAIL_BYTES_MAX]
        return plain_frame(REFUSAL, bytes((self.reason,)) + detail)


def parse_refusal(frame: bytes) -> Refused:
    """A REFUSAL frame as the error that it stands for."""
    try:
        reason = Reason(frame[1])
    except (IndexError, ValueError):
        raise ProtocolError("refused for a reason that this version does not know") from None
    detail = frame[2 : 2 + _DETAIL_BYTES_MAX].decode("utf-8", "replace")
    return Refused(reason, detail, by_peer=True)


# Asked once the peer has proved itself; None admits it.
Admit = Callable[[Identity], Refused | None]


class Handshake:
    """One side. Frames go in, frames to send come out; raises `Refused` or `ProtocolError`.

    `claimed` is what the peer says before it has proved anything, for log lines only.
    """

    def __init__(
        self,
        identity: Identity,
        secret: bytes,
        nonce: bytes,
        admit: Admit,
        *,
        is_dialer: bool,
        expected_node: int | None = None,
    ) -> None:
        assert len(nonce) == NONCE_BYTES
        self.claimed: Identity | None = None
        self.is_authenticated = False
        self.is_done = False
        self._identity = identity
        self._secret = secret
        self._nonce = nonce
        self._admit = admit
        self._is_dialer = is_dialer
        self._expected_node = expected_node
        self._hello = encode_hello(identity, nonce, is_dialer=is_dialer)
        self._peer_hello = b""
        self._peer_nonce = b""
        self._awaited = HELLO

    @property
    def peer(self) -> Identity:
        """Who is at the other end."""
        assert self.claimed is not None and self.is_authenticated
        return self.claimed

    def begin(self) -> list[bytes]:
        return [plain_frame(HELLO, self._hello)] if self._is_dialer else []

    def receive(self, frame: bytes) -> list[bytes]:
        kind, body = frame[0], frame[1:]
        if kind == REFUSAL:
            raise parse_refusal(frame)
        if kind != self._awaited or self.is_done:
            raise ProtocolError("a frame that is not the next of the handshake")
        return _STEPS[kind](self, body)

    def _receive_hello(self, body: bytes) -> list[bytes]:
        version_min, version_max, side, nonce = _unpack_fixed(body)
        if side != (_ACCEPTOR if self._is_dialer else _DIALER) or nonce == self._nonce:
            raise ProtocolError("the hello is our own or of the wrong side")
        if version_min > VERSION_MAX or version_max < VERSION_MIN:
            theirs, ours = f"{version_min} to {version_max}", f"{VERSION_MIN} to {VERSION_MAX}"
            raise Refused(Reason.VERSION, f"{theirs} against {ours}")
        self.claimed = _decode_identity(body[_FIXED.size :])
        self._check_cluster(self.claimed)
        self._peer_hello, self._peer_nonce = body, nonce
        self._awaited = PROOF
        if self._is_dialer:
            return [plain_frame(PROOF, self._proof(_DIALER))]
        return [plain_frame(HELLO, self._hello)]

    def _receive_proof(self, body: bytes) -> list[bytes]:
        their_side = _ACCEPTOR if self._is_dialer else _DIALER
        if not hmac.compare_digest(body, self._proof(their_side)):
            raise Refused(Reason.SECRET, "")
        self.is_authenticated = True
        self._check_peer(self.peer)
        if self._is_dialer:
            self.is_done = True
            return [plain_frame(WELCOME)]
        self._awaited = WELCOME
        return [plain_frame(PROOF, self._proof(_ACCEPTOR))]

    def _receive_welcome(self, body: bytes) -> list[bytes]:
        if self._is_dialer or body:
            raise ProtocolError("a welcome that nobody waits for")
        self.is_done = True
        return []

    def _proof(self, side: int) -> bytes:
        ours, theirs = (self._hello, self._nonce), (self._peer_hello, self._peer_nonce)
        dialer, acceptor = (ours, theirs) if self._is_dialer else (theirs, ours)
        proof = hmac.new(self._secret, _LABELS[side], "sha256")
        for part in (dialer[0], acceptor[0], dialer[1], acceptor[1]):
            proof.update(_SIZE.pack(len(part)) + part)
        return proof.digest()

    def _check_cluster(self, peer: Identity) -> None:
        ours, theirs = self._identity.cluster_id, peer.cluster_id
        if ours and theirs and ours != theirs:
            raise Refused(Reason.WRONG_CLUSTER, f"{theirs} against {ours}")

    def _check_peer(self, peer: Identity) -> None:
        own = self._identity
        if peer.node_id == own.node_id:
            is_own = peer.incarnation == own.incarnation
            raise Refused(Reason.ITSELF if is_own else Reason.ID_IN_USE, f"node {own.node_id}")
        if self._expected_node not in (None, peer.node_id):
            detail = f"node {peer.node_id} in place of node {self._expected_node}"
            raise Refused(Reason.NOT_EXPECTED, detail)
        if refused := self._admit(peer):
            raise refused


_STEPS: Final = {
    HELLO: Handshake._receive_hello,
    PROOF: Handshake._receive_proof,
    WELCOME: Handshake._receive_welcome,
}


def encode_hello(
    identity: Identity,
    nonce: bytes,
    *,
    is_dialer: bool,
    versions: tuple[int, int] = (VERSION_MIN, VERSION_MAX),
) -> bytes:
    side = _DIALER if is_dialer else _ACCEPTOR
    return _FIXED.pack(MAGIC, *versions, side, nonce) + _encode(identity)


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Identity).decode


def _unpack_fixed(body: bytes) -> tuple[int, int, int, bytes]:
    if len(body) < _FIXED.size or not body.startswith(MAGIC):
        raise ProtocolError("not the hello of a node")
    _, version_min, version_max, side, nonce = _FIXED.unpack_from(body)
    return version_min, version_max, side, nonce


def _decode_identity(body: bytes) -> Identity:
    try:
        return _decode(body)
    # ValueError: text that is not UTF-8; RecursionError: a stranger's nesting without end.
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise ProtocolError("the hello does not say who it is from") from None
