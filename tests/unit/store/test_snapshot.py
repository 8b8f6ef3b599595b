"""Snapshots with real RocksDB: round trips, broken transfers, and the old state when they fail."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from fastnode import native
from fastnode.clock import GroupClock
from fastnode.errors import DiskFull
from fastnode.native import PUT
from fastnode.store import snapshot, swap
from fastnode.store.apply import Position
from fastnode.store.checksum import StateChecksum, state_checksum
from fastnode.store.engine import RocksEngine
from fastnode.store.engine_options import BLOB_BYTES_MIN, EngineShared
from fastnode.store.group import Group
from fastnode.store.snapshot import (
    CHUNK_BYTES_MAX,
    Chunk,
    ChunkRefused,
    Receiver,
    Snapshot,
    SnapshotBusy,
    SnapshotCorrupt,
    decode_manifest,
    encode_manifest,
    seal_chunk,
    take_snapshot,
)
from fastnode.store.swap import INCOMING, OUTGOING, SnapshotError, beside, recover_swap
from tests.world import FakeClock

GROUP = 0


def open_rocks(path: Path) -> RocksEngine:
    return RocksEngine(path, EngineShared(cache_bytes=1 << 20, write_buffer_bytes=8 << 20))


def fill(engine: RocksEngine, numbers: range, size: int) -> None:
    """One applied entry per number, so that the position goes on."""
    group = Group(GROUP, engine, GroupClock(FakeClock()))
    for number in numbers:
        row = (PUT, b"!sqs|%06d" % number, os.urandom(size))
        request = number.to_bytes(16, "big")
        encoded = native.encode_transaction(request, number, number + 1, 0, 0, [], [row])
        group.commit(group.applied_index + 1, 3, [native.encode_entry([encoded])])
        assert group.apply()


def make_group(base: Path) -> RocksEngine:
    """A group with flushed rows, blobs in files, and rows that are only in memory."""
    (base / "groups").mkdir(parents=True)
    engine = open_rocks(base / "groups" / "000")
    fill(engine, range(20), 100)
    fill(engine, range(20, 24), 5 * BLOB_BYTES_MIN)
    engine.flush()
    fill(engine, range(24, 28), CHUNK_BYTES_MAX)
    fill(engine, range(28, 30), 10)
    return engine


@pytest.fixture
def source(tmp_path: Path) -> Iterator[RocksEngine]:
    engine = make_group(tmp_path / "source")
    yield engine
    engine.close()


class Given(NamedTuple):
    taken: Snapshot
    state: StateChecksum
    target: Path
    target_state: StateChecksum


@pytest.fixture(scope="module")
def given_once(tmp_path_factory: pytest.TempPathFactory) -> Given:
    """A snapshot that nobody changes and its state; another state, closed, to be copied."""
    base = tmp_path_factory.mktemp("snapshot")
    engine = make_group(base / "source")
    taken, state = take_snapshot(engine, GROUP, engine.path), state_checksum(engine)
    engine.close()
    engine = open_rocks(base / "target")
    fill(engine, range(3), 50)
    target_state = state_checksum(engine)
    engine.close()
    return Given(taken, state, base / "target", target_state)


@pytest.fixture
def taken(given_once: Given) -> Snapshot:
    return given_once.taken


@pytest.fixture
def sent(given_once: Given) -> StateChecksum:
    """The state in `taken`."""
    return given_once.state


@pytest.fixture
def old(given_once: Given) -> StateChecksum:
    """The state in `target`."""
    return given_once.target_state


@pytest.fixture
def target(tmp_path: Path, given_once: Given) -> Path:
    """The directory of the same group elsewhere, with a state of its own."""
    path = tmp_path / "target" / "groups" / "000"
    shutil.copytree(given_once.target, path)
    return path


def state_of(path: Path) -> StateChecksum:
    engine = open_rocks(path)
    try:
        return state_checksum(engine)
    finally:
        engine.close()


def transfer(taken: Snapshot, target: Path) -> Receiver:
    manifest = decode_manifest(encode_manifest(taken.manifest), target)
    receiver = Receiver(GROUP, target, manifest)
    for chunk in taken.chunks():
        receiver.write(chunk)
    return receiver


def installed(receiver: Receiver, target: Path) -> StateChecksum:
    receiver.verify()
    receiver.install()
    return state_of(target)


def test_round_trip_gives_the_same_state(
    taken: Snapshot, sent: StateChecksum, target: Path
) -> None:
    expected = sent
    suffixes = {Path(file.name).suffix for file in taken.manifest.files}
    assert suffixes >= {".blob", ".sst"}
    receiver = transfer(taken, target)
    receiver.verify()
    receiver.install()
    assert taken.manifest.position == expected.position == Position(30, 3, 30)
    assert state_of(target) == expected
    assert [path.name for path in target.parent.iterdir()] == ["000"]


def test_snapshot_stays_as_it_was_while_the_group_goes_on(
    source: RocksEngine, target: Path
) -> None:
    taken = take_snapshot(source, GROUP, source.path)
    expected = state_checksum(source)
    batch = source.batch()
    batch.delete_range(b"!sqs|", b"!sqs}")
    source.write(batch)
    fill(source, range(40, 60), BLOB_BYTES_MIN)
    source.flush()
    receiver = transfer(taken, target)
    assert installed(receiver, target) == expected


def test_taking_a_snapshot_costs_no_second_copy_of_tables_and_blobs(source: RocksEngine) -> None:
    taken = take_snapshot(source, GROUP, source.path)
    for file in taken.manifest.files:
        if file.name.endswith((".sst", ".blob")):
            assert (taken.path / file.name).samefile(source.path / file.name)


def test_one_snapshot_at_a_time_until_it_is_discarded(source: RocksEngine) -> None:
    taken = take_snapshot(source, GROUP, source.path)
    with pytest.raises(SnapshotBusy):
        take_snapshot(source, GROUP, source.path)
    taken.discard()
    taken.discard()
    take_snapshot(source, GROUP, source.path).discard()


def test_snapshot_that_cannot_be_taken_leaves_nothing(
    source: RocksEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "FILES_MAX", 1)
    with pytest.raises(SnapshotError, match="1 at most"):
        take_snapshot(source, GROUP, source.path)
    assert not beside(source.path, OUTGOING).exists()


def test_chunks_are_bounded_and_cover_the_stream(taken: Snapshot) -> None:
    offset = 0
    for chunk in taken.chunks():
        assert chunk.offset == offset
        assert 0 < len(chunk.content) <= CHUNK_BYTES_MAX
        offset += len(chunk.content)
    assert offset == taken.total_bytes == sum(file.size for file in taken.manifest.files)


def test_transfer_resumes_from_any_offset(
    taken: Snapshot, sent: StateChecksum, target: Path
) -> None:
    receiver = Receiver(GROUP, target, taken.manifest)
    while receiver.received_bytes < receiver.total_bytes:
        # Every connection breaks after one and a half chunks; the half one is lost.
        stream = taken.chunks(receiver.received_bytes)
        receiver.write(next(stream))
        if (torn := next(stream, None)) is not None:
            half = Chunk(torn.offset, torn.content[:-1], torn.checksum)
            with pytest.raises(ChunkRefused) as caught:
                receiver.write(half)
            assert caught.value.offset == torn.offset == receiver.received_bytes
    assert installed(receiver, target) == sent


def test_resumed_stream_may_be_cut_at_other_places(
    taken: Snapshot, sent: StateChecksum, target: Path
) -> None:
    receiver = Receiver(GROUP, target, taken.manifest)
    while (offset := receiver.received_bytes) < receiver.total_bytes:
        content = taken.chunk(offset).content
        receiver.write(seal_chunk(offset, content[: len(content) // 2 + 1]))
    assert installed(receiver, target) == sent


def damaged(content: bytes) -> bytes:
    return content[:-1] + bytes((content[-1] ^ 1,))


def refused_chunks(chunk: Chunk) -> list[Chunk]:
    return [
        Chunk(chunk.offset, damaged(chunk.content), chunk.checksum),
        Chunk(chunk.offset, chunk.content[:-1], chunk.checksum),
        seal_chunk(chunk.offset, b""),
        seal_chunk(chunk.offset, bytes(CHUNK_BYTES_MAX + 1)),
        seal_chunk(chunk.offset, chunk.content + b"more"),
    ]


def test_wrong_chunk_changes_nothing(taken: Snapshot, sent: StateChecksum, target: Path) -> None:
    receiver = Receiver(GROUP, target, taken.manifest)
    first, *rest = taken.chunks()
    for chunk in refused_chunks(first):
        with pytest.raises(ChunkRefused) as caught:
            receiver.write(chunk)
        assert caught.value.offset == receiver.received_bytes == 0
    for chunk in (first, *rest):
        receiver.write(chunk)
    with pytest.raises(ChunkRefused, match="behind the end"):
        receiver.write(seal_chunk(receiver.total_bytes, b"more"))
    assert installed(receiver, target) == sent


def test_missing_chunk_is_missed_and_the_old_state_stays(
    taken: Snapshot, target: Path, old: StateChecksum
) -> None:
    receiver = Receiver(GROUP, target, taken.manifest)
    chunks = list(taken.chunks())
    for number, chunk in enumerate(chunks[:-1]):
        with pytest.raises(ChunkRefused, match="missing"):
            receiver.verify()
        # Not the next one before it, and not itself twice.
        for wrong in (chunks[number + 1], *chunks[:number]):
            with pytest.raises(ChunkRefused, match="offset") as caught:
                receiver.write(wrong)
            assert caught.value.offset == chunk.offset
        receiver.write(chunk)
    with pytest.raises(ChunkRefused, match="missing") as caught:
        receiver.verify()
    assert caught.value.offset == chunks[-1].offset
    with pytest.raises(AssertionError):
        receiver.install()
    receiver.abort()
    receiver.abort()
    assert state_of(target) == old


def test_file_other_than_the_manifest_says_is_refused(
    taken: Snapshot, target: Path, old: StateChecksum
) -> None:
    """Whole chunks of a file that changed on the sender's disk."""
    receiver = Receiver(GROUP, target, taken.manifest)
    with pytest.raises(SnapshotCorrupt, match="not the file"):
        for chunk in taken.chunks():
            receiver.write(seal_chunk(chunk.offset, damaged(chunk.content)))
    with pytest.raises(SnapshotError):
        receiver.verify()
    receiver.abort()
    assert not beside(target, INCOMING).exists()
    assert state_of(target) == old


