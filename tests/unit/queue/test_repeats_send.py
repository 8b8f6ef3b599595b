"""Sends that a client repeats: the first answer again, nothing written, whatever has happened."""

from typing import Any

import pytest

from fastnode.queue import api
from tests.unit.queue.repeats_front import RepeatsFront, url_of

ATTRIBUTES = {
    "MessageAttributes": {
        "kind": {"DataType": "String", "StringValue": "order"},
        "weight": {"DataType": "Number", "StringValue": "7.5"},
        "photo": {"DataType": "Binary", "BinaryValue": "AAEC"},
    },
    "MessageSystemAttributes": {
        "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-2-3"}
    },
}
# What a message says besides its body; by name, with the queue it goes to.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("q", {}),
    "attributes": ("q", ATTRIBUTES),
    "delayed": ("q", {"DelaySeconds": 5}),
    "tenant": ("q", {"MessageGroupId": "tenant"}),
    "fifo": ("ordered.fifo", {"MessageGroupId": "g"}),
    "fifo attributes": ("ordered.fifo", {"MessageGroupId": "g", **ATTRIBUTES}),
    "partitioned": ("parts.fifo", {"MessageGroupId": "g", "MessageDeduplicationId": "d"}),
}
SHORT = {"plain", "fifo", "partitioned"}
WAYS = pytest.mark.parametrize("uses_lane", [True, False], ids=["short", "general"])


def single(kind: str) -> tuple[str, dict[str, Any]]:
    name, members = KINDS[kind]
    return "SendMessage", {"QueueUrl": url_of(name), "MessageBody": "one" * 500, **members}


def batch(kind: str) -> tuple[str, dict[str, Any]]:
    name, members = KINDS[kind]
    entries = [{"Id": f"e{n}", "MessageBody": f"body {n}" * 300, **members} for n in range(3)]
    for number, entry in enumerate(entries if "MessageDeduplicationId" in members else ()):
        entry |= {"MessageDeduplicationId": f"d{number}", "MessageGroupId": f"g{number}"}
    return "SendMessageBatch", {"QueueUrl": url_of(name), "Entries": entries}


def name_in(members: dict[str, Any]) -> str:
    return str(members["QueueUrl"]).rpartition("/")[2]


CALLS = {f"single {kind}": single(kind) for kind in KINDS}
CALLS |= {f"batch {kind}": batch(kind) for kind in KINDS}
EVERY_CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
# All but those to partitions, which are found by way of their queue.
HOME_CALLS = {name: call for name, call in CALLS.items() if "partitioned" not in name}
EVERY_HOME_CALL = pytest.mark.parametrize("call", HOME_CALLS.values(), ids=HOME_CALLS)


