"""Any damage to the files of a log, and any bytes in the place of one. The first byte says which:
`w`: the whole segment is what follows; otherwise edits of a good one, each of four bytes: kind,
offset (two bytes), value.

The log opens with what it held or with the beginning of it, or says what is wrong. What it opens
with it can go on from.
"""

import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from fastnode._raftlog import LogCorrupt, LogFormat, RaftGroups

SEGMENT: Final = "0000000000000001.seg"
SEGMENT_BYTES: Final = 16_384
ENTRIES: Final = tuple(b"entry %d " % number + bytes(number * 7) for number in range(12))
EDITS_MAX: Final = 16


def check(data: bytes) -> None:
    if not data:
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as path:
        damaged = data[1:] if data[:1] == b"w" else _edited(bytearray(_good()), data)
        (Path(path) / SEGMENT).write_bytes(damaged)
        try:
            found = _entries(Path(path))
        except (LogCorrupt, LogFormat, OSError) as error:
            assert str(error)
            return
        assert found == list(ENTRIES[: len(found)]), "the log holds what nobody wrote"


def _edited(content: bytearray, data: bytes) -> bytes:
    for at in range(0, min(len(data) - 3, 4 * EDITS_MAX), 4):
        kind, place, value = data[at], int.from_bytes(data[at + 1 : at + 3], "big"), data[at + 3]
        place %= max(len(content), 1)
        match kind % 4:
            case 0:
                content[place : place + 1] = bytes([value])
            case 1:
                del content[place:]
            case 2:
                content[place : place + value] = bytes(len(content[place : place + value]))
            case _:
                content[place:place] = content[place : place + value]
        content = content or bytearray(1)
    return bytes(content)


def _open(path: Path) -> RaftGroups:
    return RaftGroups(
        *(1, str(path), 1),
        voters=[1],
        applied=[0],
        segment_bytes=SEGMENT_BYTES,
        sync=False,
        manual=True,
        election_seed=1,
    )


def _settle(groups: RaftGroups) -> list[bytes]:
    found: list[bytes] = []
    while True:
        turn = groups.ready()
        found += [entry for batch in turn[1] for entry in batch[3]]
        if not groups.persist_step() and not turn[1]:
            return found


@cache
def _good() -> bytes:
    with tempfile.TemporaryDirectory() as path:
        groups = _open(Path(path))
        _settle(groups)
        for entry in ENTRIES:
            groups.propose(0, entry)
            _settle(groups)
        groups.close()
        return (Path(path) / SEGMENT).read_bytes()


def _entries(path: Path) -> list[bytes]:
    """What a log opens with; one more entry is written behind it."""
    groups = _open(path)
    try:
        found = _settle(groups)
        groups.propose(0, b"one more")
        assert _settle(groups) == [b"one more"]
        return found
    finally:
        groups.close()
