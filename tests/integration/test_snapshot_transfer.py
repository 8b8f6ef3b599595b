"""Snapshots from node to node: whole, broken, on a full disk, cancelled, replaced."""

import asyncio
import errno
import logging
import os
from typing import Any, NoReturn

import grpc
import pytest

from fastnode.cluster import snapshot_staging, snapshot_transfer
from fastnode.cluster.rate_limit import RateLimit
from fastnode.store.snapshot import Receiver
from tests.integration.control_kit import Proxy, receiver, run, serving
from tests.integration.snapshot_kit import (
    GROUP,
    MEGABYTE,
    OFFER,
    Pair,
    Source,
    Target,
    pair,
    source,
    target,
    until,
)

__all__ = ["source", "target"]


def count_writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets of all chunks that are written, in order."""
    offsets: list[int] = []
    write = Receiver.write

    def counted(self: Receiver, chunk: Any) -> None:
        write(self, chunk)
        offsets.append(chunk.offset)

    monkeypatch.setattr(Receiver, "write", counted)
    return offsets


def test_a_state_arrives_and_takes_the_place_of_the_old_one(source: Source, target: Target) -> None:
    async def scenario() -> None:
        async with pair(target) as both:
            assert await both.start(source.snapshot)
            assert target.installed == [(GROUP, 2, OFFER)]

    run(scenario())
    assert target.state() == source.state
    assert not target.incoming.exists()


def test_a_broken_connection_resumes_where_it_broke(
    source: Source, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = count_writes(monkeypatch)

    async def scenario() -> None:
        async with pair(target) as both, Proxy(both.node.peer.control) as proxy:
            proxy.cut_after = [MEGABYTE, MEGABYTE, MEGABYTE]
            assert await both.start(source.snapshot, proxy.address)
            assert proxy.cuts == 3

    run(scenario())
    assert target.state() == source.state
    # Nothing was written twice, so nothing began from the start.
    assert offsets == sorted(set(offsets)) and len(offsets) > 10


@pytest.mark.parametrize("cut_after", [1, 40, 100, 300, 2_000, 70_000])
def test_wherever_the_connection_breaks_the_state_arrives(
    source: Source, target: Target, cut_after: int
) -> None:
    async def scenario() -> None:
        async with pair(target) as both, Proxy(both.node.peer.control) as proxy:
            proxy.cut_after = [cut_after]
            assert await both.start(source.snapshot, proxy.address)
            assert proxy.cuts == 1

    run(scenario())
    assert target.state() == source.state and len(target.installed) == 1


def test_the_receiver_restarts_and_the_transfer_begins_again(
    source: Source, target: Target
) -> None:
    async def scenario() -> None:
        slow = RateLimit(4 * MEGABYTE, 300_000)
        async with pair(target, limit=slow) as both:
            done = both.start(source.snapshot)
            await until(target.incoming.exists)
            port = int(both.node.peer.control.rpartition(":")[2])
            await both.node.server.stop()
            await both.snapshots.close()
            assert not target.incoming.exists()
            again = receiver(target.base, target.install)
            async with serving(again, port=port):
                assert await done
            await again.close()

    run(scenario())
    assert target.state() == source.state


def test_a_full_disk_is_waited_out_and_nothing_is_damaged(
    source: Source, target: Target, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    offsets = count_writes(monkeypatch)
    pwrite, failures = os.pwrite, [3, 2, 1]

    def sometimes(descriptor: int, content: bytes, offset: int) -> int:
        if failures and len(offsets) >= 6:
            failures.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", sometimes)

    async def scenario() -> None:
        async with pair(target) as both:
            assert await both.start(source.snapshot)

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert not failures
    assert target.state() == source.state
    assert offsets == sorted(set(offsets))
    assert "No space left on device" in caplog.text


def test_a_disk_without_room_is_not_touched(source: Source, target: Target, caplog: Any) -> None:
    rooms = [10, 20]

    async def scenario() -> None:
        async with pair(target, room=lambda: rooms.pop() if rooms else 1 << 40) as both:
            assert await both.start(source.snapshot)

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert "the disk has room for 20" in caplog.text
    assert target.state() == source.state


def test_a_sender_that_gives_up_says_so(
    source: Source, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_transfer, "GIVE_UP_SECONDS", 0.3)

    async def scenario() -> None:
        async with pair(target, room=lambda: 0) as both:
            assert not await both.start(source.snapshot)

    run(scenario())
    assert target.state() == target.old


def received_bytes(both: Pair) -> int:
    state = both.snapshots._places[GROUP].state
    return 0 if state is None else state.received_bytes


def test_losing_the_lead_cancels(source: Source, target: Target) -> None:
    async def scenario() -> None:
        async with pair(target, limit=RateLimit(2 * MEGABYTE, 1)) as both:
            done = both.start(source.snapshot)
            both.sender.cancel(GROUP + 1)
            await until(lambda: received_bytes(both) > 0)
            both.sender.cancel(GROUP)
            assert not await done
        assert not target.incoming.exists()

    run(scenario())
    assert target.state() == target.old and not target.installed


def test_cancelled_before_it_began_is_told_too(source: Source, target: Target) -> None:
    async def scenario() -> None:
        async with pair(target) as both:
            done = both.start(source.snapshot)
            both.sender.cancel(GROUP)
            assert not await done

    run(scenario())


class ForgetfulStream:
    """As gRPC's is when it breaks while it begins: a cancellation that comes then is forgotten."""

    def __init__(self) -> None:
        self.is_read = asyncio.Event()

    async def read(self) -> NoReturn:
        self.is_read.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            nothing = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing) from None
        raise AssertionError

    def cancel(self) -> None:
        """Its end is no news to it."""


