"""Deletes and changes of visibility that a client repeats: what they did is not done again, though
somebody else may have the message by now.
"""

from typing import Any

import pytest

from fastnode.queue import api
from tests.unit.queue.repeats_front import RepeatsFront, url_of

FIFO = {"MessageGroupId": "g"}
NAMES = ["q", "ordered.fifo", "parts.fifo"]
EVERY_QUEUE = pytest.mark.parametrize("name", NAMES)


def filled(name: str, count: int = 3) -> tuple[RepeatsFront, list[str]]:
    """A queue whose messages were all received, and the handles."""
    front = RepeatsFront(groups=2)
    ids = FIFO if name.endswith(".fifo") else {}
    for number in range(count):
        members = {"QueueUrl": url_of(name), "MessageBody": f"m{number}", **ids}
        assert front.ask("SendMessage", members, invocation=None).status == 200
    messages = front.world.receive(url_of(name))
    assert len(messages) == count
    return front, [message.receipt_handle for message in messages]


def delete(name: str, handles: list[str]) -> tuple[str, dict[str, Any]]:
    return "DeleteMessage", {"QueueUrl": url_of(name), "ReceiptHandle": handles[0]}


def delete_batch(name: str, handles: list[str]) -> tuple[str, dict[str, Any]]:
    entries = [{"Id": f"e{n}", "ReceiptHandle": handle} for n, handle in enumerate(handles)]
    return "DeleteMessageBatch", {"QueueUrl": url_of(name), "Entries": entries}


def change(name: str, handles: list[str], seconds: int = 0) -> tuple[str, dict[str, Any]]:
    members = {"ReceiptHandle": handles[0], "VisibilityTimeout": seconds}
    return "ChangeMessageVisibility", {"QueueUrl": url_of(name), **members}


def change_batch(name: str, handles: list[str], seconds: int = 0) -> tuple[str, dict[str, Any]]:
    entries = [
        {"Id": f"e{n}", "ReceiptHandle": handle, "VisibilityTimeout": seconds}
        for n, handle in enumerate(handles)
    ]
    return "ChangeMessageVisibilityBatch", {"QueueUrl": url_of(name), "Entries": entries}


CALLS = {each.__name__: each for each in (delete, delete_batch, change, change_batch)}
EVERY_CALL = pytest.mark.parametrize("make", CALLS.values(), ids=CALLS)


@EVERY_QUEUE
@EVERY_CALL
def test_a_repeated_call_gets_the_first_answer_and_writes_nothing(name: str, make: Any) -> None:
    front, handles = filled(name)
    call = make(name, handles)
    first = front.ask(*call)
    assert first.status == 200 and b"Failed" not in first.body.replace(b'"Failed":[]', b"")
    rows = front.rows()
    front.world.advance(1_000)
    assert front.again(*call) == first
    assert front.rows() == rows


@EVERY_QUEUE
@pytest.mark.parametrize("make", [change, change_batch], ids=["single", "batch"])
def test_a_change_is_not_made_again_when_somebody_else_has_the_message(
    name: str, make: Any
) -> None:
    front, handles = filled(name)
    call = make(name, handles)
    first = front.ask(*call)
    front.world.advance(1)
    taken = front.world.receive(url_of(name), timeout=600)
    assert taken, "it is visible again"
    rows = front.rows()
    assert front.again(*call) == first
    assert front.rows() == rows
    front.world.advance(60_000)
    again = front.world.receive(url_of(name))
    assert not {one.message_id for one in again} & {one.message_id for one in taken}


def test_an_old_handle_would_take_the_message_from_its_new_owner_otherwise() -> None:
    """What the last test is about: as another call, the change is made."""
    front, handles = filled("q", 1)
    front.ask(*change("q", handles))
    front.world.advance(1)
    (taken,) = front.world.receive(url_of("q"), timeout=600)
    front.ask(*change("q", handles), invocation="another")
    front.world.advance(1)
    (again,) = front.world.receive(url_of("q"))
    assert again.message_id == taken.message_id


@EVERY_QUEUE
@EVERY_CALL
def test_it_is_known_after_purge_and_restart(name: str, make: Any) -> None:
    front, handles = filled(name)
    call = make(name, handles)
    first = front.ask(*call)
    front.world.call("PurgeQueue", api.PurgeQueueRequest(url_of(name)))
    front.restart()
    rows = front.rows()
    assert front.again(*call) == first
    assert front.rows() == rows


