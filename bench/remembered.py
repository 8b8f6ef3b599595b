"""Prints by how many bytes a process grows that remembers N committed calls of SDKs.

    python -m bench.remembered N

The table alone: no node, no disk. `bench.retries` runs this as a process of its own.
"""

import os
import sys

from bench.server_process import status_bytes
from fastnode import native

# Calls with the identity of an SDK: the class of the committed window that is kept longest.
SDK = 1
START = 1_790_000_000_000 << 16
ENTRY = 64


def fill(resolver: native.Resolver, first: int, count: int) -> None:
    """Entries as a busy leader proposes them; their reads and writes take no memory here."""
    for begin in range(first, first + count, ENTRY):
        numbers = range(begin, min(begin + ENTRY, first + count))
        encoded = [transaction(number, START + begin) for number in numbers]
        resolver.resolve(native.Entry(native.encode_entry(encoded)))


def transaction(number: int, start_ts: int) -> bytes:
    # Identities are hashes; an odd factor spreads the numbers over all bits.
    request = (number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128).to_bytes(16, "big")
    return native.encode_transaction(request, start_ts, START + number + 1, SDK, 1, [], [])


def main(count: int) -> int:
    resolver = native.Resolver()
    fill(resolver, 0, ENTRY)
    before = status_bytes(os.getpid(), "VmRSS")
    fill(resolver, ENTRY, count)
    return status_bytes(os.getpid(), "VmRSS") - before


if __name__ == "__main__":
    print(main(int(sys.argv[1])))
