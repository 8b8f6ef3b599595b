"""Fair queues (the contract, section 11): quiet tenants do not wait for noisy ones, and nothing is
lost on the way.
"""

import pytest

from fastnode import config
from fastnode.queue import api
from tests.unit.queue.fair_world import LONG, FairWorld, make_noisy, numbered, position_of


@pytest.fixture
def world() -> FairWorld:
    return FairWorld()


@pytest.fixture
def url(world: FairWorld) -> str:
    return world.create()


# --- the rule ----------------------------------------------------------------------------------


def test_a_quiet_tenant_does_not_wait_behind_a_noisy_one(world: FairWorld, url: str) -> None:
    make_noisy(world, url)
    world.send_as(url, "quiet", "q")
    assert world.bodies(url, 3) == ["q", "loud30", "loud31"]
    assert world.noisy() == {"loud"}


def test_quiet_tenants_are_served_in_send_order(world: FairWorld, url: str) -> None:
    make_noisy(world, url)
    for number, tenant in enumerate(["a", "b", None, "a", "c", None]):
        world.send_as(url, tenant, f"m{number}")
    assert world.bodies(url, 7) == ["m0", "m1", "m2", "m3", "m4", "m5", "loud30"]


def test_before_anybody_is_noisy_send_order_holds(world: FairWorld, url: str) -> None:
    world.send_many(url, "a", ["m0", "m1"])
    world.send_as(url, "b", "m2")
    world.send_as(url, "a", "m3")
    assert world.bodies(url) == ["m0", "m1", "m2", "m3"]


def test_a_thousand_messages_without_a_tenant_are_a_thousand_quiet_tenants(
    world: FairWorld, url: str
) -> None:
    world.send_as(url, "a", "a0")
    world.send_many(url, None, numbered("m", 60))
    assert [world.bodies(url)[0] for _ in range(4)] == ["a0", "m9", "m19", "m29"]
    world.send_as(url, "a", "a1")
    assert world.bodies(url)[0] == "m39", "nobody is noisy"


def test_among_noisy_tenants_the_one_with_fewest_in_flight_comes_first(
    world: FairWorld, url: str
) -> None:
    make_noisy(world, url, "loud")
    world.send_many(url, "shrill", numbered("shrill", 60))
    # Quiet until it holds thirty itself, and from then on both are equal: in turns.
    for _ in range(3):
        assert all(body.startswith("shrill") for body in world.bodies(url, 10, LONG))
    assert world.bodies(url, 6) == [
        "loud30",
        "shrill30",
        "loud31",
        "shrill31",
        "loud32",
        "shrill32",
    ]
    assert world.noisy() == {"loud", "shrill"}


def test_a_slow_tenant_is_noisy_with_few_messages(world: FairWorld, url: str) -> None:
    world.send_many(url, "slow", ["s0", "s1", "s2"])
    (slow,) = world.receive(url, 1, LONG)
    world.advance(20_000)
    world.delete(url, slow.receipt_handle)
    world.send_as(url, "quiet", "q")
    assert world.bodies(url) == ["q", "s1", "s2"]
    assert world.noisy() == {"slow"}


def test_noise_ends_with_the_backlog(world: FairWorld, url: str) -> None:
    make_noisy(world, url, backlog=2)
    assert world.bodies(url, 2) == ["loud30", "loud31"]
    messages = world.receive(url)
    assert not messages and not world.noisy()


def test_noise_ends_five_minutes_after_the_last_message(world: FairWorld, url: str) -> None:
    make_noisy(world, url, backlog=5)
    world.send_as(url, "quiet", "q0")
    assert world.bodies(url, 1, LONG) == ["q0"] and world.noisy() == {"loud"}
    # What was in flight comes back after an hour: from then on the tenant holds nothing.
    world.advance(LONG * 1_000 - config.NOISY_IDLE_MS)
    world.send_as(url, "loud", "last")
    world.advance(config.NOISY_IDLE_MS - 1_000)
    assert world.bodies(url, 1, LONG) == ["loud30"] and world.noisy() == {"loud"}
    world.advance(1_001)
    assert world.bodies(url, 1) == ["loud0"] and not world.noisy()


@pytest.mark.parametrize("is_sending", [False, True])
def test_a_tenant_that_goes_on_sending_stays_noisy(
    world: FairWorld, url: str, is_sending: bool
) -> None:
    world.send_many(url, "loud", numbered("loud", 60))
    for _ in range(3):
        world.bodies(url, 10, 5)
    world.send_as(url, "quiet", "q0")
    assert world.bodies(url, 1, LONG) == ["q0"]
    world.advance(config.NOISY_IDLE_MS - 1_000)
    if is_sending:
        world.send_as(url, "loud", "more")
    world.advance(1_001)
    world.send_as(url, "quiet", "q1")
    assert world.bodies(url, 1) == ["q1" if is_sending else "loud0"]


def test_messages_from_before_the_first_tenant_count_as_in_flight(
    world: FairWorld, url: str
) -> None:
    world.send_many(url, None, numbered("m", 300))
    world.send_many(url, "a", numbered("a", 40))
    for _ in range(33):
        assert len(world.bodies(url, 10, LONG)) == 10
    world.send_as(url, "quiet", "q")
    assert world.bodies(url, 1) == ["a30"], "thirty of more than three hundred"


