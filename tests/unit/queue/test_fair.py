"""Fair queues (the contract, section 11): quiet tenants do not wait for noisy ones, and nothing is
lost on the way.
"""

import json

import pytest

from fastnode import config
from fastnode.queue import api
from tests.unit.queue.fair_world import FairWorld, position_of
from tests.unit.queue.retention_world import begin_sweep
from tests.world import ACCOUNT, REGION

LONG = 3_600


def numbered(name: str, count: int, first: int = 0) -> list[str]:
    return [f"{name}{number}" for number in range(first, first + count)]


@pytest.fixture
def world() -> FairWorld:
    return FairWorld()


@pytest.fixture
def url(world: FairWorld) -> str:
    return world.create()


def make_noisy(world: FairWorld, url: str, tenant: str = "loud", backlog: int = 100) -> None:
    """Thirty of its messages are in flight, and the backlog waits."""
    world.send_many(url, tenant, numbered(tenant, 30 + backlog))
    for _ in range(3):
        assert len(world.bodies(url, 10, LONG)) == 10


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
        assert tenants is not None and len(tenants._first) <= 4 * 4
        if len(received) <= 30:
            world.send_as(url, f"late{len(received)}", f"late{len(received)}")
    assert received == [*bodies, "late10", "late20", "late30"]


# --- what lies before the tenants ----------------------------------------------------------------


@pytest.mark.parametrize("is_restarted", [False, True])
def test_messages_from_before_the_first_tenant_keep_their_place(
    world: FairWorld, url: str, is_restarted: bool
) -> None:
    ids = [world.send(url, f"m{number}") for number in range(4)]
    assert world.bodies(url, 1, LONG) == ["m0"]
    world.send_as(url, "a", "m4")
    world.send(url, "m5")
    if is_restarted:
        world.crash()
    assert world.mark() <= position_of(ids[1])
    assert world.bodies(url, 2, LONG) == ["m1", "m2"]
    assert world.mark() <= position_of(ids[3])
    assert world.bodies(url) == ["m3", "m4", "m5"]


def test_sends_under_way_when_the_first_tenant_comes_are_found(world: FairWorld, url: str) -> None:
    assert world.bodies(url) == []
    calls = [
        world.begin("SendMessage", api.SendMessageRequest(url, f"m{n}", message_group_id=tenant))
        for n, tenant in enumerate([None, None, "a", None])
    ]
    world.commit()
    assert all(call.error is None for call in calls)
    assert world.bodies(url) == ["m0", "m1", "m2", "m3"]
    assert not world.filed()


def test_a_first_tenant_that_fails_loses_nothing(world: FairWorld, url: str) -> None:
    world.send(url, "m0")
    call = world.begin("SendMessage", api.SendMessageRequest(url, "no", message_group_id="a"))
    world.refuse()
    assert call.error is not None
    world.send(url, "m1")
    world.crash()
    world.send(url, "m2")
    assert world.bodies(url) == ["m0", "m1", "m2"]


# --- failures ----------------------------------------------------------------------------------


def test_receives_that_failed_leave_everything_in_its_place(world: FairWorld, url: str) -> None:
    make_noisy(world, url, backlog=10)
    for number in range(3):
        world.send_as(url, "quiet", f"q{number}")
    request = api.ReceiveMessageRequest(url, max_number_of_messages=4)
    failed = [world.begin("ReceiveMessage", request) for _ in range(3)]
    world.refuse()
    assert all(call.error is not None for call in failed)
    assert world.bodies(url, 1, LONG) == ["q0"]
    mark = world.mark()
    world.crash()
    assert all(mark <= position for _, position in world.filed())
    bodies = world.bodies(url, 10, LONG) + world.bodies(url, 10, LONG)
    assert sorted(bodies) == sorted([*numbered("loud", 10, 30), "q1", "q2"])


