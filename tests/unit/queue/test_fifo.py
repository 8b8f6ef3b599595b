"""FIFO delivery: the order of groups and within them, what blocks a group, and what frees it."""

import pytest

from fastnode.queue import api
from fastnode.queue.errors import SqsError
from fastnode.queue.retention import Sweeper
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.world import FakeAlarm


@pytest.fixture
def world() -> FifoWorld:
    return FifoWorld()


# --- the situations of the contract, section 6.2 -------------------------------------------------


def test_all_of_the_first_group_then_the_next(world: FifoWorld) -> None:
    world.put("g1", "a")
    world.put("g2", "x")
    world.put("g1", "b", "c")
    assert world.got() == ["a", "b", "c", "x"]


def test_a_group_with_messages_in_flight_is_blocked(world: FifoWorld) -> None:
    world.put("g1", "a", "b", "c", "d")
    world.put("g2", "x")
    assert world.got(limit=2) == ["a", "b"]
    assert world.got() == ["x"]
    assert world.got() == []


def test_a_new_message_in_a_blocked_group_waits_for_its_predecessors(world: FifoWorld) -> None:
    world.put("g1", "a")
    (a,) = world.get()
    world.put("g1", "b")
    assert world.got() == []
    world.delete(URL, a.receipt_handle)
    assert world.got() == ["b"]


def test_the_group_is_free_when_all_that_was_received_is_deleted(world: FifoWorld) -> None:
    world.put("g1", "a", "b", "c")
    a, b = world.get(limit=2)
    world.delete(URL, a.receipt_handle)
    assert world.got() == []
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL, wait_time_seconds=20))
    assert not poll.is_done
    world.delete(URL, b.receipt_handle)
    assert poll.is_done and [m.body for m in poll.result.messages] == ["c"]


@pytest.mark.parametrize(("extended", "available"), [(0, []), (1, ["a"]), (2, ["a", "b"])])
def test_an_extended_message_blocks_itself_and_its_successors(
    world: FifoWorld, extended: int, available: list[str]
) -> None:
    world.put("g1", "a", "b", "c", "d")
    taken = world.get(limit=3, timeout=10)
    world.change(URL, taken[extended].receipt_handle, 100)
    world.advance(10_001)
    assert world.got() == available


def test_a_head_made_visible_comes_alone_and_after_older_groups(world: FifoWorld) -> None:
    world.put("g1", "a", "b")
    a, _ = world.get()
    world.put("g2", "x")
    world.advance(5)
    world.change(URL, a.receipt_handle, 0)
    assert world.got() == ["x", "a"]


def test_when_all_timeouts_expire_the_order_is_the_original(world: FifoWorld) -> None:
    world.put("g1", "a", "b", "c")
    assert world.got(limit=2, timeout=10) == ["a", "b"]
    world.advance(10_001)
    assert world.got() == ["a", "b", "c"]


def test_timeout_zero_locks_nothing_and_goes_behind_other_groups(world: FifoWorld) -> None:
    world.put("g1", "a")
    world.put("g2", "x")
    assert world.got(limit=1, timeout=0) == ["a"]
    assert world.got(limit=1, timeout=0) == ["x"]
    assert world.got() == ["a", "x"]


def test_an_empty_group_that_gets_a_message_delivers_it(world: FifoWorld) -> None:
    world.put("g1", "a")
    (a,) = world.get()
    world.delete(URL, a.receipt_handle)
    assert world.got() == []
    world.put("g1", "b")
    assert world.got() == ["b"]


def test_two_receives_at_once_never_share_a_group(world: FifoWorld) -> None:
    world.put("g1", "a", "b", "c")
    world.put("g2", "x")
    request = api.ReceiveMessageRequest(URL, max_number_of_messages=2)
    first = world.begin("ReceiveMessage", request)
    second = world.begin("ReceiveMessage", request)
    world.commit()
    assert [m.body for m in first.result.messages] == ["a", "b"]
    assert [m.body for m in second.result.messages] == ["x"]


def test_a_send_while_a_receive_commits_does_not_free_its_group(world: FifoWorld) -> None:
    world.put("g1", "a")
    request = api.ReceiveMessageRequest(URL)
    first = world.begin("ReceiveMessage", request)
    world.begin("SendMessage", api.SendMessageRequest(URL, "b", None, None, None, "d", "g1"))
    second = world.begin("ReceiveMessage", request)
    world.commit()
    assert [m.body for m in first.result.messages] == ["a"]
    assert second.result.messages == [] and world.got() == []


def sweep(world: FifoWorld) -> None:
    sweeper = Sweeper(world.service, FakeAlarm(world))
    sweeper.start()
    world.advance(10_000)
    sweeper.stop()


