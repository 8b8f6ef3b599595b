"""Links between nodes over real sockets: calls, packets, bounds, and connections that break."""

import asyncio
import itertools
from functools import partial

import pytest

from fastnode.config import PEER_BACKLOG_BYTES_MAX, PEER_CALLS_MAX, PEER_FRAME_BYTES_MAX
from fastnode.errors import DeadlineExceeded, OperationError, Overloaded
from fastnode.peers.calls import (
    BUG,
    UNKNOWN_SERVICE,
    Asked,
    CallCancelled,
    IncomingCall,
    LinkLost,
    ask,
)
from fastnode.peers.dialer import Timing
from fastnode.peers.handshake import Identity
from fastnode.peers.link import Link
from tests.integration.peer_nodes import (
    ECHO,
    KEEP,
    LOOPS,
    QUICK,
    RAISE,
    Line,
    PeerNode,
    linked,
    run_clean,
    until,
)

Outcome = tuple[int, bytes | None, OperationError | None]


@pytest.fixture(params=sorted(LOOPS))
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Outcomes(list[Outcome]):
    """What `on_done` said, each time."""

    def done(self, status: int, payload: bytes | None, error: OperationError | None) -> None:
        self.append((status, payload, error))


async def outcome(link: Link, service: int, payload: bytes = b"", seconds: float = 5.0) -> Outcome:
    outcomes = Outcomes()
    link.call(service, payload, seconds, outcomes.done)
    await until(lambda: outcomes)
    return outcomes[0]


