"""Due messages of noisy tenants stand aside, and count as due."""

from fastnode.queue.fair_timers import TenantTimers
from fastnode.queue.timers import Timer


def timers_of(noisy: dict[int, str]) -> TenantTimers:
    timers = TenantTimers(noisy.get)
    timers.load([], is_last=True)
    return timers


def due_at_once(timers: TenantTimers, *positions: int) -> None:
    for position in positions:
        timers.schedule(Timer(5, position, True))
    timers.advance(6)


def nobody_changes(_position: int) -> bool:
    return False


def test_only_quiet_tenants_are_served_in_order() -> None:
    timers = timers_of({1: "loud", 3: "loud"})
    due_at_once(timers, 4, 3, 2, 1)
    assert [timers.take(), timers.take(), timers.take()] == [(2, True), (4, True), None]
    assert timers.has_due and timers.due_received == 2


def test_who_stands_aside_is_taken_in_send_order() -> None:
    timers = timers_of({1: "loud", 2: "shrill", 3: "loud"})
    due_at_once(timers, 3, 2, 1)
    assert [timers.take_aside("loud", nobody_changes) for _ in range(3)] == [1, 3, None]
    assert timers.due_received == 1 and not timers.has_aside("loud") and timers.has_aside("shrill")


def test_what_is_deleted_stands_nowhere() -> None:
    timers = timers_of({1: "loud"})
    due_at_once(timers, 1)
    timers.forget((1,))
    assert not timers.has_aside("loud") and timers.take_aside("loud", nobody_changes) is None
    assert not timers.has_due and timers.due_received == 0


def test_what_somebody_changes_is_passed_over() -> None:
    timers = timers_of({1: "loud", 2: "loud"})
    due_at_once(timers, 1, 2)
    assert timers.take_aside("loud", lambda position: position == 1) == 2
    assert timers.take_aside("loud", nobody_changes) == 1


def test_a_tenant_that_is_quiet_again_rejoins_the_others() -> None:
    timers = timers_of({1: "loud", 3: "loud"})
    due_at_once(timers, 1, 2, 3)
    timers.rejoin("loud")
    assert not timers.has_aside("loud")
    assert [timers.take() for _ in range(4)] == [(1, True), (2, True), (3, True), None]


def test_deleted_messages_do_not_pile_up() -> None:
    timers = timers_of(dict.fromkeys(range(2_000), "loud"))
    due_at_once(timers, 1_999)
    for position in range(1_000):
        due_at_once(timers, position)
        timers.forget((position,))
    assert len(timers._aside["loud"]) < 100
    assert timers.take_aside("loud", nobody_changes) == 1_999