@pytest.mark.parametrize("name", ["q", "ordered.fifo"])
@EVERY_CALL
def test_it_is_known_when_the_queue_is_gone_or_another(name: str, make: Any) -> None:
    front, handles = filled(name)
    call = make(name, handles)
    first = front.ask(*call)
    front.world.call("DeleteQueue", api.DeleteQueueRequest(url_of(name)))
    assert front.again(*call) == first
    front.world.advance(61_000)
    front.world.create(name, **({"FifoQueue": "true"} if name.endswith(".fifo") else {}))
    assert front.again(*call, attempt=3) == first


@EVERY_CALL
def test_it_is_not_charged_again(make: Any) -> None:
    front, handles = filled("q")
    limits = {"ThrottleRecvCapacity": "10", "ThrottleRecvRefillPerSecond": "0.001"}
    front.set_attributes("q", **limits)
    call = make("q", handles)
    first = front.ask(*call)
    assert [front.again(*call, attempt=attempt) for attempt in range(2, 20)] == [first] * 18


@EVERY_QUEUE
@EVERY_CALL
def test_attempts_at_the_same_time_are_one(name: str, make: Any) -> None:
    front, handles = filled(name)
    call = make(name, handles)
    asked = [front.begin(*call, attempt=attempt) for attempt in (1, 2)]
    front.world.commit()
    first, second = (one.answer for one in asked)
    assert first.status == 200 and second == first


# --- batches that landed in part -----------------------------------------------------------------


@EVERY_QUEUE
@pytest.mark.parametrize("make", [delete_batch, change_batch], ids=["delete", "change"])
def test_entries_that_failed_fail_again(name: str, make: Any) -> None:
    front, handles = filled(name)
    call = make(name, ["nonsense", *handles])
    first = front.ask(*call).json
    assert [one["Id"] for one in first["Successful"]] == ["e1", "e2", "e3"]
    assert [one["Id"] for one in first["Failed"]] == ["e0"]
    again = front.again(*call).json
    assert again["Successful"] == first["Successful"]
    assert [one["Id"] for one in again["Failed"]] == ["e0"]


def test_the_mask_says_which_changes_were_made_whatever_the_handles_say_now() -> None:
    """The second message was gone when the batch was carried out, the first is gone now."""
    front, handles = filled("q")
    front.world.delete(url_of("q"), handles[1])
    call = change_batch("q", handles, 60)
    first = front.ask(*call).json
    assert [one["Id"] for one in first["Failed"]] == ["e1"]
    front.world.delete(url_of("q"), handles[0])
    again = front.again(*call).json
    assert again["Successful"] == first["Successful"]
    assert [(one["Id"], one["Code"]) for one in again["Failed"]] == [("e1", "InternalError")]
    new = front.ask(*call, invocation="new").json
    assert [one["Id"] for one in new["Failed"]] == ["e0", "e1"]


@pytest.mark.parametrize("name", ["ordered.fifo", "parts.fifo"])
def test_a_handle_that_had_ended_fails_again_beside_one_that_had_not(name: str) -> None:
    front, old = filled(name)
    front.world.advance(31_000)
    new = [message.receipt_handle for message in front.world.receive(url_of(name))]
    call = delete_batch(name, [new[0], old[1]])
    first = front.ask(*call).json
    assert [one["Id"] for one in first["Successful"]] == ["e0"]
    assert [one["Id"] for one in first["Failed"]] == ["e1"]
    again = front.again(*call).json
    assert again["Successful"] == first["Successful"]
    assert [one["Id"] for one in again["Failed"]] == ["e1"]
    assert sum(front.counts(name)) == 2


def test_what_was_gone_already_counts_as_deleted_by_the_batch() -> None:
    front, handles = filled("q")
    front.world.delete(url_of("q"), handles[1])
    call = delete_batch("q", handles)
    first = front.ask(*call)
    assert len(first.json["Successful"]) == 3
    assert front.again(*call) == first


def test_a_delete_that_found_nothing_left_leaves_nothing_behind() -> None:
    front, handles = filled("q", 1)
    front.world.delete(url_of("q"), handles[0])
    rows = front.rows()
    assert front.ask(*delete("q", handles)) == front.again(*delete("q", handles))
    assert front.rows() == rows


@EVERY_QUEUE
def test_with_the_gate_closed_a_change_is_made_again(name: str) -> None:
    front, handles = filled(name, 1)
    front.world.service.gates.recognises_retries = False
    front.ask(*change(name, handles, 60))
    rows = front.rows()
    front.world.advance(1_000)
    front.again(*change(name, handles, 60))
    assert front.rows() != rows