def test_a_failed_receive_of_due_messages_is_repeated(world: FairWorld, url: str) -> None:
    world.send_many(url, "a", ["m0", "m1"])
    world.bodies(url, 2, 1)
    world.advance(1_001)
    call = world.begin("ReceiveMessage", api.ReceiveMessageRequest(url, max_number_of_messages=2))
    world.refuse()
    assert call.error is not None
    assert world.bodies(url) == ["m0", "m1"]


def test_receives_of_one_tenant_overlap(world: FairWorld, url: str) -> None:
    world.send_many(url, "a", numbered("m", 6))
    request = api.ReceiveMessageRequest(url, max_number_of_messages=2)
    calls = [world.begin("ReceiveMessage", request) for _ in range(3)]
    world.commit()
    bodies = [[message.body for message in call.result.messages] for call in calls]
    assert bodies == [["m0", "m1"], ["m2", "m3"], ["m4", "m5"]]
    assert not world.filed() and not world.heads()


def test_a_purge_begins_anew(world: FairWorld, url: str) -> None:
    make_noisy(world, url)
    world.call("PurgeQueue", api.PurgeQueueRequest(url))
    assert world.live().tenants is None and not world.filed()
    world.send(url, "m0")
    world.send_as(url, "loud", "m1")
    assert world.bodies(url) == ["m0", "m1"] and not world.noisy()


def test_a_waiting_poll_is_woken_by_a_tenant(world: FairWorld, url: str) -> None:
    request = api.ReceiveMessageRequest(url, wait_time_seconds=20)
    world.send_as(url, "a", "m0")
    assert world.bodies(url) == ["m0"]
    poll = world.begin("ReceiveMessage", request)
    world.send_as(url, "a", "m1")
    assert poll.is_done and [message.body for message in poll.result.messages] == ["m1"]


# --- other ways out and in -----------------------------------------------------------------------


@pytest.mark.parametrize("page", [1, 1_024])
def test_expired_messages_of_all_tenants_go(
    world: FairWorld, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(config, "TENANT_PAGE", page)
    url = world.create(MessageRetentionPeriod="60")
    world.send(url, "m0")
    for number in range(1, 6):
        world.send_as(url, f"t{number % 2}", f"m{number}")
    world.advance(50_000)
    world.send_as(url, "t0", "young")
    world.advance(10_001)
    refused = begin_sweep(world)
    world.refuse()
    assert refused.error is not None and len(world.filed()) == 6
    # While it is under way a receive finds only what stays.
    sweep = begin_sweep(world)
    receive = world.begin("ReceiveMessage", api.ReceiveMessageRequest(url))
    world.commit()
    assert sweep.is_done and [message.body for message in receive.result.messages] == ["young"]
    assert not world.filed() and not world.heads()
    assert world.counts(url) == (0, 1, 0)


def test_a_sweep_that_failed_leaves_everything_in_its_place(world: FairWorld) -> None:
    url = world.create(MessageRetentionPeriod="60")
    for number in range(4):
        world.send_as(url, f"t{number % 2}", f"m{number}")
    world.advance(60_000)
    begin_sweep(world)
    world.refuse()
    world.call(
        "SetQueueAttributes",
        api.SetQueueAttributesRequest(url, {"MessageRetentionPeriod": "3600"}),
    )
    assert world.bodies(url) == ["m0", "m1", "m2", "m3"]


def test_a_dead_letter_is_filed_in_its_new_queue(world: FairWorld) -> None:
    target = world.create("dead")
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    source = world.create("source", RedrivePolicy=policy)
    make_noisy(world, target)
    for number, tenant in enumerate(["a", None]):
        world.send_as(source, tenant, f"m{number}")
    assert world.bodies(source, 10, 1) == ["m0", "m1"]
    world.advance(1_001)
    assert world.bodies(source) == []
    assert {tenant for tenant, _ in world.filed("dead")} == {"loud", "a", ""}
    assert world.bodies(target, 3) == ["m0", "m1", "loud30"]
    task = world.call("StartMessageMoveTask", api.StartMessageMoveTaskRequest(arn))
    assert task.task_handle
