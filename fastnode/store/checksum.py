"""One number for a group's whole state, by which two replicas are compared.

It covers rows and nothing else: which batches they came in, what was flushed when, and how RocksDB
arranges them in files leaves it unchanged. Not here: which entries are applied (the log's tail is
not), and the checksums of files (`snapshot`).
"""

from typing import Final, NamedTuple, Protocol

import xxhash

from fastnode.store.apply import Position, load_position

# Rows at a time. A row is at most a message, so a page of the largest ones takes 64 MiB.
PAGE_ROWS: Final = 64
# Every key begins with "!", so this sorts after all of them.
_END: Final = b"\xff"
_LENGTH_BYTES: Final = 4


class Rows(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]: ...


class StateChecksum(NamedTuple):
    position: Position
    rows: int
    checksum: str


# What an engine that was never written to gives.
EMPTY_STATE: Final = StateChecksum(Position(0, 0, 0), 0, xxhash.xxh3_128_hexdigest(b""))


def state_checksum(engine: Rows, *, page_rows: int = PAGE_ROWS) -> StateChecksum:
    """XXH3-128 over all rows in key order. Nothing may write meanwhile.

    Every key and value goes in behind its length: without it ("ab", "c") would equal ("a", "bc").
    """
    position = load_position(engine)
    digest = xxhash.xxh3_128()
    rows, start = 0, b""
    while page := engine.scan(start, _END, page_rows):
        digest.update(b"".join(_sized(part) for row in page for part in row))
        rows += len(page)
        start = page[-1][0] + b"\x00"
    return StateChecksum(position, rows, digest.hexdigest())


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(_LENGTH_BYTES, "big") + part
