"""The plain version of what comes before a transaction: the text of a body, drafts and duplicates.

`_plan.pyx` does the same in C. The transaction of a send is in `_send_ref.py`.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fastnode._keys_ref import dedup_key

_CONTROLS: Final = bytes(set(range(0x20)) - {0x09, 0x0A, 0x0D})
_NONCHARACTERS: Final = ("\ufffe".encode(), "\uffff".encode())
_TOKEN_MATCH: Final = re.compile(r"[!-~]{1,128}").fullmatch

FIRST_BITS: Final = 1 << 14
BITS_MAX: Final = 1 << 23
FILTERS_MAX: Final = 8
# So many bits for each id, and so many of them set, let one new id in four hundred be looked up in
# vain when a filter is full.
BITS_PER_ID: Final = 16
BITS_SET: Final = 4


def encode_text(text: str) -> bytes | None:
    """The UTF-8 form of text, or None when it has a character that the API forbids: a control
    character but tab, line feed and carriage return, a surrogate, U+FFFE or U+FFFF.
    """
    try:
        encoded = text.encode()
    except UnicodeEncodeError:  # A lone surrogate.
        return None
    if len(encoded.translate(None, _CONTROLS)) != len(encoded):
        return None
    # In UTF-8 these three bytes in a row are always that one character.
    if not text.isascii() and any(one in encoded for one in _NONCHARACTERS):
        return None
    return encoded


def is_token(text: str) -> bool:
    """Whether text may be a group or deduplication id: at most 128 ASCII letters, digits and
    punctuation, no space.
    """
    return _TOKEN_MATCH(text) is not None


class FifoDraft(NamedTuple):
    """A message to be stored: its number in the call, its group, its deduplication key."""

    entry: int
    group_id: str
    dedup_key: bytes
    extras: bytes
    body: bytes


def plain_drafts(
    dedup_prefix: bytes,
    is_per_group: bool,
    filed: Sequence[tuple[str, str | None]],
    bodies: Sequence[bytes],
) -> list[FifoDraft] | None:
    """Of the messages of a call that have nothing but bodies and ids: group and deduplication id of
    each. None if an id is missing or may not be one, or if a message is a duplicate of another.
    """
    drafts: list[FifoDraft] = []
    messages = list(zip(filed, bodies, strict=True))
    for entry, ((group_id, dedup_id), body) in enumerate(messages):
        if dedup_id is None or not is_token(group_id) or not is_token(dedup_id):
            return None
        key = dedup_key(dedup_prefix, group_id if is_per_group else "", dedup_id)
        drafts.append(FifoDraft(entry, group_id, key, _packed_ids(group_id, dedup_id), body))
    return drafts if len({draft.dedup_key for draft in drafts}) == len(drafts) else None


def _packed_ids(group_id: str, dedup_id: str) -> bytes:
    """What a message has besides its body is stored as MessagePack, see `MessageExtras`: of an
    array of five the first is the group and the last the deduplication id.
    """
    return b"\x95" + _packed(group_id) + b"\xc0\x90\xc0" + _packed(dedup_id)


def _packed(token: str) -> bytes:
    size = len(token)
    return (bytes((0xA0 | size,)) if size < 32 else bytes((0xD9, size))) + token.encode()


class _Filter:
    __slots__ = ("bits", "mask", "newest_ms", "room")

    def __init__(self, size: int) -> None:
        self.bits = bytearray(size >> 3)
        self.mask = size - 1
        self.room = size // BITS_PER_ID
        self.newest_ms = 0


def _places(value: int, mask: int) -> list[int]:
    """Where the bits of an id are, from a hash of it."""
    return [value + number * (value >> 32) & mask for number in range(BITS_SET)]


class Recent:
    """Which deduplication ids may have been used lately: a leader's memory that errs on one side
    only.

    Most sends are new, and to find that out in the engine costs as much as storing them. An id that
    is not in here was not used within the window; one that is has to be looked up. A few bits stand
    for an id, in filters that follow each other as they fill up, each larger than the one before;
    one whose ids are all older than the window is thrown away.

    It knows nothing of what was used before it was made: until `complete_ms` every id counts as
    used. 0 if nothing was. The sizes are powers of two.
    """

    __slots__ = ("_bits_max", "_complete_ms", "_filters", "_filters_max", "_now_ms", "_window_ms")

    def __init__(
        self,
        complete_ms: int,
        now_ms: Callable[[], int],
        window_ms: int,
        first_bits: int = FIRST_BITS,
        bits_max: int = BITS_MAX,
        filters_max: int = FILTERS_MAX,
    ) -> None:
        self._complete_ms = complete_ms
        self._now_ms = now_ms
        self._window_ms = window_ms
        self._bits_max = bits_max
        self._filters_max = filters_max
        self._filters = [_Filter(first_bits)]

    @property
    def filter_count(self) -> int:
        return len(self._filters)

    def may_have(self, key: bytes) -> bool:
        if self._complete_ms:
            if self._now_ms() < self._complete_ms:
                return True
            self._complete_ms = 0
        value = hash(key)
        return any(
            all(one.bits[at >> 3] >> (at & 7) & 1 for at in _places(value, one.mask))
            for one in self._filters
        )

    def add(self, key: bytes, now_ms: int) -> None:
        newest = self._filters[-1]
        if not newest.room:
            newest = self._grow(now_ms)
        for at in _places(hash(key), newest.mask):
            newest.bits[at >> 3] |= 1 << (at & 7)
        newest.room -= 1
        newest.newest_ms = now_ms

    def _grow(self, now_ms: int) -> _Filter:
        size = min(16 * (self._filters[-1].mask + 1), self._bits_max)
        oldest_ms = now_ms - self._window_ms
        self._filters = [one for one in self._filters if one.newest_ms > oldest_ms]
        if len(self._filters) == self._filters_max:
            # More than it may remember: what is forgotten counts as used until it is too old.
            self._complete_ms = self._filters.pop(0).newest_ms + self._window_ms + 1
        self._filters.append(_Filter(size))
        return self._filters[-1]