def test_a_cancellation_that_grpc_forgets_ends_the_transfer(
    source: Source, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver has ended, and will be found elsewhere: to go on would keep others waiting."""

    async def scenario() -> None:
        async with pair(target) as both:
            stream = ForgetfulStream()
            monkeypatch.setattr(both.client, "send_snapshot", lambda peer: stream)
            done = both.start(source.snapshot)
            await stream.is_read.wait()
            both.sender.cancel_to(both.node.peer.node)
            async with asyncio.timeout(60):
                assert not await done

    run(scenario())


def test_another_start_takes_the_place_of_the_first(source: Source, target: Target) -> None:
    async def scenario() -> None:
        async with pair(target) as both:
            first, second = both.start(source.snapshot), both.start(source.snapshot)
            assert not await first
            assert await second

    run(scenario())
    assert target.state() == source.state and len(target.installed) == 1


def test_a_newer_snapshot_replaces_the_older(source: Source, target: Target) -> None:
    async def scenario() -> None:
        async with pair(target, limit=RateLimit(1_000_000, 300_000)) as both:
            older = both.start(source.snapshot)
            await until(target.incoming.exists)
            both.sender.limit = RateLimit(1 << 40, MEGABYTE)
            await asyncio.to_thread(source.go_on)
            newer = both.start(source.snapshot)
            assert not await older
            assert await newer

    run(scenario())
    assert target.state() == source.state and len(target.installed) == 1


def test_files_that_changed_since_they_were_taken_never_become_a_state(
    source: Source, target: Target, caplog: Any
) -> None:
    largest = max(source.snapshot.path.iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    # The checkpoint's files are links: a new file, so that the source's own stays whole.
    largest.unlink()
    largest.write_bytes(content)

    async def scenario() -> None:
        async with pair(target) as both:
            assert not await both.start(source.snapshot)

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert "not the file that was sent" in caplog.text
    assert target.state() == target.old and not target.installed


def test_the_rate_is_kept(source: Source, target: Target) -> None:
    async def scenario() -> float:
        async with pair(target, limit=RateLimit(8 * MEGABYTE, 300_000)) as both:
            began = asyncio.get_running_loop().time()
            assert await both.start(source.snapshot)
            return asyncio.get_running_loop().time() - began

    seconds = run(scenario())
    assert seconds >= (source.snapshot.total_bytes - 300_000) / (8 * MEGABYTE)


def test_long_transfers_tell_how_far_they_are(
    source: Source, target: Target, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    for module in (snapshot_transfer, snapshot_staging):
        monkeypatch.setattr(module, "REPORT_SECONDS", 0.0)

    async def scenario() -> None:
        async with pair(target) as both:
            assert await both.start(source.snapshot)

    with caplog.at_level(logging.INFO):
        run(scenario())
    sent = [row.__dict__["sent_bytes"] for row in caplog.records if row.message.startswith("send")]
    got = [row for row in caplog.records if row.message == "receiving a snapshot"]
    assert sent[0] == 0 and sent[-1] == source.snapshot.total_bytes and len(sent) > 10
    assert len(got) > 10


def test_a_sender_that_is_not_admitted_does_not_try_again(source: Source, target: Target) -> None:
    async def scenario() -> None:
        snapshots = receiver(target.base, target.install)
        async with serving(snapshots, admits=lambda node, method: False) as node:
            both = Pair(node, snapshots, None)
            assert not await both.start(source.snapshot)
            await both.sender.close()
            await both.client.close()
        await snapshots.close()

    run(scenario())
    assert target.state() == target.old
