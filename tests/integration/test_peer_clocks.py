"""What linked nodes know of each other's clocks, over real sockets and slow lines."""

import asyncio
from collections.abc import Mapping

import pytest

from fastnode.peers.calls import Handler
from tests.integration.peer_nodes import LOOPS, Line, PeerNode, linked, run_clean, until

HOUR_NS = 3_600 * 10**9
LATE_SECONDS = 0.1
LATE_NS = 100_000_000


@pytest.fixture(params=sorted(LOOPS))
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def slow_line() -> Line:
    line = Line()
    line.delay_seconds = LATE_SECONDS
    return line


def test_equal_clocks_are_known_as_such_over_a_slow_line(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        async with linked(one, two, slow_line()):
            await until(lambda: one.peers.clock_offsets() == {2: 0})
            await until(lambda: two.peers.clock_offsets() == {1: 0})

    run_clean(loop, scenario())


def test_a_wrong_clock_is_known_better_than_packets_are_late(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        right_ns = one.peers.wall_ns
        two.peers.wall_ns = lambda: right_ns() + HOUR_NS
        async with linked(one, two, slow_line()):
            await until(lambda: is_near(one.peers.clock_offsets(), 2, HOUR_NS))
            await until(lambda: is_near(two.peers.clock_offsets(), 1, -HOUR_NS))

    run_clean(loop, scenario())


def is_near(offsets: Mapping[int, int], node: int, expected_ns: int) -> bool:
    return node in offsets and abs(offsets[node] - expected_ns) < LATE_NS * 9 // 10


def test_a_clock_that_is_set_ahead_is_believed_at_once(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        async with linked(one, two) as (_, to_one):
            await until(lambda: one.peers.clock_offsets() == {2: 0})
            two.peers.wall_ns = lambda: one.peers.wall_ns() + HOUR_NS
            to_one.send_raft(b"an hour ahead")
            await until(lambda: one.packets)
            assert one.peers.clock_offsets()[2] > HOUR_NS - 10**9

    run_clean(loop, scenario())


def test_of_a_peer_that_does_not_know_the_question_its_packets_count(loop: str) -> None:
    nothing: Mapping[int, Handler] = {}

    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        two.peers.services = nothing
        async with linked(one, two) as (_, to_one):
            for _ in range(5):
                to_one.send_raft(b"packet")
                await asyncio.sleep(0.002)
            await until(lambda: len(one.packets) == 5)
            assert -500_000_000 < one.peers.clock_offsets()[2] < 0

    run_clean(loop, scenario())
