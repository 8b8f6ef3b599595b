"""The message life cycle through real handlers and the real store, without sockets or time."""

import pytest

from fastnode import config
from fastnode.errors import DiskFull, Unavailable
from fastnode.queue import api
from fastnode.queue.errors import SqsError
from tests.world import ENDPOINT, World


@pytest.fixture
def world() -> World:
    return World()


def bodies(messages: list[api.Message]) -> list[str]:
    return [message.body for message in messages]


def test_messages_arrive_in_send_order_with_the_ids_of_the_answers(world: World) -> None:
    url = world.create()
    sent = [world.send(url, f"m{n}") for n in range(12)]
    first, second = world.receive(url), world.receive(url)
    assert bodies(first + second) == [f"m{n}" for n in range(12)]
    assert [message.message_id for message in first + second] == sent
    assert world.receive(url) == []


def test_an_expired_message_comes_before_younger_ones(world: World) -> None:
    # sqs-contract 5.2: received A, then B was sent, A expired: next is A.
    url = world.create()
    world.send(url, "A")
    world.receive(url, timeout=5)
    world.send(url, "B")
    world.advance(5_001)
    assert bodies(world.receive(url)) == ["A", "B"]


def test_a_timeout_ends_to_the_millisecond(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    world.receive(url, timeout=5)
    world.advance(4_998)
    assert world.receive(url) == []
    world.advance(3)
    (message,) = world.receive(url)
    assert message.body == "A"


def test_a_receive_with_timeout_zero_leaves_the_message_available(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    handles = {world.receive(url, timeout=0)[0].receipt_handle for _ in range(3)}
    assert len(handles) == 3
    assert world.counts(url) == (1, 0, 0)


def test_delayed_messages_appear_after_their_delay(world: World) -> None:
    url = world.create(DelaySeconds="3")
    world.send(url, "late")
    world.send(url, "now", delay_seconds=0)
    assert bodies(world.receive(url)) == ["now"]
    assert world.counts(url) == (0, 1, 1)
    world.advance(3_001)
    assert world.counts(url) == (1, 1, 0)
    assert bodies(world.receive(url)) == ["late"]
    assert world.counts(url) == (0, 2, 0)


def test_counters_see_what_time_alone_made_visible(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    world.receive(url, timeout=1)
    assert world.counts(url) == (0, 1, 0)
    world.advance(2_000)
    assert world.counts(url) == (1, 0, 0)
    world.crash()
    assert world.counts(url) == (1, 0, 0)


def test_deleted_messages_stay_deleted(world: World) -> None:
    url = world.create()
    for n in range(3):
        world.send(url, f"m{n}")
    messages = world.receive(url, timeout=1)
    world.delete(url, messages[1].receipt_handle)
    world.delete(url, messages[1].receipt_handle)
    world.advance(1_500)
    assert world.counts(url) == (2, 0, 0)
    assert bodies(world.receive(url)) == ["m0", "m2"]


def test_an_expired_handle_still_deletes_and_still_hides(world: World) -> None:
    # sqs-contract 5.4, standard queues.
    url = world.create()
    world.send(url, "A")
    world.send(url, "B")
    a, b = world.receive(url, timeout=1)
    world.advance(1_500)
    world.delete(url, a.receipt_handle)
    world.change(url, b.receipt_handle, 10)
    assert world.receive(url) == []
    assert world.counts(url) == (0, 1, 0)


def test_visibility_zero_returns_the_message_at_once(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    (a,) = world.receive(url)
    world.change(url, a.receipt_handle, 0)
    (again,) = world.receive(url)
    assert again.body == "A"
    assert again.receipt_handle != a.receipt_handle


def test_visibility_of_a_deleted_message_cannot_change(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    (a,) = world.receive(url)
    world.delete(url, a.receipt_handle)
    with pytest.raises(SqsError, match="not available for visibility timeout change"):
        world.change(url, a.receipt_handle, 10)


def test_twelve_hours_are_the_limit_from_the_receive_on(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    (a,) = world.receive(url)
    world.advance(10_000)
    world.change(url, a.receipt_handle, 43_190)
    world.advance(1)
    with pytest.raises(SqsError, match="beyond the limit"):
        world.change(url, a.receipt_handle, 43_190)


def test_of_two_changes_in_one_batch_the_later_holds(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    (a,) = world.receive(url)
    entry = api.ChangeMessageVisibilityBatchRequestEntry
    entries = [entry("1", a.receipt_handle, 100), entry("2", a.receipt_handle, 0)]
    request = api.ChangeMessageVisibilityBatchRequest(url, entries)
    response = world.call("ChangeMessageVisibilityBatch", request)
    assert [success.id for success in response.successful] == ["1", "2"]
    assert bodies(world.receive(url)) == ["A"]


def test_a_batch_reports_each_entry_in_its_place(world: World) -> None:
    url = world.create(MaximumMessageSize="1024")
    entry = api.SendMessageBatchRequestEntry
    entries = [entry("a", "one"), entry("b", "x" * 1025), entry("c", "three", 1)]
    response = world.call("SendMessageBatch", api.SendMessageBatchRequest(url, entries))
    assert [success.id for success in response.successful] == ["a", "c"]
    assert [(f.id, f.code) for f in response.failed] == [("b", "InvalidParameterValue")]
    assert world.counts(url) == (1, 0, 1)


def test_two_entries_may_delete_the_same_message(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    (a,) = world.receive(url)
    entry = api.DeleteMessageBatchRequestEntry
    entries = [entry("1", a.receipt_handle), entry("2", a.receipt_handle), entry("3", "junk")]
    response = world.call("DeleteMessageBatch", api.DeleteMessageBatchRequest(url, entries))
    assert [success.id for success in response.successful] == ["1", "2"]
    assert [(f.id, f.code) for f in response.failed] == [("3", "ReceiptHandleIsInvalid")]
    assert world.counts(url) == (0, 0, 0)


def test_concurrent_deletes_of_one_message_count_once(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    world.send(url, "B")
    a, _ = world.receive(url)
    request = api.DeleteMessageRequest(url, a.receipt_handle)
    calls = [world.begin("DeleteMessage", request) for _ in range(3)]
    assert not any(call.is_done for call in calls)
    world.commit()
    assert all(call.is_done and call.error is None for call in calls)
    assert world.counts(url) == (0, 1, 0)


def test_a_delete_waits_for_the_receive_that_is_being_committed(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    (a,) = world.receive(url, timeout=0)
    receiving = world.begin("ReceiveMessage", api.ReceiveMessageRequest(url))
    deleting = world.begin("DeleteMessage", api.DeleteMessageRequest(url, a.receipt_handle))
    world.commit()
    assert bodies(receiving.result.messages) == ["A"]
    assert deleting.is_done and deleting.error is None
    assert world.counts(url) == (0, 0, 0)


def test_two_receives_at_once_never_share_a_message(world: World) -> None:
    url = world.create()
    for n in range(15):
        world.send(url, f"m{n}")
    request = api.ReceiveMessageRequest(url, max_number_of_messages=10)
    calls = [world.begin("ReceiveMessage", request) for _ in range(3)]
    world.commit()
    received = [bodies(call.result.messages) for call in calls]
    assert received == [[f"m{n}" for n in range(10)], [f"m{n}" for n in range(10, 15)], []]


def test_what_a_failed_receive_took_comes_back_in_order(world: World) -> None:
    url = world.create()
    for n in range(4):
        world.send(url, f"m{n}")
    world.receive(url, limit=1, timeout=0)
    request = api.ReceiveMessageRequest(url, max_number_of_messages=3)
    failing = world.begin("ReceiveMessage", request)
    assert world.group.take_entry() is not None
    world.group.refuse_entry(DiskFull("test"))
    assert isinstance(failing.error, DiskFull)
    assert bodies(world.receive(url)) == ["m0", "m1", "m2", "m3"]


def test_nothing_is_planned_without_leadership(world: World) -> None:
    url = world.create()
    waiting = world.begin("SendMessage", api.SendMessageRequest(url, "A"))
    world.group.change_role("follower", 2)
    assert isinstance(waiting.error, Unavailable)
    with pytest.raises(Unavailable):
        world.send(url, "B")


def test_a_full_disk_refuses_messages_but_not_deletes(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    (a,) = world.receive(url)
    world.group.accepts_messages = False
    with pytest.raises(DiskFull):
        world.send(url, "B")
    world.delete(url, a.receipt_handle)
    world.group.accepts_messages = True
    world.send(url, "C")
    assert bodies(world.receive(url)) == ["C"]


def test_a_purge_removes_everything_and_handles_name_nothing_any_more(world: World) -> None:
    url = world.create()
    for n in range(5):
        world.send(url, f"m{n}")
    world.send(url, "late", delay_seconds=5)
    (first,) = world.receive(url, limit=1)
    world.call("PurgeQueue", api.PurgeQueueRequest(url))
    assert world.counts(url) == (0, 0, 0)
    world.delete(url, first.receipt_handle)
    with pytest.raises(SqsError, match="not available for visibility"):
        world.change(url, first.receipt_handle, 5)
    world.send(url, "after")
    world.advance(10_000)
    assert bodies(world.receive(url)) == ["after"]
    world.crash()
    assert world.counts(url) == (0, 1, 0)


def test_a_send_during_a_purge_waits_for_it_and_stays(world: World) -> None:
    url = world.create()
    world.send(url, "before")
    purging = world.begin("PurgeQueue", api.PurgeQueueRequest(url))
    sending = world.begin("SendMessage", api.SendMessageRequest(url, "after"))
    world.commit()
    assert purging.is_done and sending.is_done
    assert bodies(world.receive(url)) == ["after"]


def test_a_recreated_queue_starts_clean_and_refuses_old_handles(world: World) -> None:
    url = world.create()
    world.send(url, "old")
    (old,) = world.receive(url)
    world.call("DeleteQueue", api.DeleteQueueRequest(url))
    with pytest.raises(SqsError, match="does not exist"):
        world.send(url, "x")
    assert world.create() == url
    assert world.counts(url) == (0, 0, 0)
    with pytest.raises(SqsError, match="not a valid receipt handle"):
        world.delete(url, old.receipt_handle)


def test_handles_of_another_queue_are_refused(world: World) -> None:
    here, there = world.create("here"), world.create("there")
    world.send(here, "A")
    (a,) = world.receive(here)
    with pytest.raises(SqsError, match="not a valid receipt handle"):
        world.delete(there, a.receipt_handle)


def test_messages_past_retention_are_never_delivered(world: World) -> None:
    url = world.create(MessageRetentionPeriod="60")
    world.send(url, "waiting")
    world.send(url, "in flight")
    world.receive(url, limit=1, timeout=10)
    world.advance(60_001)
    world.send(url, "fresh")
    assert bodies(world.receive(url)) == ["fresh"]
    assert world.counts(url) == (0, 1, 0)


def test_creating_a_queue_again_compares_only_what_is_named(world: World) -> None:
    url = world.create(VisibilityTimeout="10")
    assert world.create() == url
    assert world.create(VisibilityTimeout="10", DelaySeconds="0") == url
    with pytest.raises(SqsError, match="different value for attribute VisibilityTimeout"):
        world.create(VisibilityTimeout="11")


def test_concurrent_creates_of_one_name_make_one_queue(world: World) -> None:
    request = api.CreateQueueRequest("q")
    calls = [world.begin("CreateQueue", request) for _ in range(3)]
    world.commit()
    assert [call.result.queue_url for call in calls] == [f"{ENDPOINT}/000000000000/q"] * 3


def test_strict_waiting_rules_hold_only_when_asked_for() -> None:
    world = World(is_strict=True)
    url = world.create()
    world.call("PurgeQueue", api.PurgeQueueRequest(url))
    with pytest.raises(SqsError, match="every 60 seconds"):
        world.call("PurgeQueue", api.PurgeQueueRequest(url))
    world.call("DeleteQueue", api.DeleteQueueRequest(url))
    with pytest.raises(SqsError, match="wait 60 seconds"):
        world.create()
    world.advance(60_000)
    assert world.create() == url


def test_lists_pages_by_prefix_and_account(world: World) -> None:
    for name in ("b2", "a", "b1", "b3", "c"):
        world.create(name)
    world.call("CreateQueue", api.CreateQueueRequest("b4"), "111111111111")
    first = world.call("ListQueues", api.ListQueuesRequest("b", 2))
    assert [url.rsplit("/", 1)[1] for url in first.queue_urls] == ["b1", "b2"]
    second = world.call("ListQueues", api.ListQueuesRequest("b", 2, first.next_token))
    assert [url.rsplit("/", 1)[1] for url in second.queue_urls] == ["b3"]
    assert second.next_token is None
    everything = world.call("ListQueues", api.ListQueuesRequest())
    assert len(everything.queue_urls) == 5 and everything.next_token is None


def test_a_queue_that_leaves_memory_during_a_send_does_not_lose_the_message(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "LIVE_QUEUES_MAX", 2)
    url = world.create("q1")
    others = [world.create(f"other{n}") for n in range(4)]
    assert world.receive(url) == []
    sending = world.begin("SendMessage", api.SendMessageRequest(url, "A"))
    for other in others:
        asked = api.GetQueueAttributesRequest(other, ["QueueArn"])
        assert world.begin("GetQueueAttributes", asked).is_done
    # Read again to its end before the send is committed.
    assert world.begin("ReceiveMessage", api.ReceiveMessageRequest(url)).result.messages == []
    world.commit()
    assert sending.is_done
    assert bodies(world.receive(url)) == ["A"]


def test_memory_holds_a_bounded_number_of_queues(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "LIVE_QUEUES_MAX", 4)
    urls = [world.create(f"q{n}") for n in range(20)]
    for url in urls:
        world.send(url, url)
    assert len(world.service._live) <= 4
    assert not world.service._retired
    for url in urls:
        assert bodies(world.receive(url)) == [url]