# --- delay, retention, purge, crash --------------------------------------------------------------


def test_the_queues_delay_holds_each_message_and_its_group() -> None:
    world = FifoWorld(DelaySeconds="5")
    world.put("g1", "a")
    world.advance(3_000)
    world.put("g1", "b")
    world.put("g2", "x")
    assert world.counts(URL) == (0, 0, 3)
    world.advance(2_001)
    assert world.counts(URL) == (1, 0, 2)
    assert world.got() == ["a"]
    world.advance(3_000)
    assert world.got() == ["x"], "b waits behind a, which is in flight"


def test_a_change_of_the_delay_holds_for_messages_that_wait() -> None:
    world = FifoWorld(DelaySeconds="900")
    world.put("g1", "a")
    world.advance(1_000)
    assert world.got() == []
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest(URL, {"DelaySeconds": "1"}))
    assert world.got() == ["a"]


def test_a_poll_wakes_when_the_delay_ends() -> None:
    world = FifoWorld(DelaySeconds="5")
    world.put("g1", "a")
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL, wait_time_seconds=20))
    world.advance(5_001)
    assert poll.is_done and [m.body for m in poll.result.messages] == ["a"]


def test_a_poll_wakes_when_a_timeout_expires(world: FifoWorld) -> None:
    world.put("g1", "a")
    world.get(timeout=5)
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL, wait_time_seconds=20))
    world.advance(5_001)
    assert poll.is_done and [m.body for m in poll.result.messages] == ["a"]


def test_a_poll_wakes_for_a_send(world: FifoWorld) -> None:
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL, wait_time_seconds=20))
    world.put("g1", "a")
    assert poll.is_done and [m.body for m in poll.result.messages] == ["a"]


def test_expiry_inside_a_group_frees_it() -> None:
    world = FifoWorld(MessageRetentionPeriod="60")
    world.put("g1", "a")
    world.get(timeout=600)
    world.advance(30_000)
    world.put("g1", "b")
    world.advance(30_001)
    assert world.got() == [], "the sweeper has not come by yet"
    sweep(world)
    assert world.got() == ["b"]


def test_a_purge_leaves_nothing_and_clears_deduplication(world: FifoWorld) -> None:
    world.put_one("g1", "a", "same")
    world.get()
    world.put_one("g1", "b", "other")
    world.call("PurgeQueue", api.PurgeQueueRequest(URL))
    assert world.counts(URL) == (0, 0, 0) and world.got() == []
    world.put_one("g1", "again", "same")
    assert world.got() == ["again"]


def test_a_crash_changes_nothing(world: FifoWorld) -> None:
    world.put("g1", "a", "b", "c")
    world.put("g2", "x", "y")
    (a,) = world.get(limit=1)
    world.crash()
    assert world.got() == ["x", "y"]
    world.delete(URL, a.receipt_handle)
    world.crash()
    assert world.got() == ["b", "c"]
    assert world.counts(URL) == (0, 4, 0)


def test_counts_include_what_waits_behind_a_locked_group(world: FifoWorld) -> None:
    for group in ("g1", "g2", "g3"):
        world.put(group, "a", "b")
    world.get(limit=2)
    assert world.counts(URL) == (4, 2, 0)


# --- handles -------------------------------------------------------------------------------------


def test_an_expired_handle_deletes_nothing(world: FifoWorld) -> None:
    world.put("g1", "a")
    (a,) = world.get(timeout=1)
    world.advance(1_001)
    with pytest.raises(SqsError, match=r"Reason: The receipt handle has expired\.$"):
        world.delete(URL, a.receipt_handle)
    with pytest.raises(SqsError, match="not available for visibility timeout change"):
        world.change(URL, a.receipt_handle, 10)
    assert world.counts(URL) == (1, 0, 0)


def test_an_extended_handle_deletes_after_the_queues_own_timeout(world: FifoWorld) -> None:
    world.put("g1", "a")
    (a,) = world.get(timeout=1)
    world.change(URL, a.receipt_handle, 60)
    world.advance(30_000)
    world.delete(URL, a.receipt_handle)
    world.delete(URL, a.receipt_handle)
    assert world.counts(URL) == (0, 0, 0)


def test_a_batch_of_deletes_says_which_handles_have_expired(world: FifoWorld) -> None:
    world.put("g1", "a")
    world.put("g2", "x")
    (a,) = world.get(limit=1, timeout=1)
    (x,) = world.get(limit=1, timeout=60)
    world.advance(1_001)
    entries = [
        api.DeleteMessageBatchRequestEntry(name, message.receipt_handle)
        for name, message in (("first", a), ("second", x))
    ]
    answer = world.call("DeleteMessageBatch", api.DeleteMessageBatchRequest(URL, entries))
    assert [entry.id for entry in answer.successful] == ["second"]
    assert [(entry.id, entry.code) for entry in answer.failed] == [
        ("first", "InvalidParameterValue")
    ]


