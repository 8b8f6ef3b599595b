"""Dead letters between FIFO queues: what a message keeps and what it gets anew, its place in its
group, and crashes on the way.
"""

import json

import pytest

from fastnode.queue import api
from tests.unit.queue.fifo_letters import Letters, message_rows
from tests.unit.queue.test_dead_letters import arn, bodies, policy, set_policy


@pytest.fixture(params=[1, 4], ids=["one group", "four groups"])
def letters(request: pytest.FixtureRequest) -> Letters:
    return Letters(request.param)


def begin_receive(letters: Letters) -> None:
    request = api.ReceiveMessageRequest(letters.source, max_number_of_messages=10)
    letters.world.begin("ReceiveMessage", request)


# --- dead letters --------------------------------------------------------------------------------


def test_what_a_dead_letter_keeps_and_what_it_gets_anew(letters: Letters) -> None:
    (sent,) = letters.send("g", "a")
    (before,) = letters.receive()
    letters.world.advance(5_000)
    assert letters.receive() == []
    (after,) = letters.receive(letters.target)
    assert (after.message_id, after.body) == (sent.message_id, "a")
    old, new = before.attributes, after.attributes
    for kept in ("MessageGroupId", "SenderId", "ApproximateFirstReceiveTimestamp"):
        assert new[kept] == old[kept]
    assert new["ApproximateReceiveCount"] == "2"
    assert new["DeadLetterQueueSourceArn"] == arn(letters.source)
    assert new["MessageDeduplicationId"] == sent.message_id
    assert int(new["SentTimestamp"]) == int(old["SentTimestamp"]) + 5_000
    assert len(new["SequenceNumber"]) == 20 and new["SequenceNumber"] > old["SequenceNumber"]


def test_the_move_frees_the_group_for_what_comes_behind(letters: Letters) -> None:
    letters.send("g", "dead", "alive")
    letters.world.get(limit=1, timeout=0, url=letters.source)
    assert bodies(letters.receive()) == ["alive"]
    assert bodies(letters.receive(letters.target)) == ["dead"]


def test_a_group_moves_in_order_and_stays_in_order(letters: Letters) -> None:
    letters.send("g", "a", "b", "c")
    letters.send("h", "x")
    letters.receive()
    letters.receive()
    messages = letters.receive(letters.target, timeout=600)
    assert bodies(messages) == ["a", "b", "c", "x"]
    numbers = [message.attributes["SequenceNumber"] for message in messages]
    assert numbers == sorted(numbers) and len(set(numbers)) == 4


def test_a_dead_letter_joins_the_end_of_its_group(letters: Letters) -> None:
    letters.world.put("g", "earlier", url=letters.target)
    letters.bury(1)
    letters.send("g", "letter")
    letters.receive()
    letters.receive()
    assert letters.drain(letters.target) == {"g": ["earlier", "letter"], "g0": ["0"]}


def test_a_dead_letter_waits_behind_a_locked_group(letters: Letters) -> None:
    letters.world.put("g", "held", url=letters.target)
    (held,) = letters.receive(letters.target, timeout=60)
    letters.send("g", "letter")
    letters.receive()
    letters.receive()
    assert letters.receive(letters.target) == []
    letters.world.delete(letters.target, held.receipt_handle)
    assert bodies(letters.receive(letters.target)) == ["letter"]


def test_letters_of_equal_deduplication_ids_are_all_kept(letters: Letters) -> None:
    for body in ("first", "second"):
        letters.world.put_one("g", body, "same", letters.source)
        letters.receive()
        letters.receive()
        letters.world.advance(300_000)
    letters.world.put_one("g", "third", "same", letters.target)
    assert letters.drain(letters.target) == {"g": ["first", "second", "third"]}


def test_the_source_remembers_the_id_of_what_has_moved(letters: Letters) -> None:
    first = letters.world.put_one("g", "a", "same", letters.source)
    letters.receive()
    letters.receive()
    again = letters.world.put_one("g", "a", "same", letters.source)
    assert again.message_id == first.message_id
    assert letters.receive() == []


def test_a_dead_letter_is_available_at_once_whatever_the_delay(letters: Letters) -> None:
    delayed = {"DelaySeconds": "900"}
    request = api.SetQueueAttributesRequest(letters.target, delayed)
    letters.world.call("SetQueueAttributes", request)
    letters.send("g", "a")
    letters.receive()
    letters.receive()
    assert letters.world.counts(letters.target) == (1, 0, 0)
    (after,) = letters.receive(letters.target, timeout=60)
    assert letters.world.counts(letters.target) == (0, 1, 0)
    letters.world.delete(letters.target, after.receipt_handle)
    assert letters.world.counts(letters.target) == (0, 0, 0)


def test_a_long_poll_on_the_dead_letter_queue_wakes(letters: Letters) -> None:
    letters.send("g", "a")
    letters.receive()
    request = api.ReceiveMessageRequest(letters.target, wait_time_seconds=20)
    poll = letters.world.begin("ReceiveMessage", request)
    letters.world.commit()
    assert not poll.is_done
    letters.receive()
    assert poll.is_done and bodies(poll.result.messages) == ["a"]


