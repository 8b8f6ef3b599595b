"""A transaction being planned: what it read and what it will write. All that `queue` sees of the
store's write path.
"""

from typing import Final

from fastnode import native
from fastnode.native import ADD, DELETE, DROP, FRESH_DELETE, FRESH_PUT, MAX, PUT, TOUCH
from fastnode.store.keyspace import FAMILY_HEAD

_LATCHED: Final = (PUT, DELETE)


class Txn:
    """Planned and stamped in one synchronous step; `commit_ts` is also "now" for everything it
    decides.
    """

    __slots__ = (
        "_touched",
        "commit_ts",
        "mask",
        "reads",
        "request",
        "retention",
        "start_ts",
        "writes",
    )

    def __init__(self, request: bytes, start_ts: int, commit_ts: int, retention: int = 0) -> None:
        self.request = request
        self.start_ts = start_ts
        self.commit_ts = commit_ts
        self.retention = retention
        self.mask = 0
        self.reads: list[bytes] = []
        self.writes: list[tuple[int, bytes, bytes]] = []
        self._touched = b""

    def check(self, key: bytes) -> None:
        """The plan holds only if nobody wrote this key since `start_ts`."""
        self.reads.append(key)

    def put(self, key: bytes, value: bytes) -> None:
        self.writes.append((PUT, key, value))

    def delete(self, key: bytes) -> None:
        self.writes.append((DELETE, key, b""))

    def put_fresh(self, key: bytes, value: bytes) -> None:
        """A key that only this transaction can know, or that another key of its write set guards:
        never checked.
        """
        self.writes.append((FRESH_PUT, key, value))

    def delete_fresh(self, key: bytes) -> None:
        """As `put_fresh`: the key is guarded by another key of this write set."""
        self.writes.append((FRESH_DELETE, key, b""))

    def drop(self, prefix: bytes) -> None:
        """Remove every key with the prefix, in constant time for the caller."""
        self.writes.append((DROP, prefix, native.prefix_end(prefix)))

    def add(self, key: bytes, delta: int) -> None:
        """A counter that stays as it is costs nothing."""
        if delta:
            self.writes.append((ADD, key, delta.to_bytes(8, "big", signed=True)))

    def raise_to(self, key: bytes, value: bytes) -> None:
        """A low-water mark: the larger of the stored value and this one, byte by byte."""
        self.writes.append((MAX, key, value))

    def touch(self, head_key: bytes) -> None:
        """The first message of a group, or when it is available, may be another after this.

        Whoever writes a row of the group's index or the state of one of its messages touches it;
        what the head is then is found out where the transaction is applied.
        """
        if head_key == self._touched:
            # Messages of one group follow each other, and once is enough.
            return
        assert head_key.startswith(FAMILY_HEAD), "only the head of a group is touched"
        self._touched = head_key
        self.writes.append((TOUCH, head_key, b""))

    def latched_keys(self) -> tuple[bytes, ...]:
        return tuple([key for kind, key, _ in self.writes if kind in _LATCHED])

    def encode(self) -> bytes:
        return native.encode_transaction(
            self.request,
            self.start_ts,
            self.commit_ts,
            self.retention,
            self.mask,
            self.reads,
            self.writes,
        )