def test_due_messages_of_a_noisy_tenant_stand_aside(world: FairWorld, url: str) -> None:
    world.send_many(url, "loud", numbered("loud", 60))
    world.bodies(url, 10, 5)
    for _ in range(4):
        world.bodies(url, 10, LONG)
    world.advance(5_001)
    for number in range(3):
        world.send_as(url, "quiet", f"q{number}")
    # Forty of the loud one's are still in flight. Its first ten are due, and wait.
    assert world.bodies(url, 2) == ["q0", "q1"]
    assert world.counts(url) == (10 + 10 + 1, 42, 0), "who stands aside is visible"
    assert world.bodies(url, 3) == ["q2", "loud0", "loud1"]


def test_a_due_message_that_somebody_changes_is_passed_over_and_not_lost(
    world: FairWorld, url: str
) -> None:
    world.send_many(url, "loud", numbered("loud", 42))
    first, second = world.receive(url, 2, 5)
    for _ in range(4):
        world.bodies(url, 10, LONG)
    world.advance(5_001)
    assert world.noisy() == {"loud"}
    request = api.DeleteMessageRequest(url, first.receipt_handle)
    delete = world.begin("DeleteMessage", request)
    receive = world.begin("ReceiveMessage", api.ReceiveMessageRequest(url))
    world.refuse()
    assert delete.error is not None and receive.error is not None
    assert sorted(world.bodies(url)) == sorted([str(first.body), str(second.body)])


def test_noisy_and_quiet_messages_survive_a_delay(world: FairWorld, url: str) -> None:
    make_noisy(world, url, backlog=1)
    world.send_as(url, "loud", "late loud", 5)
    world.send_as(url, "quiet", "late quiet", 5)
    world.advance(5_001)
    assert world.bodies(url) == ["late quiet", "late loud", "loud30"]


# --- cost --------------------------------------------------------------------------------------


def test_a_queue_without_tenants_has_no_rows_and_no_memory_for_them(
    world: FairWorld, url: str
) -> None:
    world.send_many(url, None, numbered("m", 20))
    world.bodies(url)
    assert world.live().tenants is None
    assert not world.filed() and not world.heads()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_no_receive_walks_over_the_backlog(world: FairWorld, url: str, is_restarted: bool) -> None:
    make_noisy(world, url, backlog=3_000)
    world.send_as(url, "quiet", "q")
    if is_restarted:
        world.crash()
        # Nobody is known to hold anything: thirty messages show who is noisy.
        for _ in range(3):
            world.bodies(url, 10, LONG)
    scanned = world.live().scanned
    assert world.bodies(url, 2)[0] == "q"
    assert world.live().scanned - scanned == 2


def test_no_receive_looks_at_due_messages_of_noisy_tenants(world: FairWorld, url: str) -> None:
    make_noisy(world, url, backlog=60)
    for _ in range(4):
        world.bodies(url, 10, 5)
    world.send_as(url, "quiet", "q")
    assert world.bodies(url, 1, 5) == ["q"]
    world.advance(5_001)
    scanned = world.live().scanned
    assert world.bodies(url, 1) == ["q"], (
        "it is due, and forty messages of the other were sent before"
    )
    assert world.live().scanned - scanned == 1


def test_the_mark_follows_what_waits(world: FairWorld, url: str) -> None:
    ids = [world.send_as(url, f"t{number % 3}", f"m{number}") for number in range(9)]
    for number in range(1, 9):
        assert world.bodies(url, 1, LONG) == [f"m{number - 1}"]
        assert world.mark() == position_of(ids[number])


def test_the_mark_does_not_pass_tenants_that_are_not_in_memory(
    world: FairWorld, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "TENANT_PAGE", 1)
    ids = [world.send_as(url, tenant, tenant) for tenant in "aba"]
    assert world.bodies(url, 1, LONG) == ["a"]
    assert world.mark() <= position_of(ids[1])


def test_leader_memory_of_tenants_is_bounded(
    world: FairWorld, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "TENANT_PAGE", 4)
    bodies = numbered("m", 100)
    for number, body in enumerate(bodies):
        world.send_as(url, f"t{number % 50}", body)
    received: list[str] = []
    while found := world.bodies(url, 10, LONG):
        received += found
        tenants = world.live().tenants
        assert tenants is not None and len(tenants._alone) <= len(tenants._first) <= 4 * 4
        if len(received) <= 30:
            world.send_as(url, f"late{len(received)}", f"late{len(received)}")
    assert received == [*bodies, "late10", "late20", "late30"]


def test_nothing_is_remembered_of_tenants_that_are_gone(world: FairWorld, url: str) -> None:
    world.send_as(url, "first", "m")
    for number in range(30):
        for message in world.receive(url):
            world.delete(url, message.receipt_handle)
        world.send_as(url, f"t{number}", "m")
    tenants = world.live().tenants
    assert tenants is not None
    memory = (tenants._first, tenants._tenant_at, tenants._alone, tenants._heap)
    assert all(len(part) == 1 for part in memory)
    assert not tenants.shares._held and not tenants.shares._in_flight


def test_a_receive_meets_no_more_dead_letters_than_one_transaction_moves(
    world: FairWorld, url: str
) -> None:
    make_noisy(world, url, backlog=40)
    for _ in range(4):
        world.bodies(url, 10, 5)
    world.advance(5_001)
    queue = world.live()
    choice = queue.choose(10, queue.group.now(), 1)
    assert world.noisy() == {"loud"}
    assert (len(choice.messages), len(choice.dead)) == (0, config.TRANSACTION_MESSAGES_MAX)
    queue.give_back(choice)
    assert len(world.bodies(url)) == 10
