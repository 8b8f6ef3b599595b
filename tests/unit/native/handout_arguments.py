"""Arguments of calls that choose messages: those that fit together are rare among random ones."""

from collections import deque
from typing import Any

from hypothesis import strategies as st

from fastnode import _deliver_ref, native
from tests.unit.native import strategies as own

Arguments = st.SearchStrategy[tuple[Any, ...]]


def taking(stored: st.SearchStrategy[bytes]) -> Arguments:
    """Of `take_plain`: sometimes the state of a message is latched."""
    return st.builds(
        lambda rows, limit, expired_ms, prefix, held: (
            *(deque(rows), limit, expired_ms, prefix),
            set(native.state_keys(prefix, held)),
        ),
        st.lists(st.tuples(st.integers(0, 9), stored), max_size=4),
        st.integers(0, 5),
        st.integers(-(2**63), 2**63 - 1) | st.just(0),
        own.blobs,
        st.sets(st.integers(0, 30), max_size=3),
    )


def hiding(handles: st.SearchStrategy[str]) -> Arguments:
    """Of `hidden_messages`."""
    return st.builds(
        hidden_arguments,
        st.sampled_from([native.UNPARTITIONED, 0]),
        st.lists(handles, max_size=3),
        own.blobs,
        st.lists(st.booleans(), min_size=6, max_size=6),
    )


def hidden_arguments(
    partition: int, texts: list[str], prefix: bytes, chosen: list[bool]
) -> tuple[Any, ...]:
    """Handles of which some name messages that are hidden, and some of these are latched."""
    secret, generation = b"s" * 16, 1
    named = [one.encode("utf-8", "surrogatepass") for one in texts]
    each = [_deliver_ref.receipt_places(secret, partition, generation, [one]) for one in named]
    positions = [places[0][0] for places in each if places]
    often = [any(chosen[index : index + 3]) for index in range(4)]
    scheduled = {one: 7 for one, is_known in zip(positions, often, strict=False) if is_known}
    keys = native.state_keys(prefix, positions)
    held = {key for key, is_held in zip(keys, chosen[3:], strict=False) if is_held and chosen[0]}
    return secret, partition, generation, named, scheduled, prefix, held
