"""The order and the bound of what a link sends."""

from hypothesis import given
from hypothesis import strategies as st

from fastnode.peers import frames
from fastnode.peers.frames import Joiner, Splitter
from fastnode.peers.lanes import FRAME_COST, Lanes

PIECE = 100
BOUND = 3_000


def lanes(bytes_max: int = BOUND) -> Lanes:
    return Lanes(bytes_max, PIECE)


def add_packet(queue: Lanes, packet: bytes, *, is_urgent: bool = False) -> bool:
    return queue.add_packet(frames.raft_head(0, len(packet)), packet, is_urgent=is_urgent)


def add_call(queue: Lanes, call_id: int, payload: bytes = b"call") -> bool:
    return queue.add_call(frames.call_head(call_id, 1, 1, len(payload)), payload, call_id)


def add_answer(queue: Lanes, payload: bytes) -> bool:
    return queue.add_answer(frames.answer_head(1, 0, len(payload)), payload)


def received(queue: Lanes, room: int = 1 << 30) -> list[bytes]:
    """Payloads as the peer sees them."""
    splitter, joiner, payloads = Splitter(1 << 20), Joiner(), list[bytes]()
    while queue.cost:
        for frame in splitter.feed(b"".join(queue.take(room))):
            if frame[0] in (frames.PART, frames.LAST):
                joiner.add(frame)
                if frame[0] == frames.LAST:
                    payloads.append(joiner.finish()[1])
            else:
                payloads.append(frame[frames.HEAD_BYTES.get(frame[0], 1) :])
    assert not splitter.is_broken
    return payloads


def test_urgent_leaves_before_bulk() -> None:
    queue = lanes()
    add_packet(queue, b"first")
    add_call(queue, 1, b"second")
    add_packet(queue, b"vote", is_urgent=True)
    assert received(queue) == [b"vote", b"first", b"second"]


def test_urgent_waits_for_one_piece_of_a_long_frame() -> None:
    queue = lanes()
    long = bytes(range(256)) * 4
    add_packet(queue, long)
    splitter = Splitter(1 << 20)
    first = splitter.feed(b"".join(queue.take(1)))
    assert [frame[0] for frame in first] == [frames.PART]
    add_packet(queue, b"vote", is_urgent=True)
    assert splitter.feed(b"".join(queue.take(1)))[0][9:] == b"vote"
    joiner = Joiner()
    for frame in [*first, *splitter.feed(b"".join(queue.take(1 << 30)))]:
        joiner.add(frame)
    assert joiner.finish()[1] == long
    assert queue.cost == 0


def test_room_limits_what_is_taken() -> None:
    queue = lanes()
    for _ in range(5):
        add_packet(queue, b"x" * 50)
    queue.take(60)
    assert queue.taken_bytes == 63
    queue.take(64)
    assert queue.taken_bytes == 126


def test_full_lanes_refuse_bulk_and_calls() -> None:
    queue = lanes()
    while add_packet(queue, b"x" * 90):
        pass
    assert queue.cost <= BOUND
    assert not add_call(queue, 1, b"y" * 90)
    assert not queue.add_answer(frames.answer_head(1, 0, 90), b"z" * 90)
    queue.add_small(frames.cancel_frame(9))
    assert received(queue)[-1] == (9).to_bytes(8, "big")


def test_urgent_evicts_the_youngest_bulk_packets_and_nothing_else() -> None:
    queue = lanes(5 * (13 + 90 + FRAME_COST))
    add_packet(queue, b"a" * 90)
    queue.add_call(frames.call_head(1, 1, 1, 85), b"c" * 85, 1)
    add_packet(queue, b"b" * 90)
    queue.add_answer(frames.answer_head(4, 0, 89), b"d" * 89)
    add_packet(queue, b"e" * 90)
    assert add_packet(queue, b"v" * 90, is_urgent=True)
    assert queue.evicted == 1
    assert add_packet(queue, b"w" * 90, is_urgent=True)
    assert [payload[:1] for payload in received(queue)] == [b"v", b"w", b"a", b"c", b"d"]


def test_urgent_is_refused_when_no_bulk_packet_is_left() -> None:
    queue = lanes(2 * (13 + 90 + FRAME_COST))
    add_packet(queue, b"a" * 90)
    assert add_packet(queue, b"v" * 90, is_urgent=True)
    assert add_packet(queue, b"w" * 90, is_urgent=True)
    assert not add_packet(queue, b"x" * 90, is_urgent=True)
    assert received(queue) == [b"v" * 90, b"w" * 90]


def test_abandoned_call_never_leaves() -> None:
    queue = lanes()
    add_call(queue, 1, b"one")
    add_call(queue, 2, b"two")
    assert queue.abandon(1)
    assert received(queue) == [b"two"]
    assert queue.last_call == 2
    assert not queue.abandon(2)


def test_call_that_has_begun_to_leave_cannot_be_abandoned() -> None:
    queue = lanes()
    add_call(queue, 1, b"x" * 500)
    queue.take(1)
    assert queue.last_call == 0
    assert not queue.abandon(1)
    queue.take(1 << 30)
    assert queue.last_call == 1
    assert queue.cost == 0


Adds = st.lists(
    st.tuples(st.sampled_from(["bulk", "urgent", "call", "answer", "take"]), st.integers(1, 900)),
    max_size=60,
)


@given(adds=Adds)
def test_all_that_is_taken_on_arrives_whole_and_in_order(adds: list[tuple[str, int]]) -> None:
    """Whatever the rooms are: bulk that was not evicted in order, urgent in order."""
    queue, splitter, joiner = lanes(), Splitter(1 << 20), Joiner()
    sent: dict[str, list[bytes]] = {"urgent": [], "bulk": []}
    got: list[bytes] = []

    def take(room: int) -> None:
        for frame in splitter.feed(b"".join(queue.take(room))):
            if frame[0] in (frames.PART, frames.LAST):
                joiner.add(frame)
                if frame[0] == frames.LAST:
                    got.append(joiner.finish()[1])
            else:
                got.append(frame[frames.HEAD_BYTES[frame[0]] :])

    for at, (what, size) in enumerate(adds, start=1):
        payload = at.to_bytes(4, "big") + what.encode() + b"." * size
        if what == "take":
            take(size)
        elif what == "urgent":
            if add_packet(queue, payload, is_urgent=True):
                sent["urgent"].append(payload)
        else:
            is_added = (
                add_packet(queue, payload)
                if what == "bulk"
                else (
                    add_call(queue, at, payload) if what == "call" else add_answer(queue, payload)
                )
            )
            if is_added:
                sent["bulk"].append(payload)
        assert queue.cost <= BOUND + 200
    take(1 << 30)
    assert queue.cost == 0
    urgent = [payload for payload in got if payload[4:].startswith(b"urgent")]
    bulk = [payload for payload in got if not payload[4:].startswith(b"urgent")]
    assert urgent == sent["urgent"]
    missing = [payload for payload in sent["bulk"] if payload not in bulk]
    assert [payload for payload in sent["bulk"] if payload in bulk] == bulk
    assert len(missing) == queue.evicted
    assert all(payload[4:].startswith(b"bulk") for payload in missing)
