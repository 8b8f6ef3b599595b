"""The program that measures scrapes runs, small, and its figure is one."""

from pathlib import Path

from bench.scrape import measure


def test_a_scrape_has_a_cost_and_a_page(tmp_path: Path) -> None:
    (line,) = measure(tmp_path, queues=3, scrapes=20).lines
    assert 0 <= line.value < 1 and "3 queues" in line.detail