def test_linked_nodes_know_each_other(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        async with linked(one, two) as (to_two, to_one):
            assert one.peers.reachable == [2] and two.peers.reachable == [1]
            assert to_one.peer == one.peers.identity
            assert to_two.peer.sqs_url == "http://node-2"
            assert one.known == {2: b"\2" * 16} and two.known == {1: b"\1" * 16}
        await until(lambda: one.downs and two.downs)
        assert (one.downs, two.downs) == ([to_two], [to_one])
        assert one.peers.link_to(2) is None

    run_clean(loop, scenario())


def test_ten_thousand_calls_each_way_at_once(loop: str) -> None:
    async def scenario() -> None:
        async with linked(PeerNode(1), PeerNode(2)) as (to_two, to_one):
            payloads = [b"%d." % at + b"x" * (at % 700) for at in range(10_000)]
            got: dict[tuple[int, int], Outcome] = {}
            for (at, payload), link in itertools.product(enumerate(payloads), (to_two, to_one)):
                key = link.peer.node_id, at

                def done(
                    status: int,
                    payload: bytes | None,
                    error: OperationError | None,
                    key: tuple[int, int] = key,
                ) -> None:
                    assert key not in got
                    got[key] = status, payload, error

                link.call(ECHO, payload, 30.0, done)
            await until(lambda: len(got) == 20_000)
            for (asked, at), result in got.items():
                assert result == (3 - asked, payloads[at], None)

    run_clean(loop, scenario())


@pytest.mark.parametrize("size", [0, 262_130, 262_144, 1_000_003, 9 * 1_048_576])
def test_payloads_of_any_size_arrive_whole(loop: str, size: int) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        payload = (bytes(range(251)) * (size // 251 + 1))[:size]
        async with linked(one, two) as (_, to_one):
            assert await ask(to_one, ECHO, payload, 10.0) == (2, payload)
            to_one.send_raft(payload)
            to_one.send_raft(b"vote", is_urgent=True)
            await until(lambda: len(one.packets) == 2)
            assert one.packets == [(2, b"vote"), (2, payload)], "urgent first"

    run_clean(loop, scenario())


def test_service_with_a_bug_and_unknown_service_are_told_apart(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        async with linked(one, two) as (_, to_one):
            assert await outcome(to_one, RAISE) == (BUG, b"", None)
            assert await outcome(to_one, 77) == (UNKNOWN_SERVICE, b"", None)
            assert await outcome(to_one, ECHO, b"still there") == (2, b"still there", None)
            assert len(one.logged.having("a service failed")) == 1

    run_clean(loop, scenario())


def test_cancelled_call_ends_here_and_at_the_peer(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        async with linked(one, two) as (_, to_one):
            outcomes, told = Outcomes(), list[str]()
            call_id = to_one.call(KEEP, b"", 30.0, outcomes.done)
            await until(lambda: one.kept)
            [call] = one.kept
            call.on_cancel = lambda: told.append("cancelled")
            to_one.cancel(call_id)
            to_one.cancel(call_id)
            await until(lambda: told)
            assert not call.answer(0, b"late")
            assert len(outcomes) == 1 and isinstance(outcomes[0][2], CallCancelled)
            assert await ask(to_one, ECHO, b"next", 5.0) == (2, b"next")
            assert told == ["cancelled"] and len(outcomes) == 1

    run_clean(loop, scenario())


def test_cancelled_task_cancels_its_call(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        async with linked(one, two) as (_, to_one):
            task = asyncio.create_task(ask(to_one, KEEP, b"", 30.0))
            await until(lambda: one.kept)
            task.cancel()
            await until(lambda: one.kept[0].is_cancelled)
            assert task.cancelled()

    run_clean(loop, scenario())


def test_call_that_was_given_up_before_it_left_is_never_served(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        async with linked(one, two) as (_, to_one):
            asked = Asked(to_one, KEEP, b"", 30.0)
            asked.cancel()
            await ask(to_one, ECHO, b"", 5.0)
            assert one.kept == []

    run_clean(loop, scenario())


def test_deadline_passes_on_both_sides(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        async with linked(one, two) as (_, to_one):
            running = asyncio.get_running_loop()
            begun = running.time()
            late = Outcomes()
            to_one.call(KEEP, b"", 30.0, late.done)
            status, payload, error = await outcome(to_one, KEEP, seconds=0.15)
            took = running.time() - begun
            assert (status, payload) == (0, None) and isinstance(error, DeadlineExceeded)
            assert 0.14 < took < 20.0
            await until(lambda: len(one.kept) == 2 and one.kept[1].is_cancelled)
            assert begun + 0.1 < one.kept[1].deadline < running.time() + 0.2
            assert not one.kept[0].is_cancelled and not late
            assert isinstance((await outcome(to_one, KEEP, seconds=0.0))[2], DeadlineExceeded)

    run_clean(loop, scenario())


def test_number_and_size_of_calls_are_bounded(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        async with linked(one, two) as (_, to_one):
            waiting = Outcomes()
            for _ in range(PEER_CALLS_MAX):
                to_one.call(KEEP, b"", 60.0, waiting.done)
            assert not waiting
            assert isinstance((await outcome(to_one, ECHO))[2], Overloaded)
            await until(lambda: len(one.kept) == PEER_CALLS_MAX)
            for call in one.kept:
                call.answer(0)
            await until(lambda: len(waiting) == PEER_CALLS_MAX)
            too_large = bytes(PEER_FRAME_BYTES_MAX)
            assert isinstance((await outcome(to_one, ECHO, too_large))[2], Overloaded)
            assert not to_one.send_raft(too_large)
            waiting.clear()
            to_one.call(KEEP, b"", 60.0, waiting.done)
            await until(lambda: len(one.kept) == PEER_CALLS_MAX + 1)
            assert not one.kept[-1].answer(0, too_large)
            await until(lambda: waiting)
            error = waiting[0][2]
            assert isinstance(error, LinkLost) and error.was_written
            assert two.peers.counts.calls_refused == 2

    run_clean(loop, scenario())


def test_lost_link_fails_waiting_calls_and_says_which_had_left(loop: str) -> None:
    async def scenario() -> None:
        one, two, line = PeerNode(1), PeerNode(2), Line()
        async with linked(one, two, line) as (_, to_one):
            outcomes, told = Outcomes(), list[str]()
            to_one.call(KEEP, b"", 30.0, outcomes.done)
            await until(lambda: one.kept)
            one.kept[0].on_cancel = lambda: told.append("gone")
            to_one.call(KEEP, b"never written", 30.0, outcomes.done)
            to_one.lose("for the test")
            errors = [error for _, _, error in outcomes if isinstance(error, LinkLost)]
            assert [error.was_written for error in errors] == [True, False]
            refused = Outcomes()
            to_one.call(KEEP, b"", 30.0, refused.done)
            assert isinstance(refused[0][2], LinkLost) and not refused[0][2].was_written
            assert not to_one.send_raft(b"packet")
            await until(lambda: told)
            assert not one.kept[0].answer(0)
            await until(lambda: two.peers.link_to(1) and one.peers.link_to(2))
            assert await ask(two.link(1), ECHO, b"again", 5.0) == (2, b"again")
            assert two.logged.having("for the test")

    run_clean(loop, scenario())


@pytest.mark.parametrize("direction", [0, 1], ids=["from-dialer", "to-dialer"])
def test_connection_cut_after_any_byte_of_an_exchange(direction: int) -> None:
    """Handshake, a call each way, their answers: the cut is seen on both sides, calls end once, and
    what a peer carried out is never reported as not written.
    """

    async def scenario() -> None:
        one, two, line = PeerNode(1), PeerNode(2), Line()
        served: set[bytes] = set()
        outcomes: dict[bytes, Outcomes] = {}

        def serve(_peer: Identity, payload: bytes, call: IncomingCall) -> None:
            served.add(payload)
            call.answer(0, payload)

        def exchange(link: Link) -> None:
            name = b"%d of %d" % (len(outcomes), link.peer.node_id)
            outcomes[name] = Outcomes()
            link.call(ECHO, name, 30.0, outcomes[name].done)

        one.peers.services = two.peers.services = {ECHO: serve}
        one.peers._on_up = two.peers._on_up = exchange
        line.cut_later_each_time = direction
        try:
            await one.start()
            await two.start({1: await line.start(one.address)})
            await until(
                lambda: one.peers.reachable and two.peers.reachable and is_spared(line, outcomes),
                40.0,
            )
            assert 250 < line.passed[direction] < 600
            assert one.peers.reachable == [2] and two.peers.reachable == [1]
        finally:
            await two.peers.close()
            await one.peers.close()
            await line.close()
        check(outcomes, served)

    def is_spared(line: Line, outcomes: dict[bytes, Outcomes]) -> bool:
        last = list(outcomes.values())[-2:]
        is_answered = len(last) == 2 and all(each and each[0][2] is None for each in last)
        return is_answered and line.was_spared(direction)

    def check(outcomes: dict[bytes, Outcomes], served: set[bytes]) -> None:
        kinds: set[object] = set()
        for name, results in outcomes.items():
            [(status, payload, error)] = results
            if error is None:
                assert (status, payload) == (0, name)
            else:
                assert isinstance(error, LinkLost)
                assert error.was_written or name not in served
            kinds.add(getattr(error, "was_written", None))
        assert {None, True} <= kinds

    run_clean("uvloop", scenario())


def test_slow_reader_costs_bounded_memory_and_heartbeats_still_pass(loop: str) -> None:
    async def scenario() -> None:
        one, two, line = PeerNode(1), PeerNode(2), Line()
        async with linked(one, two, line) as (_, to_one):
            line.rates[0] = 8 * 1_048_576
            packet = bytes(1_048_576)
            while to_one.send_raft(packet):
                pass
            assert to_one.backlog_bytes <= PEER_BACKLOG_BYTES_MAX
            dropped = two.peers.counts.packets_dropped
            assert dropped == 1
            assert isinstance((await outcome(to_one, ECHO, packet))[2], Overloaded)
            for at in range(5):
                while to_one.send_raft(packet):
                    pass
                heartbeat = b"heartbeat %d" % at
                assert to_one.send_raft(heartbeat, is_urgent=True)
                await until(partial(one.packets.__contains__, (2, heartbeat)))
                # What stands before it: one piece of ours, the kernels' buffers and the line's.
                assert to_one.backlog_bytes > PEER_BACKLOG_BYTES_MAX // 4, "not the bulk"
            assert two.peers.counts.urgent_packets_dropped == 0
            line.rates[0] = 0
            await until(lambda: to_one.backlog_bytes == 0)

    run_clean(loop, scenario())


def test_urgent_packets_evict_bulk_when_the_peer_reads_nothing(loop: str) -> None:
    async def scenario() -> None:
        one, two, line = PeerNode(1), PeerNode(2), Line()
        async with linked(one, two, line) as (_, to_one):
            line.stop()
            while to_one.send_raft(bytes(1_000_000)):
                pass
            await asyncio.sleep(0.05)
            while to_one.send_raft(bytes(1_000_000)):
                pass
            dropped = two.peers.counts.packets_dropped
            for _ in range(3_000):
                assert to_one.send_raft(bytes(1_000), is_urgent=True)
            assert to_one.backlog_bytes <= PEER_BACKLOG_BYTES_MAX
            assert two.peers.counts.packets_dropped > dropped
            assert two.peers.counts.urgent_packets_dropped == 0
            line.resume()

    run_clean(loop, scenario())


def test_silent_link_is_given_up_and_an_idle_one_is_not(loop: str) -> None:
    async def scenario() -> None:
        timing = QUICK._replace(ping_seconds=0.04, silent_seconds=0.4)
        one, two, line = PeerNode(1, timing=timing), PeerNode(2, timing=timing), Line()
        async with linked(one, two, line):
            await asyncio.sleep(1.0)
            assert not one.downs and not two.downs, "pings keep an idle link"
            line.stop()
            await until(lambda: one.downs and two.downs)
            assert one.logged.having("nothing was heard") and two.logged.having("nothing was heard")
            line.resume()
            await until(lambda: one.peers.link_to(2) and two.peers.link_to(1))

    run_clean(loop, scenario())


def test_answers_that_were_given_leave_before_the_link_closes(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2, timing=Timing())
        async with linked(one, two) as (_, to_one):
            outcomes = Outcomes()
            for _ in range(20):
                to_one.call(KEEP, b"", 30.0, outcomes.done)
            await until(lambda: len(one.kept) == 20)
            for call in one.kept:
                assert call.answer(0, bytes(100_000))
            await one.peers.close()
            await until(lambda: len(outcomes) == 20)
            assert all(error is None for _, _, error in outcomes)

    run_clean(loop, scenario())
