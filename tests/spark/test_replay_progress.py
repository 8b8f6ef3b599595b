"""What a replay counts and shows while it runs: tallies, the board of files, lines and bars."""

import io
from pathlib import Path

import pytest

from spark_load.replay import plan
from spark_load.replay.progress import Board, LaneProgress
from spark_load.replay.show import Lines, View, Watch, display, stage_of, view
from spark_load.replay.tally import Tally, total
from spark_load.schema import Queue
from tests.spark.lanes import operation, quick, settings, trace

SECOND = 1_000_000


def test_lateness_is_told_by_its_bucket() -> None:
    tally = Tally()
    for late_us in [100] * 98 + [5_000, 90_000]:
        tally._began(late_us)
    assert tally.late_us(0.5) == 127
    assert tally.late_us(0.99) == 8_191
    assert tally.late_us(1.0) == 90_000
    assert Tally().late_us(0.99) == 0


def test_tallies_add_up() -> None:
    one = Tally(sent=2, late_us_max=5, lag_us=9, errors={"x": 1})
    other = Tally(sent=3, late_us_max=4, lag_us=10, errors={"x": 1, "y": 2})
    whole = total([one, other])
    assert (whole.sent, whole.late_us_max, whole.lag_us) == (5, 5, 10)
    assert whole.errors == {"x": 2, "y": 2}


def test_board_shows_what_lanes_wrote_and_who_has_ended(tmp_path: Path) -> None:
    board = Board(tmp_path)
    board.open()
    board.write(LaneProgress(0, "ended", 5, 6, Tally(sent=1)))
    board.write(LaneProgress(1, "running", 5, 7, Tally()))
    assert [lane.tally.sent for lane in board.read()] == [1, 0]
    assert board.has_ended(range(1))
    assert not board.has_ended(range(2))
    assert not board.is_stop_requested()
    board.request_stop()
    assert board.is_stop_requested()
    board.remove()
    assert list(tmp_path.iterdir()) == []


def test_lane_begins_once(tmp_path: Path) -> None:
    board = Board(tmp_path)
    board.open()
    assert board.claim(0)
    assert not board.claim(0)
    assert board.claim(1)


def test_progress_says_rate_errors_lateness_and_lag() -> None:
    planned = plan.Plan(trace([operation(0, 10 * SECOND)]), settings("http://h:1"))
    tally = Tally(attempts=500, refused=2, unknown=1, late_us_max=3_000, lag_us=2_000)
    tally._began(3_000)
    before = view([LaneProgress(0, "running", SECOND, 2 * SECOND, Tally())], planned, None)
    now = view([LaneProgress(0, "running", SECOND, 3 * SECOND, tally)], planned, before)
    assert now.rate == 500
    assert now.share == 0.2
    stream = io.StringIO()
    Lines(stream).show(now)
    assert stream.getvalue().startswith("replay: sending 2/10 s · 500 calls/s")
    assert "3 errors" in stream.getvalue()
    assert "late p99 3.0 ms · lag 2.0 ms" in stream.getvalue()


def test_rate_is_that_of_the_last_seconds() -> None:
    planned = plan.Plan(trace([operation(0, 60 * SECOND)]), settings("http://h:1"))
    watch = Watch(planned)
    rates = [
        watch.look([LaneProgress(0, "running", 1, 1 + at * SECOND, Tally(attempts=count))]).rate
        for at, count in [(1, 100), (1, 100), (5, 500), (6, 1_500), (8, 3_500)]
    ]
    assert rates == [100, 0, 100, 1_000, 1_000]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_gets_a_bar_and_everything_else_gets_lines() -> None:
    pytest.importorskip("rich")
    assert isinstance(display(io.StringIO()), Lines)
    stream = Terminal()
    with display(stream) as bar:
        bar.show(View("sending", 30, 120, 12_345, Tally(refused=3, lag_us=12_345_678)))
    shown = "sending 30/120 s 12345/s 3 errors late 0.0 ms lag 12345.7 ms"
    assert shown in stream.getvalue()


def test_stage_follows_from_the_lanes() -> None:
    planned = plan.Plan(trace([], Queue("a", consumers=quick())), settings("http://h:1"))
    producer, consumer = (LaneProgress(lane, "running", 1, 2, Tally()) for lane in range(2))
    ended = LaneProgress(0, "ended", 1, 2, Tally())
    assert stage_of([producer], planned) == "starting"
    assert stage_of([producer, consumer], planned) == "sending"
    assert stage_of([ended, consumer], planned) == "draining"
