"""The contract, section 7: batches."""

from typing import Any

import pytest

from tests.conformance import kinds
from tests.conformance.client import Client
from tests.conformance.contract import covers
from tests.conformance.kinds import INVALID_PARAMETER, MISSING_PARAMETER
from tests.conformance.kit import (
    Refusal,
    bodies,
    counts,
    delete,
    each_refusal,
    new_queue,
    receive,
    send,
    sent_and_received,
    text_attribute,
)
from tests.conformance.texts import (
    CHARACTERS_TEXT,
    GARBAGE_TEXT,
    NOT_FOR_TYPE,
    deleted_text,
    missing_text,
    value_text,
)

ACTIONS = ("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")
ID_TEXT = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
    "It can be at most 80 letters long."
)
MIB = 1_048_576
Entry = dict[str, Any]


def entry(action: str, identity: str, **members: Any) -> Entry:
    handle = {"ReceiptHandle": "garbage"}
    plain: dict[str, Entry] = {
        "SendMessageBatch": {"MessageBody": "x"},
        "DeleteMessageBatch": handle,
        "ChangeMessageVisibilityBatch": handle | {"VisibilityTimeout": 1},
    }
    return {"Id": identity} | plain[action] | members


def entries(action: str, *ids: str) -> list[Entry]:
    return [entry(action, identity) for identity in ids]


def bad_ids(rows: str, action: str, kind: kinds.Kind, text: str, *ids: str) -> Refusal:
    return Refusal(rows, action, {"Entries": entries(action, *ids)}, kind, text)


def too_long(rows: str, total: int, *sizes: int, **queue: str) -> Refusal:
    sent = [
        entry("SendMessageBatch", str(number), MessageBody="x" * size)
        for number, size in enumerate(sizes)
    ]
    text = f"Batch requests cannot be longer than 1048576 bytes. You have sent {total} bytes."
    members = {"Entries": sent}
    return Refusal(rows, "SendMessageBatch", members, kinds.BATCH_TOO_LONG, text, queue=queue)


def empty_text(action: str) -> str:
    return f"There should be at least one {action}RequestEntry in the request."


