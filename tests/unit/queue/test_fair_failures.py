"""What a fair queue keeps through failures, overlaps and restarts, and the other ways in and out of
it: nothing is lost, nothing is taken twice.
"""

import json

import pytest

from fastnode import config
from fastnode.queue import api
from tests.unit.queue.fair_world import LONG, FairWorld, make_noisy, numbered, position_of
from tests.unit.queue.retention_world import begin_sweep
from tests.world import ACCOUNT, REGION


@pytest.fixture
def world() -> FairWorld:
    return FairWorld()


@pytest.fixture
def url(world: FairWorld) -> str:
    return world.create()


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


def test_the_mark_stays_before_what_came_back_from_a_failed_receive(
    world: FairWorld, url: str
) -> None:
    for number in range(3):
        world.send(url, f"m{number}")
    world.send_as(url, "a", "m3")
    failed = world.begin("ReceiveMessage", api.ReceiveMessageRequest(url, max_number_of_messages=4))
    world.refuse()
    assert failed.error is not None
    assert world.bodies(url, 1, LONG) == ["m0"]
    world.crash()
    assert world.bodies(url) == ["m1", "m2", "m3"]


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


def test_what_a_poll_took_before_its_sender_was_told_is_not_taken_again(
    world: FairWorld, url: str
) -> None:
    world.send_as(url, "a", "m0")
    assert world.bodies(url) == ["m0"]
    request = api.ReceiveMessageRequest(url, max_number_of_messages=10, wait_time_seconds=20)
    poll = world.begin("ReceiveMessage", request)
    entries = [
        api.SendMessageBatchRequestEntry(body, body, message_group_id="a") for body in ("m1", "m2")
    ]
    world.begin("SendMessageBatch", api.SendMessageBatchRequest(url, entries))
    world.begin("SendMessage", api.SendMessageRequest(url, "m3", message_group_id="a"))
    world.step()
    other = world.begin("ReceiveMessage", api.ReceiveMessageRequest(url))
    world.commit()
    assert [message.body for message in poll.result.messages] == ["m1", "m2", "m3"]
    assert other.result.messages == []


def test_two_waiting_polls_share_a_batch(world: FairWorld, url: str) -> None:
    world.send_as(url, "a", "m0")
    assert world.bodies(url) == ["m0"]
    polls = [
        world.begin("ReceiveMessage", api.ReceiveMessageRequest(url, wait_time_seconds=20))
        for _ in range(2)
    ]
    world.send_many(url, "a", ["m1", "m2"])
    assert [poll.result.messages[0].body for poll in polls] == ["m1", "m2"]


@pytest.mark.parametrize("leaves", ["by a receive", "by a sweep"])
def test_a_tenant_that_pages_missed_is_found_when_its_first_message_is_gone(
    world: FairWorld, monkeypatch: pytest.MonkeyPatch, leaves: str
) -> None:
    monkeypatch.setattr(config, "TENANT_PAGE", 1)
    url = world.create(MessageRetentionPeriod="60")
    one = api.ReceiveMessageRequest(url)
    world.send_as(url, "a", "m0")
    world.advance(30_000)
    world.send_as(url, "b", "m1")
    world.advance(30_000 if leaves == "by a sweep" else 0)
    world.begin("SendMessage", api.SendMessageRequest(url, "m2", message_group_id="a"))
    sent = world.take_entry()
    # The first message of `a` is on its way out, and its row is still the stored one.
    first = begin_sweep(world) if leaves == "by a sweep" else world.begin("ReceiveMessage", one)
    left = world.take_entry()
    if leaves == "by a sweep":
        # What it reads before the new message is there makes that one a matter of a later page.
        second = world.begin("ReceiveMessage", one)
        world.land(sent)
    else:
        world.land(sent)
        second = world.begin("ReceiveMessage", one)
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(url, wait_time_seconds=20))
    assert not first.is_done and world.live().waiters
    world.land(left)
    assert not world.live().waiters, "the poll has found it"
    world.commit()
    assert [message.body for message in second.result.messages] == ["m1"]
    assert [message.body for message in poll.result.messages] == ["m2"]


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


def test_a_move_task_moves_what_noisy_tenants_have_too(world: FairWorld) -> None:
    world.create("other")
    target = world.create("dead")
    dead, other = (f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}" for name in ("dead", "other"))
    policy = json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 1})
    world.create("source", RedrivePolicy=policy)
    make_noisy(world, target, backlog=30)
    world.call("StartMessageMoveTask", api.StartMessageMoveTaskRequest(dead, other, 5))
    world.send_as(target, "quiet", "young")
    world.advance(20_000)
    assert world.counts("other") == (30, 0, 0)
    assert world.bodies(target) == ["young"]
    assert world.bodies("other", 2) == ["loud30", "loud31"]