def test_an_older_handle_is_worth_nothing(world: FifoWorld) -> None:
    world.put("g1", "a")
    (old,) = world.get(timeout=0)
    world.get(timeout=60)
    with pytest.raises(SqsError, match="expired"):
        world.delete(URL, old.receipt_handle)


# --- deduplication and numbers -------------------------------------------------------------------


def test_a_duplicate_is_answered_with_the_original(world: FifoWorld) -> None:
    first = world.put_one("g1", "a", "same")
    again = world.put_one("g2", "another body", "same")
    assert (again.message_id, again.sequence_number) == (first.message_id, first.sequence_number)
    assert again.md5_of_message_body != first.md5_of_message_body
    assert world.got() == ["a"]


def test_the_window_is_five_minutes_from_the_first_send(world: FifoWorld) -> None:
    first = world.put_one("g1", "a", "same")
    (a,) = world.get(timeout=600)
    world.delete(URL, a.receipt_handle)
    world.advance(299_999)
    assert world.put_one("g1", "b", "same").message_id == first.message_id
    world.advance(1)
    assert world.put_one("g1", "c", "same").message_id != first.message_id
    assert world.got() == ["c"]


def test_content_decides_where_no_id_is_given() -> None:
    world = FifoWorld(ContentBasedDeduplication="true")
    first = world.put_one("g1", "same")
    assert world.put_one("g1", "same").message_id == first.message_id
    digest = "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5"
    assert world.put_one("g1", "other", digest).message_id == first.message_id
    (message,) = world.get()
    assert message.attributes["MessageDeduplicationId"] == digest


def test_per_group_the_same_id_is_another_message() -> None:
    world = FifoWorld(DeduplicationScope="messageGroup")
    first = world.put_one("g1", "a", "same")
    assert world.put_one("g2", "b", "same").message_id != first.message_id
    assert world.put_one("g1", "c", "same").message_id == first.message_id
    change = api.SetQueueAttributesRequest(URL, {"DeduplicationScope": "queue"})
    world.call("SetQueueAttributes", change)
    assert world.put_one("g3", "d", "same").message_id != first.message_id, "frozen at creation"


def test_a_batch_is_enqueued_in_order_and_knows_its_own_duplicates(world: FifoWorld) -> None:
    bodies = ["a", "b", "a again", "c"]
    entries = [
        api.SendMessageBatchRequestEntry(
            f"e{at}",
            body,
            message_group_id="g",
            message_deduplication_id="d0" if at == 2 else f"d{at}",
        )
        for at, body in enumerate(bodies)
    ]
    answer = world.call("SendMessageBatch", api.SendMessageBatchRequest(URL, entries))
    ids = [entry.message_id for entry in answer.successful]
    assert ids[0] == ids[2] and len(set(ids)) == 3
    numbers = [entry.sequence_number for entry in answer.successful]
    assert numbers[0] < numbers[1] < numbers[3]
    assert all(len(number) == 20 for number in numbers)
    messages = world.get()
    assert [message.body for message in messages] == ["a", "b", "c"]
    assert [m.attributes["SequenceNumber"] for m in messages] == [numbers[n] for n in (0, 1, 3)]


def test_concurrent_duplicates_land_once(world: FifoWorld) -> None:
    request = api.SendMessageRequest(URL, "a", None, None, None, "same", "g1")
    first, second = (world.begin("SendMessage", request) for _ in range(2))
    world.commit()
    assert first.result.message_id == second.result.message_id
    assert world.got() == ["a"]


def test_what_is_remembered_for_five_minutes_goes_afterwards(world: FifoWorld) -> None:
    def rows() -> list[bytes]:
        found = world.engine.scan(b"!sqs|msg|", b"!sqs|n", 10_000)
        return [key for key, _ in found if b"dedup" in key or b"attempt" in key]

    world.put_one("g1", "a", "same")
    world.get(attempt="try")
    assert len(rows()) == 3
    world.advance(290_000)
    sweep(world)
    assert len(rows()) == 3
    world.put_one("g1", "b", "same")
    world.get(timeout=600, attempt="try")
    assert len(rows()) > 3, "the newer rows of the same ids"
    sweep(world)
    assert len(rows()) == 3
    assert world.put_one("g1", "c", "same").message_id != ""
    world.advance(300_000)
    sweep(world)
    assert rows() == []
