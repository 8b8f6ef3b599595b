"""Manifests that others wrote, and where their files lie in the stream. No disk."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.store.snapshot import (
    Layout,
    Manifest,
    SnapshotCorrupt,
    SnapshotFile,
    SnapshotVersion,
    decode_manifest,
    encode_manifest,
)

PATH = Path("groups/000")
CHECKSUM = bytes(16)
FILE = SnapshotFile("1.sst", 5, CHECKSUM)
MANIFEST = Manifest(3, 30, 2, 7 << 16, (FILE, SnapshotFile("CURRENT", 0, CHECKSUM)))


def damaged(content: bytes) -> bytes:
    return content[:-1] + bytes((content[-1] ^ 1,))


def test_manifest_comes_back() -> None:
    assert decode_manifest(encode_manifest(MANIFEST), PATH) == MANIFEST


@pytest.mark.parametrize("mutate", [lambda b: b[:-1], damaged, lambda b: b[:10], lambda b: b""])
def test_damaged_manifest_is_refused(mutate: Callable[[bytes], bytes]) -> None:
    with pytest.raises(SnapshotCorrupt):
        decode_manifest(mutate(encode_manifest(MANIFEST)), PATH)


def test_manifest_of_another_format_is_refused() -> None:
    with pytest.raises(SnapshotVersion, match="format 2, not 1"):
        decode_manifest(b"\x02" + encode_manifest(MANIFEST)[1:], PATH)


@pytest.mark.parametrize(
    "manifest",
    [
        Manifest(0, 1, 1, 1, ()),
        Manifest(-1, 1, 1, 1, (FILE,)),
        Manifest(0, 1, -1, 1, (FILE,)),
        Manifest(0, 1, 1, 1, (FILE, FILE)),
        Manifest(0, 1, 1, 1, (SnapshotFile("1.sst", -1, CHECKSUM),)),
        Manifest(0, 1, 1, 1, (SnapshotFile("1.sst", 1 << 60, CHECKSUM),)),
        Manifest(0, 1, 1, 1, (SnapshotFile("1.sst", 5, b"short"),)),
        *(
            Manifest(0, 1, 1, 1, (SnapshotFile(name, 5, CHECKSUM),))
            for name in ("", ".", "..", "../x", "a/b", "/etc", "LOCK", "a\0", "a\n", "a" * 65)
        ),
        Manifest(0, 1, 1, 1, tuple(SnapshotFile(f"{n}.sst", 1, CHECKSUM) for n in range(16_385))),
    ],
    ids=lambda manifest: str(manifest)[:80],
)
def test_manifest_that_would_harm_is_refused(manifest: Manifest) -> None:
    with pytest.raises(SnapshotCorrupt):
        decode_manifest(encode_manifest(manifest), PATH)


def test_largest_manifest_fits_its_bound() -> None:
    files = (SnapshotFile(f"{n:064d}", (1 << 44) // 16_384, CHECKSUM) for n in range(16_384))
    manifest = Manifest(255, 1 << 63, 1 << 63, (1 << 64) - 1, tuple(files))
    assert decode_manifest(encode_manifest(manifest), PATH) == manifest


@given(st.lists(st.integers(0, 4), max_size=8))
def test_every_offset_has_one_place(sizes: list[int]) -> None:
    files = [SnapshotFile(str(number), size, CHECKSUM) for number, size in enumerate(sizes)]
    layout = Layout(files)
    expected = [(file, at) for file, size in enumerate(sizes) for at in range(size)]
    places = [layout.locate(offset) for offset in range(layout.total_bytes)]
    assert [(place.file, place.offset) for place in places] == expected
    assert all(place.left == sizes[place.file] - place.offset for place in places)
