"""The measurement of ListQueues still works, with few queues and without a verdict."""

from pathlib import Path

from bench.list_queues import measure


def test_pages_are_measured_at_both_sizes(tmp_path: Path) -> None:
    figures = measure(tmp_path, 1_000, 2_000, rounds=2)
    assert [each.page for each in figures] == ["first", "middle", "prefix"]
    assert all(each.few_us > 0 and each.many_us > 0 for each in figures)
