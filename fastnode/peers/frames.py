"""Bytes on a link ↔ frames. Pure.

A frame is a u32 length of what follows, a u8 kind and the rest by kind, all numbers big-endian:

    HELLO, PROOF, WELCOME, REFUSAL   the handshake's, see `handshake.py`
    RAFT     u64 the sender's wall clock in milliseconds, packet
    CALL     u64 id, u32 milliseconds that are left, u8 service, payload
    ANSWER   u64 id, u8 status, payload
    CANCEL   u64 id
    PING
    PART     a piece of a frame that is too long to be sent at once, without that frame's length
    LAST     the last piece: the frame is complete

Pieces of one frame follow one another, with whole frames in between. What a frame means is decided
in `link.py`.
"""

from struct import Struct
from typing import Final

from fastnode.config import PEER_FRAME_BYTES_MAX
from fastnode.errors import FastnodeError

HELLO: Final = 1
PROOF: Final = 2
WELCOME: Final = 3
REFUSAL: Final = 4
RAFT: Final = 16
CALL: Final = 17
ANSWER: Final = 18
CANCEL: Final = 19
PING: Final = 20
PART: Final = 21
LAST: Final = 22

LENGTH_BYTES: Final = 4
CALL_MS_MAX: Final = (1 << 32) - 1
# What precedes the payload of a frame, the kind included. Only these may come in pieces.
HEAD_BYTES: Final = {RAFT: 9, CALL: 14, ANSWER: 10}
CANCEL_BYTES: Final = 9

_LENGTH: Final = Struct(">I")
_PLAIN: Final = Struct(">IB")
_WITH_NUMBER: Final = Struct(">IBQ")
_CALL: Final = Struct(">IBQIB")
_ANSWER: Final = Struct(">IBQB")
_unpack_length: Final = _LENGTH.unpack_from

# Of the frames themselves, after the length and the kind.
unpack_number: Final = Struct(">xQ").unpack_from
unpack_call: Final = Struct(">xQIB").unpack_from
unpack_answer: Final = Struct(">xQB").unpack_from

PING_FRAME: Final = _PLAIN.pack(1, PING)


class ProtocolError(FastnodeError):
    """The other side sent what no frame can be; the link cannot go on."""


def plain_frame(kind: int, body: bytes = b"") -> bytes:
    return _PLAIN.pack(1 + len(body), kind) + body


def raft_head(wall_ms: int, packet_bytes: int) -> bytes:
    return _WITH_NUMBER.pack(9 + packet_bytes, RAFT, wall_ms)


def call_head(call_id: int, milliseconds: int, service: int, payload_bytes: int) -> bytes:
    return _CALL.pack(14 + payload_bytes, CALL, call_id, milliseconds, service)


def answer_head(call_id: int, status: int, payload_bytes: int) -> bytes:
    return _ANSWER.pack(10 + payload_bytes, ANSWER, call_id, status)


def cancel_frame(call_id: int) -> bytes:
    return _WITH_NUMBER.pack(CANCEL_BYTES, CANCEL, call_id)


def split_frame(head: bytes, payload: bytes, piece_bytes: int) -> list[tuple[bytes, memoryview]]:
    """One long frame as pieces of at most `piece_bytes`, each a head and a view of the payload."""
    inner, view = head[LENGTH_BYTES:], memoryview(payload)
    first = piece_bytes - len(inner)
    assert 0 < first < len(payload)
    pieces = [(_PLAIN.pack(1 + piece_bytes, PART) + inner, view[:first])]
    for at in range(first, len(payload), piece_bytes):
        piece = view[at : at + piece_bytes]
        kind = PART if at + piece_bytes < len(payload) else LAST
        pieces.append((_PLAIN.pack(1 + len(piece), kind), piece))
    return pieces


class Splitter:
    """Chunks of bytes as they arrive → frames without their lengths.

    `is_broken` says that a length was impossible: the frames before it are good, nothing follows.
    Holds at most one frame that is not complete.
    """

    __slots__ = ("_held", "_held_bytes", "_needed_bytes", "bytes_max", "is_broken")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.is_broken = False
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._needed_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        if self.is_broken:
            return []
        if self._held_bytes:
            self._held.append(chunk)
            self._held_bytes += len(chunk)
            if self._held_bytes < self._needed_bytes:
                return []
            chunk = b"".join(self._held)
            self._held = []
            self._held_bytes = 0
        return self._split(chunk)

    def _split(self, chunk: bytes) -> list[bytes]:
        frames: list[bytes] = []
        at, end = 0, len(chunk)
        needed = LENGTH_BYTES
        while end - at >= LENGTH_BYTES:
            (length,) = _unpack_length(chunk, at)
            if not 0 < length <= self.bytes_max:
                self.is_broken = True
                return frames
            after = at + LENGTH_BYTES + length
            if after > end:
                needed = LENGTH_BYTES + length
                break
            frames.append(chunk[at + LENGTH_BYTES : after])
            at = after
        if at < end:
            self._held.append(chunk[at:] if at else chunk)
            self._held_bytes = end - at
            self._needed_bytes = needed
        return frames


class Joiner:
    """Pieces → the frame they were cut from, as its head and its payload."""

    __slots__ = ("_bytes", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._bytes = 0

    def add(self, frame: bytes) -> None:
        """Take a PART or LAST frame."""
        self._bytes += len(frame) - 1
        # A piece without bytes could be repeated for ever.
        if len(frame) < 2 or self._bytes > PEER_FRAME_BYTES_MAX:
            raise ProtocolError("the pieces of a frame are empty or too many")
        self._pieces.append(frame)

    def finish(self) -> tuple[bytes, bytes]:
        """Head and payload, copied once."""
        head = self._pieces[0][1:]
        skipped = HEAD_BYTES.get(head[0])
        if skipped is None or len(head) < skipped:
            raise ProtocolError("the pieces are of no frame that comes in pieces")
        views = [memoryview(piece)[1:] for piece in self._pieces]
        views[0] = views[0][skipped:]
        self._pieces = []
        self._bytes = 0
        return head[:skipped], b"".join(views)
