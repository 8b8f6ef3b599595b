"""The group clock against its promises: strictly increasing, slewed, deaf to steps of the wall."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.clock import (
    COUNTER_BITS,
    NS_PER_MS,
    SLEW_PPM_MAX,
    STEER_INTERVAL_NS,
    TIMESTAMP_MAX,
    GroupClock,
    RequestIds,
    SystemClock,
    SystemIdSource,
    SystemRng,
    milliseconds_of,
    slew_ns,
    timestamp_from_ms,
)

SECOND_NS = 1_000_000_000
EPOCH_NS = 1_700_000_000 * SECOND_NS


class FakeClock:
    def __init__(self, wall_ns: int = EPOCH_NS, boot_ns: int = 0) -> None:
        self.wall = wall_ns
        self.boot = boot_ns

    def boottime_ns(self) -> int:
        return self.boot

    def wall_ns(self) -> int:
        return self.wall

    def pass_ns(self, elapsed_ns: int) -> None:
        self.boot += elapsed_ns
        self.wall += elapsed_ns


def drift_ns(clock: FakeClock, group: GroupClock, seconds: int) -> int:
    """How much more group time than boot time passes while the clock is read ten times a second."""
    boot_ns, group_ns = clock.boot, milliseconds_of(group.now()) * NS_PER_MS
    for _ in range(seconds * 10):
        clock.pass_ns(STEER_INTERVAL_NS)
        group.now()
    return milliseconds_of(group.now()) * NS_PER_MS - group_ns - (clock.boot - boot_ns)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(0, 10 * SECOND_NS)),
        st.tuples(st.just("step_wall"), st.integers(-EPOCH_NS, EPOCH_NS)),
        st.tuples(st.just("observe"), st.integers(0, timestamp_from_ms(1 << 44))),
        st.tuples(st.just("lead"), st.integers(0, timestamp_from_ms(1 << 44))),
        st.tuples(st.just("stamp"), st.integers(1, 5)),
        st.tuples(st.just("now"), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_stamps_strictly_increase_whatever_the_clocks_and_the_log_do(
    steps: list[tuple[str, int]],
) -> None:
    clock = FakeClock()
    group = GroupClock(clock)
    last = 0
    for step, amount in steps:
        if step == "pass":
            clock.pass_ns(amount)
        elif step == "step_wall":
            clock.wall += amount
        elif step == "observe":
            group.observe(amount)
            last = max(last, amount)
        elif step == "lead":
            group.lead(amount)
            last = max(last, amount)
        elif step == "now":
            assert group.now() >= last
        for _ in range(amount if step == "stamp" else 0):
            looked = group.now()
            stamped = group.stamp()
            assert last < stamped
            assert looked <= stamped
            last = stamped


@given(
    st.integers(-(10**18), 10**18),
    st.lists(st.integers(0, 100 * SECOND_NS), min_size=1, max_size=40),
)
def test_group_time_leaves_boot_time_by_at_most_the_slew(
    wall_step_ns: int, passes: list[int]
) -> None:
    clock = FakeClock(wall_ns=2 * 10**18)
    group = GroupClock(clock)
    clock.wall += wall_step_ns
    start_ms = milliseconds_of(group.now())
    for elapsed_ns in passes:
        clock.pass_ns(elapsed_ns)
        group.now()
    total_ns = sum(passes)
    advanced_ns = (milliseconds_of(group.now()) - start_ms) * NS_PER_MS
    allowed_ns = total_ns * SLEW_PPM_MAX // 1_000_000 + NS_PER_MS
    assert abs(advanced_ns - total_ns) <= allowed_ns


def test_step_of_the_wall_clock_does_not_step_group_time() -> None:
    clock = FakeClock()
    group = GroupClock(clock)
    before = group.now()
    clock.wall += 3600 * SECOND_NS
    assert group.now() == before
    clock.pass_ns(STEER_INTERVAL_NS)
    assert milliseconds_of(group.now()) - milliseconds_of(before) == 100


def test_group_time_is_slewed_forward_by_500_ppm_towards_a_wall_that_is_ahead() -> None:
    clock = FakeClock()
    group = GroupClock(clock)
    clock.wall += 3600 * SECOND_NS
    assert abs(drift_ns(clock, group, seconds=100) - 50 * NS_PER_MS) <= NS_PER_MS


def test_group_time_is_slewed_back_by_500_ppm_towards_a_wall_that_is_behind() -> None:
    clock = FakeClock()
    group = GroupClock(clock)
    clock.wall -= 3600 * SECOND_NS
    assert abs(drift_ns(clock, group, seconds=100) + 50 * NS_PER_MS) <= NS_PER_MS


def test_slew_stops_when_the_target_is_reached() -> None:
    clock = FakeClock()
    group = GroupClock(clock)
    clock.wall += 5 * NS_PER_MS
    drift_ns(clock, group, seconds=20)
    assert milliseconds_of(group.now()) == clock.wall // NS_PER_MS


def test_reading_often_does_not_suppress_the_slew() -> None:
    clock = FakeClock()
    group = GroupClock(clock)
    clock.wall += 3600 * SECOND_NS
    start_ms = milliseconds_of(group.now())
    for _ in range(100_000):
        clock.pass_ns(100_000)
        group.now()
    assert milliseconds_of(group.now()) - start_ms in (10_004, 10_005)


def test_target_is_asked_once_an_interval_and_not_for_every_stamp() -> None:
    clock = FakeClock()
    asked: list[int] = []

    def target_ns(_reached_ns: int) -> int:
        asked.append(clock.wall)
        return clock.wall

    group = GroupClock(clock, target_ns)
    asked.clear()
    for _ in range(1_000):
        clock.pass_ns(STEER_INTERVAL_NS // 100)
        group.stamp()
    assert len(asked) == 10


def test_leadership_begins_at_the_last_applied_timestamp_when_the_wall_is_behind_it() -> None:
    clock = FakeClock()
    group = GroupClock(clock)
    applied = timestamp_from_ms(EPOCH_NS // NS_PER_MS + 60_000) + 7
    group.lead(applied)
    assert group.now() == applied
    assert group.stamp() == applied + 1
    clock.pass_ns(10 * NS_PER_MS)
    assert milliseconds_of(group.stamp()) in range(
        milliseconds_of(applied) + 9, milliseconds_of(applied) + 11
    )


def test_leadership_begins_at_the_wall_when_the_log_is_older() -> None:
    clock = FakeClock()
    group = GroupClock(clock)
    clock.wall += 60 * SECOND_NS
    group.lead(timestamp_from_ms(5))
    assert group.stamp() == timestamp_from_ms(clock.wall // NS_PER_MS)


def test_target_of_several_voters_replaces_the_own_wall() -> None:
    clock = FakeClock()
    median_ns = EPOCH_NS + 90 * SECOND_NS
    assert GroupClock(clock, lambda _reached_ns: median_ns).now() == timestamp_from_ms(
        median_ns // NS_PER_MS
    )


def test_used_up_counter_carries_into_the_milliseconds() -> None:
    clock = FakeClock()
    group = GroupClock(clock)
    last_of_ms = timestamp_from_ms(EPOCH_NS // NS_PER_MS + 1) - 1
    group.observe(last_of_ms)
    stamped = group.stamp()
    assert stamped == last_of_ms + 1
    assert stamped & ((1 << COUNTER_BITS) - 1) == 0


def test_looking_takes_nothing() -> None:
    group = GroupClock(FakeClock())
    assert group.now() == group.now()
    first = group.stamp()
    assert group.now() == first
    assert group.stamp() == first + 1


def test_timestamp_beyond_64_bits_is_a_bug() -> None:
    group = GroupClock(FakeClock())
    with pytest.raises(AssertionError):
        group.observe(TIMESTAMP_MAX + 1)
    group.observe(TIMESTAMP_MAX)
    with pytest.raises(AssertionError):
        group.stamp()


@given(st.integers(-(10**18), 10**18), st.integers(0, 10**15))
def test_slew_never_overshoots_and_keeps_the_sign(error_ns: int, elapsed_ns: int) -> None:
    made_good = slew_ns(error_ns, elapsed_ns)
    assert abs(made_good) <= abs(error_ns)
    assert made_good * error_ns >= 0
    assert abs(made_good) <= elapsed_ns * SLEW_PPM_MAX / 1_000_000


def test_system_clock_grows_and_is_in_nanoseconds_since_1970() -> None:
    clock = SystemClock()
    assert clock.boottime_ns() <= clock.boottime_ns()
    assert EPOCH_NS < clock.wall_ns() < 8_000_000_000 * SECOND_NS


def test_ids_are_as_long_as_asked_and_never_repeat_across_blocks() -> None:
    ids = SystemIdSource()
    taken = [ids.take(16) for _ in range(1000)]
    assert {len(identity) for identity in taken} == {16}
    assert len(set(taken)) == 1000
    assert len(ids.take(SystemIdSource.BLOCK_BYTES)) == SystemIdSource.BLOCK_BYTES


def test_rng_stays_below_its_bound_and_reaches_all_of_it() -> None:
    rng = SystemRng(SystemIdSource())
    assert {rng.below(4) for _ in range(200)} == {0, 1, 2, 3}


@given(
    error_ns=st.integers(-10 * SECOND_NS, 10 * SECOND_NS),
    passes=st.lists(st.one_of(st.integers(0, 3_000), st.integers(0, 3 * NS_PER_MS)), max_size=200),
)
def test_a_clock_that_remembers_its_millisecond_says_what_one_says_that_computes_it(
    error_ns: int, passes: list[int]
) -> None:
    clock = FakeClock()
    remembering, computing = (GroupClock(clock, lambda ns: ns + error_ns) for _ in range(2))
    for elapsed_ns in passes:
        clock.pass_ns(elapsed_ns)
        computing._same_until_boot_ns = 0
        assert remembering.now() == computing.now()
        computing._same_until_boot_ns = 0
        assert remembering.stamp() == computing.stamp()


def test_a_millisecond_ends_when_it_is_over() -> None:
    """Also for a clock that runs as fast as it may, to the nanosecond."""
    clock = FakeClock()
    remembering, computing = (GroupClock(clock, lambda ns: ns + SECOND_NS) for _ in range(2))
    clock.pass_ns(STEER_INTERVAL_NS)
    for _ in range(20):
        remembering.now()
        clock.boot = remembering._same_until_boot_ns - 1
        computing._same_until_boot_ns = 0
        assert remembering.now() == computing.now()
        clock.pass_ns(600)


def test_request_ids_are_uuids_and_never_the_same() -> None:
    take = RequestIds(SystemIdSource())
    ids = [take() for _ in range(1_000)]
    assert len(set(ids)) == len(ids)
    assert all(str(UUID(one)) == one for one in ids)
    # Only the last byte counts, and only as far as it goes.
    assert len({one[:-2] for one in ids}) == 4
