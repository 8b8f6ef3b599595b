"""The plain version of a committed entry, as whoever applies it sees it.

Reading is strict: an entry is exactly what the encoder writes, or a ValueError. `_entry.pyx` does
the same in C and reads in place. Who lands is decided in `_occ_ref.py`, what is then written in
`_landed_ref.py`.
"""

from fastnode._core_ref import ENTRY_VERSION, Reader, Transaction, check_write


class Entry:
    __slots__ = ("_transactions",)

    def __init__(self, source: bytes) -> None:
        reader = Reader(source, ENTRY_VERSION)
        self._transactions = [
            _transaction(reader.take(reader.number(4))) for _ in range(reader.number(4))
        ]
        reader.finish()

    def __len__(self) -> int:
        return len(self._transactions)

    def requests(self) -> list[bytes]:
        """The identity of each transaction's call."""
        return [transaction.request for transaction in self._transactions]

    def transactions(self) -> list[Transaction]:
        return self._transactions


def _transaction(encoded: bytes) -> Transaction:
    reader = Reader(encoded)
    request, start_ts, commit_ts = reader.take(16), reader.number(8), reader.number(8)
    retention, mask = reader.number(1), reader.number(2)
    read_count, write_count = reader.number(4), reader.number(4)
    reads = [reader.take(reader.number(4)) for _ in range(read_count)]
    writes = [_write(reader) for _ in range(write_count)]
    reader.finish()
    return Transaction(request, start_ts, commit_ts, retention, mask, reads, writes)


def _write(reader: Reader) -> tuple[int, bytes, bytes]:
    kind = reader.number(1)
    key = reader.take(reader.number(4))
    value = reader.take(reader.number(4))
    check_write(kind, key, value)
    return kind, key, value
