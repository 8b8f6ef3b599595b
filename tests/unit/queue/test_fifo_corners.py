"""Corners of FIFO delivery: limits, long backlogs, calls that meet in one moment."""

import pytest

from fastnode import config
from fastnode.queue import api
from tests.unit.queue.fifo_world import URL, FifoWorld


@pytest.fixture
def world() -> FifoWorld:
    return FifoWorld()


def begin_send(world: FifoWorld, group: str, body: str) -> None:
    request = api.SendMessageRequest(
        URL, body, message_group_id=group, message_deduplication_id=body
    )
    world.begin("SendMessage", request)


# --- limits --------------------------------------------------------------------------------------


def test_a_full_fifo_queue_returns_less_without_an_error(
    world: FifoWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "IN_FLIGHT_MESSAGES_MAX", 2)
    for group in ("g1", "g2", "g3"):
        world.put(group, group)
    (first, _) = world.get(limit=2)
    assert world.got() == []
    world.delete(URL, first.receipt_handle)
    assert world.got(limit=1) == ["g3"]


def test_a_receive_sees_past_a_locked_group_however_long(world: FifoWorld) -> None:
    world.put("locked", *map(str, range(500)))
    assert world.got(limit=1) == ["0"]
    world.put("free", "x")
    assert world.got() == ["x"]


def test_both_windows_last_five_minutes(world: FifoWorld) -> None:
    first = world.put_one("g", "a", "same")
    handles = [message.receipt_handle for message in world.get(timeout=600, attempt="attempt")]
    world.advance(config.DEDUPLICATION_MS - 1)
    assert world.put_one("g", "b", "same").message_id == first.message_id
    again = [message.receipt_handle for message in world.get(timeout=600, attempt="attempt")]
    assert again == handles != []
    world.advance(1)
    assert world.put_one("other", "c", "same").message_id != first.message_id
    assert [message.body for message in world.get(attempt="attempt")] == ["c"]


def test_more_ready_groups_than_are_kept_in_memory(
    world: FifoWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "READY_PAGE", 2)
    world.crash()
    groups = [f"g{number}" for number in range(30)]
    for group in groups:
        world.put(group, group)
    world.crash()
    taken: list[str] = []
    while bodies := world.got(limit=7):
        taken += bodies
    assert taken == groups


def test_one_moment_for_more_groups_than_a_page_holds(
    world: FifoWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "READY_PAGE", 2)
    entries = [
        api.SendMessageBatchRequestEntry(
            str(n), str(n), message_group_id=str(n), message_deduplication_id=str(n)
        )
        for n in range(10)
    ]
    world.call("SendMessageBatch", api.SendMessageBatchRequest(URL, entries))
    world.crash()
    assert world.got() == [str(n) for n in range(10)]


# --- expiry --------------------------------------------------------------------------------------


def test_a_receive_goes_on_behind_many_expired_messages() -> None:
    world = FifoWorld(MessageRetentionPeriod="60")
    world.put("g", *(f"old{n}" for n in range(40)))
    world.advance(60_000)
    world.put("g", "new")
    assert world.got() == ["new"]


def test_deleting_an_expired_message_is_fine_whatever_its_handle_is_worth() -> None:
    world = FifoWorld(MessageRetentionPeriod="60")
    world.put("g", "a")
    (message,) = world.get(timeout=1)
    world.advance(60_000)
    world.delete(URL, message.receipt_handle)
    assert world.counts(URL) == (0, 0, 0)


# --- delays --------------------------------------------------------------------------------------


def test_what_was_received_is_not_delayed_when_the_delay_grows(world: FifoWorld) -> None:
    world.put("g", "in flight")
    world.get(timeout=60)
    world.put("h", "waits")
    change = api.SetQueueAttributesRequest(URL, {"DelaySeconds": "900"})
    world.call("SetQueueAttributes", change)
    assert world.counts(URL) == (0, 1, 1)


def test_a_shorter_delay_wakes_a_poll() -> None:
    world = FifoWorld(DelaySeconds="900")
    world.put("g", "a")
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL, wait_time_seconds=20))
    change = api.SetQueueAttributesRequest(URL, {"DelaySeconds": "0"})
    world.call("SetQueueAttributes", change)
    assert poll.is_done and [message.body for message in poll.result.messages] == ["a"]


# --- calls that meet -----------------------------------------------------------------------------


def test_a_group_that_a_receive_passed_over_is_not_lost(world: FifoWorld) -> None:
    world.put("g", "a")
    (message,) = world.get()
    world.change(URL, message.receipt_handle, 1)
    world.advance(999)
    request = api.ChangeMessageVisibilityRequest(URL, message.receipt_handle, 0)
    change = world.begin("ChangeMessageVisibility", request)
    world.clock.ns += 2_000_000
    passing = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL))
    world.commit()
    assert change.error is None and passing.result.messages == []
    assert world.got() == ["a"]


def test_two_polls_of_one_attempt_may_be_woken_together(world: FifoWorld) -> None:
    """As when a client has given up waiting and tries again with the same id."""
    request = api.ReceiveMessageRequest(
        URL, wait_time_seconds=20, receive_request_attempt_id="attempt"
    )
    polls = [world.begin("ReceiveMessage", request) for _ in range(2)]
    begin_send(world, "g1", "a")
    begin_send(world, "g2", "x")
    world.commit()
    assert all(poll.is_done and poll.error is None for poll in polls)
    received = [message.body for poll in polls for message in poll.result.messages]
    assert sorted(received) == ["a", "x"]


def test_a_failed_receive_wakes_who_waits_for_its_group(world: FifoWorld) -> None:
    world.put("g", "a")
    failing = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL))
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL, wait_time_seconds=20))
    world.refuse()
    assert failing.error is not None and not poll.is_done
    world.advance(1)
    assert poll.is_done and [message.body for message in poll.result.messages] == ["a"]