def test_complete_files_that_are_no_state_are_refused(
    taken: Snapshot, target: Path, old: StateChecksum
) -> None:
    files = tuple(file for file in taken.manifest.files if file.name != "CURRENT")
    incomplete = msgspec.structs.replace(taken.manifest, files=files)
    receiver = transfer(Snapshot(taken.path, incomplete), target)
    with pytest.raises(SnapshotCorrupt, match="does not open"):
        receiver.verify()
    receiver.abort()
    assert state_of(target) == old


def test_state_at_another_position_is_refused(taken: Snapshot, target: Path) -> None:
    lying = msgspec.structs.replace(taken.manifest, applied_index=31)
    receiver = transfer(Snapshot(taken.path, lying), target)
    with pytest.raises(SnapshotCorrupt, match="31"):
        receiver.verify()


def test_snapshot_of_another_group_is_refused(taken: Snapshot, target: Path) -> None:
    with pytest.raises(SnapshotCorrupt, match="group 0, not 1"):
        Receiver(1, target, taken.manifest)


def test_new_transfer_forgets_the_last_one(
    taken: Snapshot, sent: StateChecksum, target: Path
) -> None:
    abandoned = Receiver(GROUP, target, taken.manifest)
    abandoned.write(taken.chunk(0))
    (beside(target, INCOMING) / "999999.sst").write_bytes(b"of another snapshot")
    receiver = transfer(taken, target)
    receiver.verify()
    receiver.install()
    assert not (target / "999999.sst").exists()
    assert state_of(target) == sent
    abandoned.abort()


