"""The Python surface of `_plan.pyx`."""

from collections.abc import Callable, Sequence
from typing import Self, final

from fastnode._plan_ref import FifoDraft

def encode_text(text: str) -> bytes | None: ...
def plain_drafts(
    dedup_prefix: bytes,
    is_per_group: bool,
    filed: Sequence[tuple[str, str | None]],
    bodies: Sequence[bytes],
) -> list[FifoDraft] | None: ...
def is_token(text: str) -> bool: ...

@final
class Recent:
    def __new__(
        cls,
        complete_ms: int,
        now_ms: Callable[[], int],
        window_ms: int,
        first_bits: int = 16_384,
        bits_max: int = 8_388_608,
        filters_max: int = 8,
    ) -> Self: ...
    @property
    def filter_count(self) -> int: ...
    def may_have(self, key: bytes) -> bool: ...
    def add(self, key: bytes, now_ms: int) -> None: ...
