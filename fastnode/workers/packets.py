"""What travels when a worker hands a connection to a sibling. Pure: the descriptor itself is the
business of `handover.py`.

One packet is one record of a SEQPACKET socket, which has room for about 200 KB; a request may be
larger and is cut. Pieces of one connection follow one another. The answer is one packet too.

    MOVE     u32 number, u32 bytes in all, the first of them    with the descriptor
    MORE     u32 number, u32 bytes in all, some more of them
    TAKEN    u32 number, u32 0                                  it is the sibling's from now on
    REFUSED  u32 number, u32 0                                  nothing has happened
"""

from struct import Struct
from typing import Final, NamedTuple

from fastnode.errors import FastnodeError

MOVE: Final = 1
MORE: Final = 2
TAKEN: Final = 3
REFUSED: Final = 4
PIECE_BYTES: Final = 64 * 1024
_HEAD: Final = Struct(">BII")
PACKET_BYTES_MAX: Final = _HEAD.size + PIECE_BYTES


class BadPacket(FastnodeError):
    """No worker of this version sends it."""


class Moved(NamedTuple):
    """A connection as it was handed over: all that was received on it so far."""

    number: int
    received: bytes


def split_move(number: int, received: bytes) -> list[bytes]:
    """The packets of a connection; the descriptor belongs to the first."""
    pieces = range(0, len(received), PIECE_BYTES) or (0,)
    return [
        _HEAD.pack(MORE if at else MOVE, number, len(received)) + received[at : at + PIECE_BYTES]
        for at in pieces
    ]


def answer_packet(kind: int, number: int) -> bytes:
    return _HEAD.pack(kind, number, 0)


def parse_answer(packet: bytes) -> tuple[int, int]:
    """Kind and number."""
    kind, number, _ = _head(packet)
    if kind not in (TAKEN, REFUSED):
        raise BadPacket(f"no answer is of kind {kind}")
    return kind, number


class Assembler:
    """Packets of one socket → connections."""

    def __init__(self) -> None:
        self._number = 0
        self._missing = 0
        self._pieces: list[bytes] = []

    def add(self, packet: bytes) -> Moved | None:
        """The connection that is complete now."""
        kind, number, total = _head(packet)
        if kind == MOVE and not self._missing:
            self._number, self._missing, self._pieces = number, total, []
        elif kind != MORE or not self._missing or number != self._number:
            raise BadPacket(f"a packet of kind {kind} does not belong here")
        piece = packet[_HEAD.size :]
        self._pieces.append(piece)
        self._missing -= len(piece)
        if self._missing < 0 or (not piece and total):
            raise BadPacket("the pieces of a connection are empty or too many")
        return None if self._missing else Moved(self._number, b"".join(self._pieces))


def _head(packet: bytes) -> tuple[int, int, int]:
    if len(packet) < _HEAD.size:
        raise BadPacket("a packet ends within its head")
    kind, number, total = _HEAD.unpack_from(packet)
    return kind, number, total