def test_a_dead_letter_is_changed_and_deleted_by_its_handle(letters: Letters) -> None:
    letters.bury(1)
    world, target = letters.world, letters.target
    (letter,) = letters.receive(target, timeout=30)
    world.crash()
    world.change(target, letter.receipt_handle, 60)
    world.advance(45_000)
    world.delete(target, letter.receipt_handle)
    world.delete(target, letter.receipt_handle)
    assert world.counts(target) == (0, 0, 0)
    assert message_rows(world, target) == []


def test_retention_of_a_dead_letter_begins_at_the_move(letters: Letters) -> None:
    short = api.SetQueueAttributesRequest(letters.target, {"MessageRetentionPeriod": "60"})
    letters.world.call("SetQueueAttributes", short)
    letters.send("g", "a")
    letters.receive()
    letters.world.advance(3_600_000)
    letters.receive()
    letters.world.advance(59_000)
    assert bodies(letters.receive(letters.target)) == ["a"]
    letters.world.advance(1_001)
    assert letters.receive(letters.target) == []


def test_letters_pass_along_a_chain(letters: Letters) -> None:
    set_policy(letters.world, letters.target, policy(letters.other))
    (sent,) = letters.send("g", "a")
    for name in (letters.source, letters.source, letters.target, letters.target):
        letters.receive(name)
    (after,) = letters.receive(letters.other)
    assert after.message_id == sent.message_id
    assert after.attributes["ApproximateReceiveCount"] == "3"
    assert after.attributes["DeadLetterQueueSourceArn"] == arn(letters.target)


def test_a_queue_that_is_its_own_dead_letter_queue_puts_letters_behind_their_group() -> None:
    letters = Letters(1)
    set_policy(letters.world, letters.source, policy(letters.source))
    letters.send("g", "a", "b")
    letters.world.get(limit=1, timeout=0, url=letters.source)
    (b,) = letters.receive(timeout=600)
    letters.world.delete(letters.source, b.receipt_handle)
    (a,) = letters.receive()
    assert (b.body, a.body, a.attributes["ApproximateReceiveCount"]) == ("b", "a", "2")


def test_a_forbidding_target_leaves_the_group_as_it_is(letters: Letters) -> None:
    letters.send("g", "a", "b")
    letters.world.get(limit=1, timeout=0, url=letters.source)
    refusal = {"RedriveAllowPolicy": json.dumps({"redrivePermission": "denyAll"})}
    letters.world.call("SetQueueAttributes", api.SetQueueAttributesRequest(letters.target, refusal))
    assert bodies(letters.receive()) == ["a", "b"]


# --- letters that come back ----------------------------------------------------------------------


def on_the_way_to_a_deleted_queue() -> Letters:
    """Two letters and the deletion of their queue are planned; neither is committed."""
    letters = Letters(4)
    letters.send("g", "a", "b", "c")
    letters.world.get(limit=2, timeout=0, url=letters.source)
    begin_receive(letters)
    letters.world.begin("DeleteQueue", api.DeleteQueueRequest(letters.target))
    return letters


@pytest.mark.parametrize("crash_after", [None, 1, 2, 3])
def test_refused_letters_are_back_in_their_place(crash_after: int | None) -> None:
    letters = on_the_way_to_a_deleted_queue()
    world, source = letters.world, letters.source
    if crash_after is not None:
        for _ in range(crash_after):
            world.step()
        world.crash()
    world.commit()
    assert world.counts(source) == (2, 1, 0), "the first receive took what was behind them"
    messages = letters.receive(timeout=10)
    assert bodies(messages) == ["a", "b"]
    numbers = [message.attributes["SequenceNumber"] for message in messages]
    assert [message.attributes["ApproximateReceiveCount"] for message in messages] == ["2", "2"]
    world.advance(60_000)
    again = letters.receive(timeout=0)
    assert bodies(again) == ["a", "b", "c"]
    assert [message.attributes["SequenceNumber"] for message in again][:2] == numbers


def test_a_full_log_leaves_letters_for_later() -> None:
    letters = Letters(4)
    letters.send("g", "a", "b")
    letters.receive()
    begin_receive(letters)
    letters.world.step()
    letters.world.refuse()
    assert letters.world.counts(letters.target) == (0, 0, 0)
    letters.world.advance(1_000)
    assert letters.drain(letters.target) == {"g": ["a", "b"]}


@pytest.mark.parametrize("steps", range(6))
def test_a_crash_at_any_step_keeps_order_and_loses_nothing(steps: int) -> None:
    letters = Letters(4)
    letters.send("g", "a", "b", "c")
    letters.send("h", "x", "y")
    letters.receive()
    begin_receive(letters)
    for _ in range(steps):
        letters.world.step()
    letters.world.crash()
    letters.world.commit()
    letters.receive()
    assert letters.world.counts(letters.source) == (0, 0, 0)
    assert letters.drain(letters.target) == {"g": ["a", "b", "c"], "h": ["x", "y"]}
    assert message_rows(letters.world, letters.target) == []
