"""Every group has one worker, and a node has no more workers than groups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.config import GROUPS_MAX
from fastnode.errors import UsageError
from fastnode.workers.assignment import groups_of, owner_of, place_of, sibling_id, worker_count

SIZES = st.integers(1, GROUPS_MAX).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n)))


@given(SIZES)
def test_every_group_is_in_one_log_at_the_place_that_is_said(sizes: tuple[int, int]) -> None:
    workers, groups = sizes
    seen: list[int] = []
    for worker in range(workers):
        for place, group in enumerate(groups_of(worker, workers, groups)):
            assert owner_of(group, workers) == worker
            assert place_of(group, workers) == place
            seen.append(group)
    assert sorted(seen) == list(range(groups))


@given(SIZES)
def test_every_worker_has_a_group(sizes: tuple[int, int]) -> None:
    workers, groups = sizes
    counts = [len(groups_of(worker, workers, groups)) for worker in range(workers)]
    assert min(counts) >= 1
    assert max(counts) - min(counts) <= 1


def test_no_worker_is_called_nobody() -> None:
    assert sibling_id(0) != 0


@pytest.mark.parametrize(
    ("wanted", "cores", "groups", "count"),
    [(2, 1, 8, 2), (0, 4, 8, 4), (0, 16, 8, 8), (0, 1, 8, 1)],
)
def test_workers_are_as_many_as_wanted_or_as_cores(
    wanted: int, cores: int, groups: int, count: int
) -> None:
    assert worker_count(wanted, cores, groups) == count


def test_more_workers_than_groups_are_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="use --workers 8, or a new data directory"):
        worker_count(9, 16, 8)