@WAYS
@EVERY_CALL
def test_a_repeated_send_gets_the_first_answer_and_writes_nothing(
    call: tuple[str, dict[str, Any]], uses_lane: bool
) -> None:
    front = RepeatsFront(uses_lane=uses_lane, groups=2)
    first = front.ask(*call)
    assert first.status == 200
    rows, counts = front.rows(), front.counts(name_in(call[1]))
    for attempt in (2, 3):
        assert front.again(*call, attempt=attempt) == first
    assert front.rows() == rows
    assert front.counts(name_in(call[1])) == counts
    assert sum(counts) == len(call[1].get("Entries", "1"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_short_way_takes_first_attempts_and_leaves_repeated_ones(kind: str) -> None:
    front = RepeatsFront()
    call = single(kind)
    front.ask(*call)
    assert front.lane_uses == (kind in SHORT)
    front.again(*call)
    assert front.lane_uses == (kind in SHORT)


@EVERY_CALL
def test_the_ids_of_the_answer_are_those_that_are_stored(call: tuple[str, dict[str, Any]]) -> None:
    front = RepeatsFront(groups=2)
    front.ask(*call)
    answer = front.again(*call).json
    front.world.advance(6_000)
    told = {one["MessageId"] for one in answer.get("Successful", [answer])}
    request = api.ReceiveMessageRequest(url_of(name_in(call[1])), max_number_of_messages=10)
    stored = front.world.call("ReceiveMessage", request).messages
    while more := front.world.call("ReceiveMessage", request).messages:
        stored += more
    assert {message.message_id for message in stored} == told


def test_a_fifo_send_gets_its_sequence_number_again() -> None:
    front = RepeatsFront()
    first = front.ask(*single("fifo")).json
    front.ask(*single("fifo"), invocation="another")
    again = front.again(*single("fifo")).json
    assert again["SequenceNumber"] == first["SequenceNumber"]
    assert len(first["SequenceNumber"]) == 20


# --- between the attempts ------------------------------------------------------------------------


def receive(front: RepeatsFront, name: str) -> None:
    front.world.advance(6_000)
    assert front.world.receive(url_of(name))


def delete(front: RepeatsFront, name: str) -> None:
    front.world.advance(6_000)
    while messages := front.world.receive(url_of(name)):
        for message in messages:
            front.world.delete(url_of(name), message.receipt_handle)


def purge(front: RepeatsFront, name: str) -> None:
    front.world.call("PurgeQueue", api.PurgeQueueRequest(url_of(name)))


def remove(front: RepeatsFront, name: str) -> None:
    front.world.call("DeleteQueue", api.DeleteQueueRequest(url_of(name)))


def recreate(front: RepeatsFront, name: str) -> None:
    remove(front, name)
    front.world.advance(61_000)
    front.world.create(name, **({"FifoQueue": "true"} if name.endswith(".fifo") else {}))


def tighten(front: RepeatsFront, name: str) -> None:
    """Nothing of what was sent would be taken today."""
    is_fifo = {"ContentBasedDeduplication": "false"} if name.endswith(".fifo") else {}
    front.set_attributes(name, MaximumMessageSize="1024", **is_fifo)


def throttle(front: RepeatsFront, name: str) -> None:
    front.set_attributes(name, ThrottleSendCapacity="10", ThrottleSendRefillPerSecond="0.001")
    fifo = {"MessageGroupId": "other"} if name.endswith(".fifo") else {}
    entries = [{"Id": f"t{n}", "MessageBody": f"t{n}", **fifo} for n in range(10)]
    spent = {"QueueUrl": url_of(name), "Entries": entries}
    assert front.ask("SendMessageBatch", spent, invocation=None).status == 200


def fill_disk(front: RepeatsFront, _name: str) -> None:
    for group in front.world.groups:
        group.accepts_messages = False


def slow_down(front: RepeatsFront, name: str) -> None:
    """What is sent from now on is hidden for longer."""
    front.set_attributes(name, DelaySeconds="900")


def retain(front: RepeatsFront, name: str) -> None:
    """All is over for what was sent, as far as it still counts."""
    front.set_attributes(name, MessageRetentionPeriod="60")
    front.world.advance(61_000)


MEDDLING = {
    each.__name__: each
    for each in (
        *(receive, delete, purge, remove, recreate, slow_down, retain),
        *(tighten, throttle, fill_disk),
    )
}
REFUSES = {"remove", "tighten", "throttle", "fill_disk"}


@pytest.mark.parametrize("meddling", MEDDLING)
@EVERY_HOME_CALL
def test_whatever_has_become_of_queue_and_message_the_answer_is_the_first_one(
    call: tuple[str, dict[str, Any]], meddling: str
) -> None:
    front = RepeatsFront(groups=2)
    first = front.ask(*call)
    assert first.status == 200
    MEDDLING[meddling](front, name_in(call[1]))
    if meddling in REFUSES:
        refused = front.ask(*call, invocation="another")
        assert refused.status != 200 or refused.json["Failed"], "a new call is refused"
    rows = front.rows()
    assert front.again(*call) == first
    assert front.rows() == rows


@pytest.mark.parametrize("call", [single("partitioned"), batch("partitioned")], ids=["one", "many"])
@pytest.mark.parametrize(
    "meddling", [each for each in MEDDLING if each not in {"remove", "recreate"}]
)
def test_partitions_know_their_calls_as_long_as_their_queue_is_there(
    call: tuple[str, dict[str, Any]], meddling: str
) -> None:
    front = RepeatsFront(groups=2)
    first = front.ask(*call)
    assert first.status == 200
    MEDDLING[meddling](front, "parts.fifo")
    rows = front.rows()
    assert front.again(*call) == first
    assert front.rows() == rows


def test_calls_to_the_partitions_of_a_deleted_queue_are_found() -> None:
    front = RepeatsFront(groups=2)
    call = single("partitioned")
    first = front.ask(*call)
    remove(front, "parts.fifo")
    late = front.again(*call)
    assert (first.status, late.status) == (200, 200) and late.json == first.json


def test_a_received_message_stays_in_flight_and_a_deleted_one_gone() -> None:
    front = RepeatsFront()
    front.ask(*single("plain"))
    (message,) = front.world.receive(url_of("q"))
    front.again(*single("plain"))
    assert front.counts() == (0, 1, 0)
    front.world.delete(url_of("q"), message.receipt_handle)
    front.again(*single("plain"))
    assert front.counts() == (0, 0, 0)
    assert front.bodies() == []


def test_a_repeated_send_is_not_charged() -> None:
    front = RepeatsFront()
    front.set_attributes("q", ThrottleSendCapacity="10", ThrottleSendRefillPerSecond="0.001")
    front.ask(*single("plain"))
    for attempt in range(2, 20):
        assert front.again(*single("plain"), attempt=attempt).status == 200
    more = [front.ask(*single("plain"), invocation=f"more {n}").status for n in range(10)]
    assert more == [200] * 9 + [403]


# --- batches that landed in part -----------------------------------------------------------------


def sizes(name: str, *lengths: int) -> tuple[str, dict[str, Any]]:
    group = {"MessageGroupId": "g"} if name.endswith(".fifo") else {}
    entries = [
        {"Id": f"e{n}", "MessageBody": f"{n}" * length, **group} for n, length in enumerate(lengths)
    ]
    return "SendMessageBatch", {"QueueUrl": url_of(name), "Entries": entries}


def test_entries_that_failed_fail_again_when_the_limits_that_they_met_are_raised() -> None:
    front, name = RepeatsFront(), "q"
    front.set_attributes(name, MaximumMessageSize="1024")
    call = sizes(name, 10, 2_000, 20)
    first = front.ask(*call).json
    assert [one["Id"] for one in first["Successful"]] == ["e0", "e2"]
    assert [one["Id"] for one in first["Failed"]] == ["e1"]
    front.set_attributes(name, MaximumMessageSize="4096")
    again = front.again(*call).json
    assert again["Successful"] == first["Successful"]
    (failed,) = again["Failed"]
    assert (failed["Id"], failed["SenderFault"], failed["Code"]) == (
        "e1",
        False,
        "InternalError",
    )
    assert sum(front.counts(name)) == 2
    assert [one["Id"] for one in front.ask(*call, invocation="new").json["Successful"]] == [
        "e0",
        "e1",
        "e2",
    ]


@pytest.mark.parametrize("name", ["ordered.fifo", "parts.fifo"])
def test_entries_that_a_fifo_queue_refused_are_refused_again(name: str) -> None:
    front = RepeatsFront(groups=2)
    call = sizes(name, 10, 20, 30)
    call[1]["Entries"][1]["MessageBody"] = "not a \x00 text"
    first = front.ask(*call).json
    assert [one["Id"] for one in first["Failed"]] == ["e1"]
    again = front.again(*call).json
    assert again["Successful"] == first["Successful"]
    assert [one["Id"] for one in again["Failed"]] == ["e1"]
    assert sum(front.counts(name)) == 2


def test_a_batch_of_which_nothing_landed_is_judged_anew() -> None:
    front = RepeatsFront()
    front.set_attributes("q", MaximumMessageSize="1024")
    call = sizes("q", 2_000, 3_000)
    assert len(front.ask(*call).json["Failed"]) == 2
    front.set_attributes("q", MaximumMessageSize="4096")
    assert len(front.again(*call).json["Successful"]) == 2
    assert front.counts() == (2, 0, 0)


@pytest.mark.parametrize("name", ["ordered.fifo", "parts.fifo"])
def test_an_entry_that_was_a_duplicate_of_an_older_message_is_told_that_one_again(
    name: str,
) -> None:
    front = RepeatsFront(groups=2)
    old = front.ask(*sizes(name, 1), invocation="old").json["Successful"][0]
    call = sizes(name, 1, 2)
    first = front.ask(*call)
    assert first.json["Successful"][0]["MessageId"] == old["MessageId"]
    rows = front.rows()
    assert front.again(*call) == first
    assert front.rows() == rows
    assert sum(front.counts(name)) == 2


@pytest.mark.parametrize("name", ["ordered.fifo", "parts.fifo"])
def test_two_equal_entries_of_a_batch_are_told_the_same_message_again(name: str) -> None:
    front = RepeatsFront(groups=2)
    call = sizes(name, 1)
    call[1]["Entries"].append(call[1]["Entries"][0] | {"Id": "twin"})
    first = front.ask(*call)
    assert len({one["MessageId"] for one in first.json["Successful"]}) == 1
    assert front.again(*call) == first
    assert sum(front.counts(name)) == 1
