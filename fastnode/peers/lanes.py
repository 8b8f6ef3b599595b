"""What a link has to send and in which order. Pure.

Two lanes. *Urgent* frames leave before everything else. *Bulk* frames leave in order, and those
longer than a piece are cut, so that an urgent frame waits for one piece at most and not for what
stands behind it. `take` is called with the room that the socket has; until then frames stay here,
where they can still be overtaken, abandoned or evicted.

All frames share one bound. When it is reached, new bulk packets are refused, and an urgent packet
first evicts bulk packets, the youngest first: Raft sends again what is lost.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from fastnode.peers.frames import LENGTH_BYTES, split_frame

Buffer = bytes | memoryview
# In place of a call's id: a frame that must leave, and a packet that may be evicted.
_KEPT: Final = 0
_PACKET: Final = -1
# Counted per frame besides its bytes, so that the bound also holds for very many small ones.
FRAME_COST: Final = 64


class Lanes:
    """The backlog of one link. `last_call` is the id of the youngest call that has left whole."""

    __slots__ = (
        "_abandoned",
        "_bulk",
        "_bytes_max",
        "_piece_bytes",
        "_piece_owner",
        "_pieces",
        "_urgent",
        "_urgent_cost",
        "_whole_bytes_max",
        "cost",
        "evicted",
        "last_call",
        "taken_bytes",
    )

    def __init__(self, bytes_max: int, piece_bytes: int) -> None:
        self.cost = 0
        self.evicted = 0
        self.last_call = 0
        self.taken_bytes = 0
        self._bytes_max = bytes_max
        self._piece_bytes = piece_bytes
        self._whole_bytes_max = piece_bytes + LENGTH_BYTES
        self._urgent: list[Buffer] = []
        self._urgent_cost = 0
        self._bulk: deque[tuple[bytes, bytes, int]] = deque()
        self._pieces: deque[tuple[bytes, memoryview]] = deque()
        self._piece_owner = _KEPT
        self._abandoned: set[int] = set()

    def add_packet(self, head: bytes, packet: bytes, *, is_urgent: bool) -> bool:
        """False: there is no room, the packet is lost."""
        cost = len(head) + len(packet) + FRAME_COST
        if is_urgent:
            return self._add_urgent(head, packet, cost)
        return self._add_bulk(head, packet, _PACKET, cost)

    def add_call(self, head: bytes, payload: bytes, call_id: int) -> bool:
        assert call_id > self.last_call
        return self._add_bulk(head, payload, call_id, len(head) + len(payload) + FRAME_COST)

    def add_answer(self, head: bytes, payload: bytes) -> bool:
        return self._add_bulk(head, payload, _KEPT, len(head) + len(payload) + FRAME_COST)

    def add_small(self, frame: bytes) -> None:
        """In order behind all bulk, whatever the bound says: there is one per call at most."""
        self._bulk.append((frame, b"", _KEPT))
        self.cost += len(frame) + FRAME_COST

    def add_ping(self, frame: bytes) -> None:
        """Only an idle link needs it, so nothing is evicted for it."""
        self._urgent.append(frame)
        self._urgent_cost += len(frame) + FRAME_COST
        self.cost += len(frame) + FRAME_COST

    def abandon(self, call_id: int) -> bool:
        """True: the call had not begun to leave and never will."""
        if call_id <= self.last_call or call_id == self._piece_owner:
            return False
        self._abandoned.add(call_id)
        return True

    def take(self, room: int) -> list[Buffer]:
        """Everything urgent, then bulk until the room is used up; the last piece may exceed it."""
        buffers = self._urgent
        taken = sum(map(len, buffers))
        self._urgent = []
        self.cost -= self._urgent_cost
        self._urgent_cost = 0
        while taken < room and (self._pieces or self._bulk):
            taken += self._take_piece(buffers) if self._pieces else self._take_frame(buffers)
        self.taken_bytes = taken
        return buffers

    def _add_urgent(self, head: bytes, packet: bytes, cost: int) -> bool:
        if self.cost + cost > self._bytes_max:
            self._evict(self.cost + cost - self._bytes_max)
            if self.cost + cost > self._bytes_max:
                return False
        self._urgent += (head, packet)
        self._urgent_cost += cost
        self.cost += cost
        return True

    def _add_bulk(self, head: bytes, payload: bytes, owner: int, cost: int) -> bool:
        if self.cost + cost > self._bytes_max:
            return False
        self._bulk.append((head, payload, owner))
        self.cost += cost
        return True

    def _evict(self, wanted: int) -> None:
        kept: list[tuple[bytes, bytes, int]] = []
        while self._bulk and wanted > 0:
            head, payload, owner = self._bulk.pop()
            if owner != _PACKET:
                kept.append((head, payload, owner))
                continue
            freed = len(head) + len(payload) + FRAME_COST
            wanted -= freed
            self.cost -= freed
            self.evicted += 1
        self._bulk.extend(reversed(kept))

    def _take_frame(self, buffers: list[Buffer]) -> int:
        """Bytes added; none when the frame was abandoned or is to be cut."""
        head, payload, owner = self._bulk.popleft()
        size = len(head) + len(payload)
        self.cost -= size + FRAME_COST
        if owner > 0:
            if owner in self._abandoned:
                self._abandoned.discard(owner)
                return 0
            if size <= self._whole_bytes_max:
                self.last_call = owner
        if size > self._whole_bytes_max:
            self._cut(split_frame(head, payload, self._piece_bytes), owner)
            return 0
        buffers.append(head)
        if payload:
            buffers.append(payload)
        return size

    def _cut(self, pieces: Iterable[tuple[bytes, memoryview]], owner: int) -> None:
        self._pieces.extend(pieces)
        self._piece_owner = owner
        self.cost += sum(len(head) + len(piece) for head, piece in self._pieces)

    def _take_piece(self, buffers: list[Buffer]) -> int:
        head, piece = self._pieces.popleft()
        buffers += (head, piece)
        size = len(head) + len(piece)
        self.cost -= size
        if not self._pieces:
            if self._piece_owner > 0:
                self.last_call = self._piece_owner
            self._piece_owner = _KEPT
        return size