REFUSALS = [
    *(
        Refusal(
            "7.1.empty 0.2.batch-entries 1.6.batch-errors",
            action,
            {"Entries": []},
            kinds.EMPTY_BATCH,
            empty_text(action),
        )
        for action in ACTIONS
    ),
    *(
        Refusal("7.1.missing", action, {}, MISSING_PARAMETER, missing_text("Entries"), only="json")
        for action in ACTIONS
    ),
    *(
        Refusal("7.1.missing", action, {}, kinds.EMPTY_BATCH, empty_text(action), only="query")
        for action in ACTIONS
    ),
    *(
        bad_ids(
            "7.1.many 0.2.batch-entries 1.6.batch-errors",
            action,
            kinds.TOO_MANY_ENTRIES,
            "Maximum number of entries per request are 10. You have sent 11.",
            *(str(number) for number in range(11)),
        )
        for action in ACTIONS
    ),
    *(
        bad_ids(
            "7.1.bad-id 0.2.batch-entry-id 1.6.batch-errors",
            action,
            kinds.ENTRY_ID,
            ID_TEXT,
            "ok",
            bad,
        )
        for action in ACTIONS
        for bad in ("", "i" * 81, "a b", "a.b", "\u00e9")
    ),
    *(
        bad_ids(
            "7.1.repeated-id 1.6.batch-errors",
            action,
            kinds.IDS_NOT_DISTINCT,
            "Id 2 repeated.",
            *("1", "2", "2", "1"),
        )
        for action in ACTIONS
    ),
    too_long("7.1.too-long 0.2.batch-size 1.6.batch-errors", MIB + 1, MIB // 2, MIB // 2 + 1),
    too_long("7.1.too-long", MIB + 1, MIB, 1, MaximumMessageSize="1024"),
    too_long("7.1.too-long-one", MIB + 1, MIB + 1),
    bad_ids(
        "7.1.order",
        "SendMessageBatch",
        kinds.TOO_MANY_ENTRIES,
        "Maximum number of entries per request are 10. You have sent 11.",
        *["bad id"] * 11,
    ),
    bad_ids("7.1.order", "SendMessageBatch", kinds.ENTRY_ID, ID_TEXT, "a", "a", "bad id"),
    Refusal(
        "7.1.order",
        "SendMessageBatch",
        {"Entries": [entry("SendMessageBatch", "a", MessageBody="x" * MIB)] * 2},
        kinds.IDS_NOT_DISTINCT,
        "Id a repeated.",
    ),
]


@each_refusal(REFUSALS)
def test_refused(sqs: Client, refusal: Refusal) -> None:
    refusal.check(sqs)


@covers("7.1.too-long-attributes")
def test_attributes_count_in_the_total(sqs: Client, queue: str) -> None:
    half, attribute = MIB // 2, {"k": text_attribute("x")}
    size = len("k" + "String" + "x")
    fits = entry(
        "SendMessageBatch", "a", MessageBody="x" * (half - size), MessageAttributes=attribute
    )
    over = fits | {"Id": "b", "MessageBody": "x" * (half - size + 1)}
    sent = sqs.call("SendMessageBatch", QueueUrl=queue, Entries=[fits, fits | {"Id": "b"}])
    assert len(sent["Successful"]) == 2
    text = f"Batch requests cannot be longer than {MIB} bytes. You have sent {MIB + 1} bytes."
    refusal = sqs.refused("SendMessageBatch", QueueUrl=queue, Entries=[fits, over])
    refusal.assert_is(kinds.BATCH_TOO_LONG, text)


@covers("7.1.nothing-applied")
def test_nothing_of_a_refused_batch_is_applied(sqs: Client, queue: str) -> None:
    sent = entries("SendMessageBatch", "a", "b", "a")
    sqs.refused("SendMessageBatch", QueueUrl=queue, Entries=sent).assert_is(kinds.IDS_NOT_DISTINCT)
    assert counts(sqs, queue) == (0, 0, 0)
    handle = sent_and_received(sqs, queue)["ReceiptHandle"]
    deleted = [entry("DeleteMessageBatch", "a", ReceiptHandle=handle)] * 2
    refusal = sqs.refused("DeleteMessageBatch", QueueUrl=queue, Entries=deleted)
    refusal.assert_is(kinds.IDS_NOT_DISTINCT)
    assert counts(sqs, queue) == (0, 1, 0)


@covers("0.2.batch-size", "0.2.batch-entries", "0.2.batch-entry-id")
def test_ten_entries_of_a_mebibyte_in_all_are_accepted(sqs: Client, queue: str) -> None:
    sizes = [104_857] * 9 + [MIB - 9 * 104_857]
    sent = [
        entry("SendMessageBatch", f"{number}_-aZ".ljust(80, "i"), MessageBody="x" * size)
        for number, size in enumerate(sizes)
    ]
    answer = sqs.call("SendMessageBatch", QueueUrl=queue, Entries=sent)
    assert [one["Id"] for one in answer["Successful"]] == [one["Id"] for one in sent]
    assert "Failed" not in answer


# --- entries ------------------------------------------------------------------------------------


def failure(identity: str, code: str, message: str) -> Entry:
    return {"Id": identity, "SenderFault": True, "Code": code, "Message": message}


@covers("7.2.mixed", "7.2.failed-form", "7.2.not-atomic", "7.2.send-entry", "7.2.body-characters")
@covers("7.2.body-missing", "7.2.deduplication-standard", "7.2.delay")
def test_good_entries_are_sent_beside_bad_ones(sqs: Client, queue: str) -> None:
    trace = {"AWSTraceHeader": text_attribute("Root=1-5759e988-bd862e3fe1be46a994272793")}
    kind = "SendMessageBatch"
    sent = [
        entry(kind, "plain", MessageBody="first"),
        entry(kind, "characters", MessageBody="\x01"),
        entry(kind, "empty", MessageBody=""),
        {"Id": "missing"},
        entry(kind, "deduplication", MessageDeduplicationId="d"),
        entry(kind, "delay", DelaySeconds=901),
        entry(kind, "attributes", MessageAttributes={"k": text_attribute("x")}),
        entry(kind, "system", MessageBody="last", MessageSystemAttributes=trace),
    ]
    answer = sqs.call(kind, QueueUrl=queue, Entries=sent)
    invalid = INVALID_PARAMETER.batch_code
    assert answer["Failed"] == [
        failure("characters", "InvalidMessageContents", CHARACTERS_TEXT),
        failure("empty", "MissingParameter", missing_text(f"{kind}RequestEntry.3.MessageBody")),
        failure("missing", "MissingParameter", missing_text(f"{kind}RequestEntry.4.MessageBody")),
        failure("deduplication", invalid, NOT_FOR_TYPE),
        failure(
            "delay",
            invalid,
            value_text(901, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900."),
        ),
    ]
    plain, attributes, system = answer["Successful"]
    assert [one["Id"] for one in answer["Successful"]] == ["plain", "attributes", "system"]
    assert set(plain) == {"Id", "MessageId", "MD5OfMessageBody"}
    assert set(attributes) == {*plain, "MD5OfMessageAttributes"}
    assert set(system) == {*plain, "MD5OfMessageSystemAttributes"}
    assert bodies(receive(sqs, queue)) == ["first", "x", "last"]


@covers("7.2.too-big")
def test_an_entry_over_the_limit_of_the_queue_fails_alone(sqs: Client) -> None:
    queue = new_queue(sqs, MaximumMessageSize="1024")
    sent = [
        entry("SendMessageBatch", "big", MessageBody="x" * 1_025),
        entry("SendMessageBatch", "fits", MessageBody="x" * 1_024),
    ]
    answer = sqs.call("SendMessageBatch", QueueUrl=queue, Entries=sent)
    text = (
        "One or more parameters cannot be validated. "
        "Reason: Message must be shorter than 1024 bytes."
    )
    assert answer["Failed"] == [failure("big", "InvalidParameterValue", text)]
    assert [one["Id"] for one in answer["Successful"]] == ["fits"]


@covers("7.2.bad-handle", "7.2.missing-handle", "7.2.void-entry", "7.2.not-atomic")
def test_good_entries_are_deleted_beside_bad_ones(sqs: Client, queue: str) -> None:
    message = sent_and_received(sqs, queue)
    deleted = [
        entry("DeleteMessageBatch", "bad"),
        entry("DeleteMessageBatch", "good", ReceiptHandle=message["ReceiptHandle"]),
        {"Id": "missing"},
    ]
    answer = sqs.call("DeleteMessageBatch", QueueUrl=queue, Entries=deleted)
    assert answer == {
        "Successful": [{"Id": "good"}],
        "Failed": [
            failure("bad", "ReceiptHandleIsInvalid", GARBAGE_TEXT),
            failure("missing", "MissingParameter", missing_text("ReceiptHandle")),
        ],
    }
    assert counts(sqs, queue) == (0, 0, 0)


@covers("7.2.bad-handle", "7.2.timeout-range", "7.2.timeout-missing", "7.2.missing-handle")
@covers("7.2.deleted", "7.2.void-entry")
def test_good_entries_are_changed_beside_bad_ones(sqs: Client, queue: str) -> None:
    gone = sent_and_received(sqs, queue)
    delete(sqs, queue, gone)
    handle = sent_and_received(sqs, queue)["ReceiptHandle"]
    kind = "ChangeMessageVisibilityBatch"
    changed = [
        entry(kind, "good", ReceiptHandle=handle, VisibilityTimeout=0),
        entry(kind, "bad"),
        entry(kind, "range", ReceiptHandle=handle, VisibilityTimeout=43_201),
        {"Id": "timeout", "ReceiptHandle": handle},
        {"Id": "handle", "VisibilityTimeout": 1},
        entry(kind, "gone", ReceiptHandle=gone["ReceiptHandle"]),
    ]
    answer = sqs.call(kind, QueueUrl=queue, Entries=changed)
    invalid = INVALID_PARAMETER.batch_code
    reason = "VisibilityTimeout must be an integer between 0 and 43200."
    missing = missing_text(f"{kind}RequestEntry.4.VisibilityTimeout")
    assert answer == {
        "Successful": [{"Id": "good"}],
        "Failed": [
            failure("bad", "ReceiptHandleIsInvalid", GARBAGE_TEXT),
            failure("range", invalid, value_text(43_201, "VisibilityTimeout", reason)),
            failure("timeout", "MissingParameter", missing),
            failure("handle", "MissingParameter", missing_text("ReceiptHandle")),
            failure("gone", invalid, deleted_text(gone)),
        ],
    }
    assert counts(sqs, queue) == (1, 0, 0)


@covers("7.2.same-handle")
def test_two_entries_may_delete_by_one_handle(sqs: Client, queue: str) -> None:
    handle = sent_and_received(sqs, queue)["ReceiptHandle"]
    deleted = [entry("DeleteMessageBatch", one, ReceiptHandle=handle) for one in ("a", "b")]
    answer = sqs.call("DeleteMessageBatch", QueueUrl=queue, Entries=deleted)
    assert answer == {"Successful": [{"Id": "a"}, {"Id": "b"}]}


@covers("7.2.mixed")
@pytest.mark.parametrize("count", [1, 10])
def test_a_batch_keeps_its_order(sqs: Client, queue: str, count: int) -> None:
    send(sqs, queue, "before")
    sent = [
        entry("SendMessageBatch", f"id-{number}", MessageBody=str(number))
        for number in range(count)
    ]
    answer = sqs.call("SendMessageBatch", QueueUrl=queue, Entries=sent)
    assert [one["Id"] for one in answer["Successful"]] == [one["Id"] for one in sent]
    got = bodies(receive(sqs, queue)) + bodies(receive(sqs, queue))
    assert got == ["before", *map(str, range(count))]
