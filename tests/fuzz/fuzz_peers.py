"""Any bytes from another node, or from a stranger who found the port. The first byte picks who
reads them: splitter, handshake, link, the decoder of forwarded calls, the Raft log extension.

A stranger never counts as a member; a link ends, and says why, or goes on; a packet is taken or
refused, and the log goes on either way.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Final, cast

from fastnode._raftlog import RaftGroups, SimDisk
from fastnode.cluster.call_codec import decode_call
from fastnode.config import PEER_FRAME_BYTES_MAX, PEER_HANDSHAKE_BYTES_MAX
from fastnode.peers.calls import Handler, IncomingCall
from fastnode.peers.clock_question import ClockQuestion
from fastnode.peers.frames import LAST, PART, Joiner, ProtocolError, Splitter
from fastnode.peers.handshake import NONCE_BYTES, Handshake, Identity, Refused
from fastnode.peers.link import Counts, Link

OURS: Final = Identity(node_id=1, cluster_id="c" * 32, incarnation=b"i" * 16)
THEIRS: Final = Identity(node_id=2, cluster_id="c" * 32, incarnation=b"j" * 16)
SERVICES: Final = 8
# A packet says milliseconds in 64 bits.
CLOCK_NS_MAX: Final = (1 << 64) * 1_000_000


def _split(data: bytes) -> None:
    """However the bytes are cut, the frames are the same."""
    whole, pieces = Splitter(PEER_FRAME_BYTES_MAX), Splitter(PEER_FRAME_BYTES_MAX)
    frames = whole.feed(data)
    cut = [frame for at in range(len(data)) for frame in pieces.feed(data[at : at + 1])]
    assert cut == frames and whole.is_broken == pieces.is_broken
    joiner = Joiner()
    try:
        for frame in frames:
            if frame[0] in (PART, LAST):
                joiner.add(frame)
                if frame[0] == LAST:
                    joiner.finish()
    except ProtocolError:
        pass


def _greet(data: bytes, *, is_dialer: bool) -> None:
    nonce = b"n" * NONCE_BYTES
    handshake = Handshake(OURS, b"secret", nonce, lambda _peer: None, is_dialer=is_dialer)
    handshake.begin()
    try:
        for frame in Splitter(PEER_HANDSHAKE_BYTES_MAX).feed(data):
            handshake.receive(frame)
    except (Refused, ProtocolError):
        pass
    assert not handshake.is_authenticated, "a stranger was believed"


class _Socket:
    def setsockopt(self, *_: object) -> None: ...


class _Transport:
    """A socket that takes everything."""

    def get_extra_info(self, name: str) -> Any:
        return _Socket() if name == "socket" else None

    def __getattr__(self, _name: str) -> Any:
        return lambda *_args, **_options: 0


class _Host:
    """A node that answers every call with what it was asked."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.log = logging.getLogger("fuzz.peers")
        self.services: Mapping[int, Handler] = dict.fromkeys(range(SERVICES), self._answer)
        self.lost: list[str] = []

    def _answer(self, _peer: Identity, payload: bytes, call: IncomingCall) -> None:
        call.answer(0, payload)

    def wall_ns(self) -> int:
        return 1_700_000_000 * 10**9

    def boottime_ns(self) -> int:
        return 10**9

    def on_raft(self, _node_id: int, _packet: bytes, /) -> None: ...

    def link_lost(self, _link: Link, why: str) -> None:
        self.lost.append(why)


async def _link(data: bytes) -> None:
    host, transport = _Host(), _Transport()
    splitter = Splitter(PEER_FRAME_BYTES_MAX)
    link = Link(host, THEIRS, cast(Any, transport), splitter, dialer_id=1)
    outcomes: list[object] = []
    link.call(0, b"question", 5.0, lambda *outcome: outcomes.append(outcome))
    ClockQuestion(link, link.offsets, host.boottime_ns).tick()
    link.begin([])
    for at in range(0, len(data), 64):
        link.data_received(data[at : at + 64])
    await asyncio.sleep(0)
    assert link.is_lost == bool(host.lost) and len(host.lost) <= 1, host.lost
    link.lose("the input is over")
    assert len(outcomes) == 1, "a call has one outcome"
    assert abs(link.clock_offset_ns or 0) < CLOCK_NS_MAX, "no clock is off by more than one can say"


def _call(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        decode_call(data)


def _step(data: bytes) -> None:
    """Packets behind each other, each with its length in one byte, or one as long as it is."""
    groups = RaftGroups(
        *(1, "", 2),
        voters=[1, 2, 3],
        applied=[0, 0],
        segment_bytes=65_536,
        manual=True,
        election_seed=1,
        disk=SimDisk(1),
    )
    packets = [data] if data[:1] != b"\0" else _packets(data[1:])
    for packet in packets:
        for reason in groups.step(packet):
            assert reason
        groups.ready()
        groups.persist_step()
    groups.tick()
    groups.status()
    groups.close()


def _packets(data: bytes) -> list[bytes]:
    packets, at = list[bytes](), 0
    while at < len(data) and len(packets) < 16:
        size = data[at]
        packets.append(data[at + 1 : at + 1 + size])
        at += 1 + size
    return packets


def check(data: bytes) -> None:
    kind, rest = data[:1], data[1:]
    if kind == b"f":
        _split(rest)
    elif kind in (b"a", b"d"):
        _greet(rest, is_dialer=kind == b"d")
    elif kind == b"l":
        asyncio.run(_link(rest))
    elif kind == b"c":
        _call(rest)
    elif kind == b"r":
        _step(rest)
