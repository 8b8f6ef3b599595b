"""When new messages are refused for lack of disk space. Not here: a real full disk, see
tests/crash.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.upkeep import Upkeep, reserve_bytes

MIB = 1_048_576
GIB = 1_024 * MIB


@pytest.mark.parametrize(
    ("total", "reserve"),
    [
        (1_000 * GIB, 20 * GIB),
        (25 * GIB, 512 * MIB),
        (2 * GIB, 512 * MIB),
        (1 * GIB, 256 * MIB),
        (256 * MIB, 64 * MIB),
    ],
)
def test_the_reserve_is_two_percent_at_least_half_a_gib_at_most_a_quarter(
    total: int, reserve: int
) -> None:
    assert abs(reserve_bytes(total) - reserve) < MIB


def test_messages_are_refused_below_the_reserve_and_accepted_again_above_it() -> None:
    groups: Any = [
        SimpleNamespace(number=n, applied_index=0, accepts_messages=True) for n in (0, 1)
    ]
    raft: Any = None
    free = [65 * MIB]
    upkeep = Upkeep(groups, raft, Path("/"), lambda _path: (free[0], 256 * MIB))
    seen = []
    for free[0] in (65 * MIB, 64 * MIB, 64 * MIB - 1, 0, 64 * MIB):
        upkeep.check_disk()
        seen.append([group.accepts_messages for group in groups])
    assert seen == [[True] * 2, [True] * 2, [False] * 2, [False] * 2, [True] * 2]
