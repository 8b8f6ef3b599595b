"""What was received on a connection comes out as it went in, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.workers.packets import (
    PACKET_BYTES_MAX,
    PIECE_BYTES,
    REFUSED,
    TAKEN,
    Assembler,
    BadPacket,
    Moved,
    answer_packet,
    parse_answer,
    split_move,
)

SIZES = st.sampled_from([0, 1, 200, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 300_000])


@given(st.lists(SIZES, min_size=1, max_size=4))
def test_connections_come_out_in_order_and_whole(sizes: list[int]) -> None:
    moves = [Moved(number, bytes([number % 256]) * size) for number, size in enumerate(sizes)]
    packets = [packet for move in moves for packet in split_move(*move)]
    assert max(map(len, packets)) <= PACKET_BYTES_MAX
    assembler = Assembler()
    complete = [moved for packet in packets if (moved := assembler.add(packet)) is not None]
    assert complete == moves


@pytest.mark.parametrize("kind", [TAKEN, REFUSED])
def test_an_answer_says_which_connection_it_is_about(kind: int) -> None:
    assert parse_answer(answer_packet(kind, 0xFFFF_FFFF)) == (kind, 0xFFFF_FFFF)


def test_a_piece_without_its_beginning_is_refused() -> None:
    _, second = split_move(1, bytes(PIECE_BYTES + 1))
    with pytest.raises(BadPacket):
        Assembler().add(second)


def test_a_connection_within_another_is_refused() -> None:
    assembler = Assembler()
    assembler.add(split_move(1, bytes(PIECE_BYTES + 1))[0])
    with pytest.raises(BadPacket):
        assembler.add(split_move(2, b"x")[0])


@given(st.binary(max_size=40))
def test_any_bytes_are_a_packet_or_refused(packet: bytes) -> None:
    for read in (Assembler().add, parse_answer):
        try:
            read(packet)
        except BadPacket:
            pass