def test_file_cut_short_on_the_senders_disk_is_noticed(source: RocksEngine) -> None:
    taken = take_snapshot(source, GROUP, source.path)
    (taken.path / taken.manifest.files[-1].name).write_bytes(b"")
    with pytest.raises(SnapshotCorrupt, match="shorter"):
        taken.chunk(taken.total_bytes - 1)


def test_chunk_that_found_the_disk_full_can_be_written_again(
    taken: Snapshot, sent: StateChecksum, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a write that takes a part only is no failure."""
    receiver = Receiver(GROUP, target, taken.manifest)
    write = os.pwrite

    def half(descriptor: int, content: bytes, offset: int) -> int:
        return write(descriptor, content[: len(content) // 2 + 1], offset)

    def half_then_full(descriptor: int, content: bytes, offset: int) -> int:
        if len(content) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return half(descriptor, content, offset)

    for chunk in taken.chunks():
        monkeypatch.setattr(os, "pwrite", half_then_full)
        with pytest.raises(DiskFull):
            receiver.write(chunk)
        assert receiver.received_bytes == chunk.offset
        monkeypatch.setattr(os, "pwrite", half)
        receiver.write(chunk)
    assert installed(receiver, target) == sent


def test_after_a_failed_sync_the_transfer_is_over(
    taken: Snapshot, target: Path, old: StateChecksum, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver(GROUP, target, taken.manifest)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(SnapshotError, match="Input/output"):
            for chunk in taken.chunks():
                receiver.write(chunk)
    with pytest.raises(ChunkRefused):
        receiver.verify()
    receiver.abort()
    assert state_of(target) == old


def test_crash_at_any_step_of_the_swap_leaves_a_state_that_opens(
    given_once: Given, target: Path, tmp_path: Path
) -> None:
    transfer(given_once.taken, target).verify()
    pristine = target.parent.rename(tmp_path / "pristine")
    plan = swap.plan_install(target, swap.names_in(pristine / "000"))
    for steps in range(len(plan) + 1):
        shutil.copytree(pristine, target.parent)
        swap.run_steps(plan[:steps])
        recover_swap(target)
        assert state_of(target) == (given_once.state if steps else given_once.target_state)
        assert swap.names_in(target.parent) == ["000"]
        shutil.rmtree(target.parent)
