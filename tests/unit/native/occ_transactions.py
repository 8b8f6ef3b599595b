"""Transactions, bounds and views for the tests of the apply rules."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from fastnode import native
from fastnode._occ_ref import Resolved, Resolver
from fastnode.native import Transaction

MS = 1 << 16
START = 1_000 * MS
# Small enough that every bound is met in a few transactions.
TIGHT = {"window_ms": 4, "keys_max": 4, "classes": ((6, 3), (30, 2), (3, 1), (9, 2))}

Make = Callable[..., Resolver]


def implementation(suffix: str) -> Make:
    made: Make = import_module(f"fastnode._occ{suffix}").Resolver
    return made


def key(number: int) -> bytes:
    """Every third key is longer than the compiled hash reads by itself."""
    return b"key %d" % number * (30 if number % 3 == 0 else 1)


def request(number: int) -> bytes:
    return number.to_bytes(16, "big")


def transaction(
    number: int,
    commit_ts: int,
    *,
    start_ts: int | None = None,
    reads: tuple[bytes, ...] = (),
    puts: tuple[bytes, ...] = (),
    retention: int = 0,
) -> Transaction:
    writes = [(native.PUT, name, b"") for name in puts]
    start = commit_ts - 1 if start_ts is None else start_ts
    mask = number & 0xFFFF
    return Transaction(request(number), start, commit_ts, retention, mask, list(reads), writes)


def entry_of(transactions: Sequence[Transaction]) -> Any:
    """As the log carries it. Both resolvers take the entries of the door."""
    return native.Entry(
        native.encode_entry([native.encode_transaction(*one) for one in transactions])
    )


def resolve(resolver: Resolver, transactions: Sequence[Transaction]) -> Resolved:
    return resolver.resolve(entry_of(transactions))


def view(resolver: Resolver) -> tuple[int, int, int, int]:
    return (
        resolver.floor,
        resolver.last_commit_ts,
        resolver.key_count,
        resolver.request_count,
    )


def statuses(resolved: Resolved) -> list[int]:
    return [status for status, _, _ in resolved.outcomes]
