"""The receiving side of snapshots: whose turn it is, what is refused, and how it ends."""

import asyncio
from typing import Any

import msgspec
import pytest

from fastnode.cluster import snapshot_staging
from fastnode.cluster.control_pb2 import (
    SnapshotBegin,
    SnapshotChunk,
    SnapshotPart,
    SnapshotRefusal,
)
from fastnode.cluster.snapshot_staging import STREAMS_MAX, Received
from fastnode.errors import Unavailable
from fastnode.store.snapshot import Chunk, Snapshot
from tests.integration.control_kit import Proxy, run
from tests.integration.snapshot_kit import (
    GROUP,
    OFFER,
    Source,
    Target,
    begin,
    open_with,
    pair,
    source,
    target,
    until,
)

__all__ = ["source", "target"]


async def send(stream: Any, chunk: Chunk) -> int:
    """The size that the receiver has after it."""
    part = SnapshotChunk(offset=chunk.offset, content=chunk.content, checksum=chunk.checksum)
    await stream.write(SnapshotPart(chunk=part))
    size: int = (await stream.read()).received_bytes
    assert size == chunk.offset + len(chunk.content)
    return size


def test_a_second_stream_of_the_same_snapshot_takes_over(source: Source, target: Target) -> None:
    async def scenario() -> None:
        async with pair(target) as both:
            silent, answer = await begin(both, source.snapshot.manifest)
            assert answer.received_bytes == 0
            size = await send(silent, source.snapshot.chunk(0))
            _, answer = await begin(both, source.snapshot.manifest)
            assert answer.received_bytes == size
            answer = await silent.read()
            assert answer.refusal.reason == "another stream has taken over"

    run(scenario())


def test_an_older_snapshot_waits_while_a_newer_comes_in(source: Source, target: Target) -> None:
    async def scenario() -> None:
        older = source.snapshot.manifest
        await asyncio.to_thread(source.go_on)
        async with pair(target) as both:
            newer, _ = await begin(both, source.snapshot.manifest)
            _, answer = await begin(both, older)
            assert answer.refusal.kind == SnapshotRefusal.LATER
            assert "a newer snapshot of the group" in answer.refusal.reason
            newer.cancel()
            await until(lambda: both.snapshots._places[GROUP].turn is None)
            _, answer = await begin(both, older)
            assert not answer.HasField("refusal") and answer.received_bytes == 0

    run(scenario())


def test_a_damaged_chunk_is_refused_and_changes_nothing(source: Source, target: Target) -> None:
    async def scenario() -> None:
        async with pair(target) as both:
            stream, _ = await begin(both, source.snapshot.manifest)
            size = await send(stream, source.snapshot.chunk(0))
            chunk = source.snapshot.chunk(size)
            content = bytes([chunk.content[0] ^ 1]) + chunk.content[1:]
            part = SnapshotChunk(offset=size, content=content, checksum=chunk.checksum)
            await stream.write(SnapshotPart(chunk=part))
            refusal = (await stream.read()).refusal
            assert refusal.kind == SnapshotRefusal.LATER
            assert "the chunk is damaged" in refusal.reason
            _, answer = await begin(both, source.snapshot.manifest)
            assert answer.received_bytes == size
            assert await both.start(source.snapshot)

    run(scenario())
    assert target.state() == source.state


def test_a_state_that_is_not_where_its_manifest_says_is_no_state(
    source: Source, target: Target
) -> None:
    manifest = msgspec.structs.replace(source.snapshot.manifest, applied_index=999)

    async def scenario() -> None:
        async with pair(target) as both:
            assert not await both.start(Snapshot(source.snapshot.path, manifest))
            assert not target.incoming.exists()

    run(scenario())
    assert target.state() == target.old and not target.installed


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (SnapshotPart(), "starts with its manifest"),
        (SnapshotPart(chunk=SnapshotChunk()), "starts with its manifest"),
        (SnapshotPart(begin=SnapshotBegin(group=99, manifest=b"m", offer=OFFER)), "no group 99"),
        (SnapshotPart(begin=SnapshotBegin(group=GROUP, manifest=b"m")), "offer of 0 bytes"),
        (
            SnapshotPart(begin=SnapshotBegin(group=GROUP, manifest=b"m", offer=OFFER)),
            "manifest of 1 bytes",
        ),
    ],
)
def test_nonsense_is_refused(target: Target, part: SnapshotPart, text: str) -> None:
    async def scenario() -> None:
        async with pair(target) as both:
            _, answer = await open_with(both, part)
            assert text in answer.refusal.reason

    run(scenario())
    assert target.state() == target.old and not target.incoming.exists()


def test_only_so_many_snapshots_come_in_at_a_time(source: Source, target: Target) -> None:
    async def scenario() -> None:
        async with pair(target) as both:
            manifests = [
                msgspec.structs.replace(source.snapshot.manifest, group=group)
                for group in range(STREAMS_MAX + 1)
            ]
            opened = [await begin(both, manifest) for manifest in manifests]
            refused = [answer.refusal.reason for _, answer in opened]
            assert refused == ["", "", "2 other snapshots are on their way here"]
            # A stream that takes over counts once, and one that ends makes room.
            _, answer = await begin(both, manifests[0])
            assert not answer.HasField("refusal")
            opened[1][0].cancel()
            await until(lambda: both.snapshots._places[1].turn is None)
            _, answer = await begin(both, manifests[2])
            assert not answer.HasField("refusal")

    run(scenario())


def test_what_raft_does_not_want_is_not_installed(source: Source, target: Target) -> None:
    target.wants = False

    async def scenario() -> None:
        async with pair(target) as both:
            assert not await both.start(source.snapshot)
            assert not target.incoming.exists()
            target.wants = True
            assert await both.start(source.snapshot)

    run(scenario())
    assert target.state() == source.state


def test_an_installation_that_fails_for_now_is_tried_again(source: Source, target: Target) -> None:
    tries = 0

    async def install(received: Received) -> bool:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise Unavailable("not now")
        return await target.install(received)

    async def scenario() -> None:
        async with pair(target, install=install) as both:
            assert await both.start(source.snapshot)

    run(scenario())
    assert target.state() == source.state and tries == 2


def test_an_installation_outlives_its_stream_and_happens_once(
    source: Source, target: Target
) -> None:
    async def scenario() -> None:
        entered, go = asyncio.Event(), asyncio.Event()

        async def install(received: Received) -> bool:
            entered.set()
            await go.wait()
            return await target.install(received)

        async with pair(target, install=install) as both, Proxy(both.node.peer.control) as proxy:
            first = both.start(source.snapshot, proxy.address)
            await entered.wait()
            both.sender.cancel(GROUP)
            assert not await first
            second = both.start(source.snapshot)
            await asyncio.sleep(0.05)
            assert not second.done() and target.incoming.exists()
            go.set()
            assert await second
            # And whoever asks later learns that it is there.
            assert await both.start(source.snapshot)

    run(scenario())
    assert len(target.installed) == 1 and target.state() == source.state


def test_a_snapshot_that_nobody_goes_on_with_gives_its_space_back(
    source: Source, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with pair(target) as both:
            stream, _ = await begin(both, source.snapshot.manifest)
            assert target.incoming.exists()
            with monkeypatch.context() as impatient:
                impatient.setattr(snapshot_staging, "IDLE_SECONDS", 0.05)
                stream.cancel()
                await until(lambda: not target.incoming.exists())
            assert await both.start(source.snapshot)

    run(scenario())
    assert target.state() == source.state
