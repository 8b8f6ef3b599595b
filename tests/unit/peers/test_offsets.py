"""How far a peer's clock is from ours, by packets and by answers."""

from fastnode.errors import DeadlineExceeded
from fastnode.peers.calls import OK, UNKNOWN_SERVICE, OnDone
from fastnode.peers.clock_question import CLOCK, ClockQuestion
from fastnode.peers.offsets import OffsetWindow

SECOND_NS = 1_000_000_000
MS_NS = 1_000_000


def test_offset_is_that_of_the_fastest_packet() -> None:
    window, wall_ns = OffsetWindow(), 70_000_000_000
    assert window.offset_ns(wall_ns, 0) is None
    for delay_ms in (9, 2, 30):
        window.add(71_000, delay_ms * 1_000_000)
    assert window.offset_ns(wall_ns, 0) == 998_000_000


def test_a_fast_packet_counts_for_half_a_minute() -> None:
    window, second_ns = OffsetWindow(), 1_000_000_000
    window.add(50_000, 0)
    for seconds in range(1, 29):
        window.add(50_000 + seconds * 1_000 - 400, seconds * second_ns)
    assert window.offset_ns(50 * second_ns, 0) == 0
    window.add(50_000 + 40_000 - 400, 40 * second_ns)
    assert window.offset_ns(50 * second_ns, 0) == -400_000_000


def test_a_step_of_our_own_clock_changes_what_the_others_are_off_by_as_much() -> None:
    window = OffsetWindow()
    window.add(50_000, 0)
    hour_ns = 3_600_000_000_000
    assert window.offset_ns(50_000_000_000 + hour_ns, 0) == -hour_ns


def test_offset_follows_a_step_of_the_clock() -> None:
    window, period_ns = OffsetWindow(), 4_000_000_000
    window.add(5_000, 0)
    for period in range(1, 9):
        window.add(3_000, period * period_ns)
    assert window.offset_ns(0, 0) == 3_000_000_000 - period_ns


def test_clocks_that_may_be_the_same_are_the_same_however_slow_the_link() -> None:
    window = OffsetWindow()
    window.add(5_000, 75 * MS_NS)
    assert window.offset_ns(5 * SECOND_NS, 0) == -75 * MS_NS
    window.add_answer(5 * SECOND_NS, -75 * MS_NS, 75 * MS_NS)
    assert window.offset_ns(5 * SECOND_NS, 0) == 0
    assert window.offset_ns(5 * SECOND_NS + 80 * MS_NS, 0) == -80 * MS_NS


def test_of_other_clocks_half_of_the_way_to_and_fro_is_known() -> None:
    """The fastest of each counts, whichever question they belong to."""
    window = OffsetWindow()
    window.add_answer(5 * SECOND_NS, -300 * MS_NS, 75 * MS_NS)
    window.add_answer(5 * SECOND_NS, -75 * MS_NS, 300 * MS_NS)
    assert window.offset_ns(3_605 * SECOND_NS, 0) == -3_600 * SECOND_NS
    assert window.offset_ns(SECOND_NS, 0) == 4 * SECOND_NS


def test_answers_from_before_a_step_do_not_count_against_packets() -> None:
    window = OffsetWindow()
    window.add_answer(5 * SECOND_NS, 0, MS_NS)
    window.add(3_605_000, 2 * MS_NS)
    assert window.offset_ns(5 * SECOND_NS, 0) == 3_600 * SECOND_NS - 2 * MS_NS


class Asking:
    """A link that a question goes into; `now_ns` is our time."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.asked: list[OnDone] = []
        self.offsets = OffsetWindow()
        self.question = ClockQuestion(self, self.offsets, lambda: self.now_ns)

    def call(self, service: int, payload: bytes, seconds: float, on_done: OnDone) -> int:
        assert (service, payload) == (CLOCK, b"") and seconds == 1.0
        self.asked.append(on_done)
        return len(self.asked)

    def cancel(self, call_id: int) -> None:
        raise AssertionError(f"{call_id} is waited for")

    def tick(self, count: int) -> int:
        """How many are asked in so many ticks, all answered at once."""
        before = len(self.asked)
        for _ in range(count):
            known = len(self.asked)
            self.question.tick()
            for on_done in self.asked[known:]:
                on_done(OK, (5 * SECOND_NS).to_bytes(8, "big"), None)
        return len(self.asked) - before


def test_a_question_measures_from_when_it_was_asked_to_its_answer() -> None:
    link = Asking()
    link.question.tick()
    link.now_ns = 150 * MS_NS
    link.asked[0](OK, (9 * SECOND_NS).to_bytes(8, "big"), None)
    assert link.offsets.offset_ns(SECOND_NS, 0) == 8 * SECOND_NS - 75 * MS_NS


def test_one_question_is_on_its_way_until_it_is_answered_or_given_up() -> None:
    link = Asking()
    for _ in range(5):
        link.question.tick()
    assert len(link.asked) == 1
    link.asked[0](0, None, DeadlineExceeded("too late"))
    link.question.tick()
    assert len(link.asked) == 2 and link.offsets.offset_ns(0, 0) is None


def test_who_is_new_asks_often_and_later_now_and_then() -> None:
    link = Asking()
    assert link.tick(16) == 16
    assert link.tick(16) == 4


def test_a_peer_that_does_not_know_the_question_tells_nothing() -> None:
    link = Asking()
    for status, payload in ((UNKNOWN_SERVICE, b""), (OK, b""), (OK, bytes(9))):
        link.question.tick()
        link.asked[-1](status, payload, None)
    assert len(link.asked) == 3 and link.offsets.offset_ns(0, 0) is None
