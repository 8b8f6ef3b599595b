"""What the metrics tell of repeated calls: whether they may be written, how many there were, and
for how long a call is known again. Pure.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from fastnode import native
from fastnode.clock import milliseconds_of
from fastnode.queue.retry import Gates

_MS_PER_SECOND: Final = 1_000
# In the order of `native.CLASSES`; the classes of receives are no business of a gate.
_CLASSES: Final = ("server_attempts", "client_retries")


class Remembering(Protocol):
    """A group."""

    @property
    def request_count(self) -> int: ...

    @property
    def class_floors(self) -> list[int]: ...

    def now(self) -> int: ...


def retry_metrics(gates: Gates, groups: Iterable[Remembering]) -> dict[str, float]:
    groups = list(groups)
    windows = {
        f'fastnode_retry_window_seconds{{class="{name}"}}': _window_seconds(groups, index)
        for index, name in enumerate(_CLASSES)
    }
    return {
        'fastnode_retry_gate{gate="dedup_batch_send"}': int(gates.repeats_calls),
        'fastnode_retry_gate{gate="dedup_sdk_retries"}': int(gates.recognises_retries),
        "fastnode_calls_repeated_total": gates.repeated,
        "fastnode_calls_recognised_total": gates.recognised,
        "fastnode_requests_remembered": sum(group.request_count for group in groups),
        **windows,
    }


def _window_seconds(groups: Iterable[Remembering], index: int) -> float:
    """How far back every call is known, in the group that knows the least: as long as the class
    says, unless so many came that the oldest had to make room.
    """
    ages_ms = (_age_ms(group.class_floors[index], group.now()) for group in groups)
    return min(native.CLASSES[index].retention_ms, *ages_ms) / _MS_PER_SECOND


def _age_ms(floor: int, now: int) -> int:
    return max(milliseconds_of(now) - milliseconds_of(floor), 0)
