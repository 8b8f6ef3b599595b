"""Frames survive any chunking; whatever else arrives ends in a broken splitter or a ProtocolError,
never in anything else, and never in more held bytes than one frame.
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.config import PEER_FRAME_BYTES_MAX
from fastnode.peers import frames
from fastnode.peers.frames import Joiner, ProtocolError, Splitter

BYTES_MAX = 300
Cuts = st.lists(st.integers(min_value=0, max_value=2_000), max_size=30)


def chunks_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    return [stream[low:high] for low, high in pairwise(edges)]


def split(stream: bytes, cuts: list[int]) -> tuple[list[bytes], bool]:
    splitter = Splitter(BYTES_MAX)
    found = [frame for chunk in chunks_of(stream, cuts) for frame in splitter.feed(chunk)]
    return found, splitter.is_broken


@given(
    bodies=st.lists(st.binary(max_size=BYTES_MAX - 1), max_size=12),
    kind=st.integers(min_value=0, max_value=255),
    cuts=Cuts,
)
def test_frames_do_not_depend_on_chunks(bodies: list[bytes], kind: int, cuts: list[int]) -> None:
    stream = b"".join(frames.plain_frame(kind, body) for body in bodies)
    assert split(stream, cuts) == ([bytes((kind,)) + body for body in bodies], False)


@given(stream=st.binary(max_size=2_000), cuts=Cuts)
def test_garbage_is_judged_alike_in_any_chunks(stream: bytes, cuts: list[int]) -> None:
    assert split(stream, cuts) == split(stream, [])


@given(body=st.binary(max_size=BYTES_MAX - 1), cuts=Cuts, missing=st.integers(1, 5))
def test_truncated_frame_does_not_come_out(body: bytes, cuts: list[int], missing: int) -> None:
    stream = frames.plain_frame(7, body)[:-missing]
    assert split(stream, cuts) == ([], False)


@pytest.mark.parametrize("length", [0, BYTES_MAX + 1, 0xFFFFFFFF])
def test_impossible_length_breaks_before_its_bytes_arrive(length: int) -> None:
    good = frames.plain_frame(5, b"first")
    found, is_broken = split(good + length.to_bytes(4, "big"), [3, 8, 11])
    assert found == [b"\x05first"]
    assert is_broken


def test_longest_frame_passes() -> None:
    assert split(frames.plain_frame(5, b"x" * (BYTES_MAX - 1)), []) == (
        [b"\x05" + b"x" * (BYTES_MAX - 1)],
        False,
    )


def test_nothing_follows_a_broken_length() -> None:
    splitter = Splitter(BYTES_MAX)
    splitter.feed(bytes(4))
    assert splitter.feed(frames.plain_frame(5)) == []


HEADS = {
    frames.RAFT: frames.raft_head(1_234, 0),
    frames.CALL: frames.call_head(77, 2_500, 3, 0),
    frames.ANSWER: frames.answer_head(77, 9, 0),
}


@given(
    kind=st.sampled_from(sorted(HEADS)),
    payload=st.binary(min_size=100, max_size=1_000),
    piece_bytes=st.integers(min_value=40, max_value=80),
)
def test_pieces_become_the_frame_again(kind: int, payload: bytes, piece_bytes: int) -> None:
    head = HEADS[kind]
    stream = b"".join(a + b for a, b in frames.split_frame(head, payload, piece_bytes))
    pieces, is_broken = split(stream, [])
    assert not is_broken and max(map(len, pieces)) <= piece_bytes + 1
    assert [piece[0] for piece in pieces] == [frames.PART] * (len(pieces) - 1) + [frames.LAST]
    joiner = Joiner()
    for piece in pieces:
        joiner.add(piece)
    assert joiner.finish() == (head[4:], payload)


def test_heads_say_what_they_were_given() -> None:
    assert frames.unpack_call(HEADS[frames.CALL][4:]) == (77, 2_500, 3)
    assert frames.unpack_answer(HEADS[frames.ANSWER][4:]) == (77, 9)
    assert frames.unpack_number(HEADS[frames.RAFT][4:]) == (1_234,)
    assert frames.unpack_number(frames.cancel_frame(5)[4:]) == (5,)
    for kind, head in HEADS.items():
        assert len(head) - 4 == frames.HEAD_BYTES[kind] == int.from_bytes(head[:4], "big")


@pytest.mark.parametrize(
    "inner", [b"\x14", b"\x16", b"\x10short", b"\xff" * 20], ids=["ping", "last", "raft", "unknown"]
)
def test_pieces_of_something_else_are_refused(inner: bytes) -> None:
    joiner = Joiner()
    joiner.add(bytes((frames.LAST,)) + inner)
    with pytest.raises(ProtocolError):
        joiner.finish()


def test_pieces_have_a_bound_together() -> None:
    joiner = Joiner()
    piece = bytes((frames.PART,)) + bytes(PEER_FRAME_BYTES_MAX // 2)
    joiner.add(piece)
    joiner.add(piece)
    with pytest.raises(ProtocolError):
        joiner.add(piece)


def test_empty_piece_is_refused() -> None:
    with pytest.raises(ProtocolError):
        Joiner().add(bytes((frames.PART,)))
