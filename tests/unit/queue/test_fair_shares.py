"""The rule of fair queues (the contract, section 11): who is noisy, and for how long."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import config
from fastnode.queue.fair_shares import NOBODY, Shares

NOW = 1_700_000_000_000


def holding(**counts: int) -> Shares:
    shares = Shares()
    position = 0
    for tenant, count in counts.items():
        for _ in range(count):
            position += 1
            shares.hold(position, tenant, NOW)
    return shares


def always(_tenant: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("own", "others", "is_noisy"),
    [(30, 0, True), (29, 0, False), (30, 269, True), (30, 270, False), (31, 278, True)],
)
def test_a_tenth_of_what_is_in_flight_and_thirty_messages(
    own: int, others: int, is_noisy: bool
) -> None:
    shares = holding(loud=own)
    for position in range(others):
        shares.hold(1_000 + position, f"t{position}", NOW)
    assert shares.is_noisy("loud", NOW) is is_noisy


def test_messages_without_a_tenant_count_but_are_never_noisy() -> None:
    shares = holding(loud=30)
    for position in range(1_000, 1_300):
        shares.hold(position, NOBODY, NOW)
    assert not shares.is_noisy(NOBODY, NOW)
    assert not shares.is_noisy("loud", NOW)


@pytest.mark.parametrize(("own_ms", "is_noisy"), [(111, False), (112, True)])
def test_a_tenth_of_the_time_that_consumers_spent(own_ms: int, is_noisy: bool) -> None:
    shares = Shares()
    shares.hold(1, "slow", NOW)
    shares.hold(2, NOBODY, NOW)
    shares.finish(1, NOW + own_ms)
    shares.finish(2, NOW + 1_000)
    assert shares.is_noisy("slow", NOW + 1_000) is is_noisy


def test_only_recent_time_counts() -> None:
    begin = NOW - NOW % config.PROCESSING_PERIOD_MS
    for periods, is_noisy in ((1, True), (2, False)):
        shares = Shares()
        shares.hold(1, "slow", begin)
        shares.finish(1, begin + 1_000)
        now_ms = begin + periods * config.PROCESSING_PERIOD_MS
        assert shares.is_noisy("slow", now_ms) is is_noisy


def test_what_nobody_finished_takes_no_time() -> None:
    shares = Shares()
    shares.hold(1, "slow", NOW)
    assert shares.let_go(1) == ("slow", NOW)
    shares.finish(1, NOW + 60_000)
    assert not shares.is_noisy("slow", NOW + 60_000)


def test_noise_lasts_while_there_is_a_backlog() -> None:
    shares = holding(loud=30)
    assert shares.is_noisy("loud", NOW)
    for position in range(1, 31):
        shares.let_go(position)
    assert shares.quieten(NOW, always) == []
    assert shares.is_noisy("loud", NOW), "it stays noisy without a share"
    assert shares.quieten(NOW, lambda _tenant: False) == ["loud"]
    assert not shares.is_noisy("loud", NOW)


def test_noise_ends_five_minutes_after_the_last_send() -> None:
    shares = holding(loud=30)
    assert shares.is_noisy("loud", NOW)
    shares.sent("loud", NOW + 60_000)
    for position in range(1, 31):
        shares.let_go(position)
    assert shares.quieten(NOW + 60_000 + config.NOISY_IDLE_MS - 1, always) == []
    assert shares.quieten(NOW + 60_000 + config.NOISY_IDLE_MS, always) == ["loud"]


def test_whoever_still_takes_too_much_stays_noisy_without_sending() -> None:
    shares = holding(loud=30)
    assert shares.is_noisy("loud", NOW)
    assert shares.quieten(NOW + 10 * config.NOISY_IDLE_MS, always) == []


def test_who_is_lenient_finds_nobody_noisy() -> None:
    shares = holding(loud=30)
    assert shares.is_noisy("loud", NOW)
    shares.is_lenient = True
    assert shares.quieten(NOW, always) == ["loud"] and not shares.is_noisy("loud", NOW)
    shares.is_lenient = False
    assert shares.is_noisy("loud", NOW)


def test_the_number_of_noisy_tenants_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "NOISY_TENANTS_MAX", 2)
    shares = holding(a=30, b=30, c=30)
    assert all(shares.is_noisy(tenant, NOW) for tenant in "abc")
    for position in range(1, 61):
        shares.let_go(position)
    assert shares.quieten(NOW, always) == ["a", "b"], "c still takes too much"


def test_tenants_beyond_number_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "PROCESSING_TENANTS_MAX", 200)
    shares = Shares()
    for number in range(5_000):
        tenant = "slow" if number % 5 == 0 else f"t{number}"
        shares.hold(number, tenant, NOW)
        shares.finish(number, NOW + 10)
    assert len(shares._times._latest.parts) <= 200
    assert shares.is_noisy("slow", NOW)
    assert not shares.is_noisy("t4999", NOW)


# --- against a list ----------------------------------------------------------------------------

Step = tuple[str, int, str, int]


def steps() -> st.SearchStrategy[list[Step]]:
    kinds = st.sampled_from(["hold", "hold", "hold", "let_go", "finish", "ask"])
    tenants = st.sampled_from(["a", "b", "c", NOBODY])
    waits = st.sampled_from([0, 1, 500, 30_000, 90_000])
    return st.lists(st.tuples(kinds, st.integers(1, 12), tenants, waits), max_size=60)


class Ledger:
    """Everything that ever happened, counted anew for every question."""

    def __init__(self) -> None:
        self.held: list[tuple[int, str, int]] = []
        self.spent: list[tuple[int, str, int]] = []
        self.noisy: set[str] = set()

    def drop(self, position: int) -> Iterator[tuple[str, int]]:
        for entry in [entry for entry in self.held if entry[0] == position]:
            self.held.remove(entry)
            yield entry[1], entry[2]

    def is_noisy(self, tenant: str, now_ms: int) -> bool:
        own = sum(1 for _, name, _ in self.held if name == tenant)
        period = now_ms // config.PROCESSING_PERIOD_MS
        recent = [(name, ms) for at, name, ms in self.spent if at >= period - 1]
        time = sum(ms for name, ms in recent if name == tenant)
        is_over = (own >= config.NOISY_IN_FLIGHT_MIN and own * 10 > len(self.held)) or (
            time * 10 > sum(ms for _, ms in recent)
        )
        if is_over and tenant != NOBODY:
            self.noisy.add(tenant)
        return tenant in self.noisy


@given(steps())
def test_sums_agree_with_a_recount(history: list[Step]) -> None:
    shares, ledger, now_ms = Shares(), Ledger(), NOW
    for kind, position, tenant, wait_ms in history:
        now_ms += wait_ms
        if kind == "hold":
            # Three at a time, so that thirty are in reach.
            for one in range(3 * position, 3 * position + 3):
                list(ledger.drop(one))
                ledger.held.append((one, tenant, now_ms))
                shares.hold(one, tenant, now_ms)
        elif kind == "let_go":
            list(ledger.drop(position))
            shares.let_go(position)
        elif kind == "finish":
            period = now_ms // config.PROCESSING_PERIOD_MS
            for name, since in ledger.drop(position):
                ledger.spent.append((period, name, now_ms - since))
            shares.finish(position, now_ms)
        else:
            assert shares.is_noisy(tenant, now_ms) is ledger.is_noisy(tenant, now_ms)
        for name in "abc":
            assert shares.in_flight(name) == sum(1 for _, held, _ in ledger.held if held == name)
