"""Lines of an export: any body comes back, policies follow queues, dead letters are first."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.cli.export_lines import (
    BadLine,
    ExportedMessage,
    ExportedQueue,
    afterwards,
    at_creation,
    dead_letters_first,
    decode_line,
    encode_line,
    settable,
)

ALLOWED = st.characters(
    exclude_categories=["Cs"], exclude_characters=["\ufffe", "\uffff"], min_codepoint=9
)


def queue(name: str, target: str = "") -> ExportedQueue:
    policy = {"deadLetterTargetArn": arn(target), "maxReceiveCount": "3"}
    attributes = {"RedrivePolicy": json.dumps(policy)} if target else {}
    return ExportedQueue(name, arn(name), attributes)


def arn(name: str, account: str = "0" * 12) -> str:
    return f"arn:aws:sqs:r:{account}:{name}"


@given(st.text(ALLOWED, min_size=1))
def test_any_body_comes_back(body: str) -> None:
    message = ExportedMessage("q", body, group_id="g", trace_header="t")
    line = encode_line(message)
    assert line.isascii() and line.count(b"\n") == 1
    assert decode_line(line, 1) == message


@pytest.mark.parametrize(
    "line", [b"{}\n", b'{"message": 1}\n', b'{"x": {}}\n', b'{"message": {"body": "b"}}\n', b"nul"]
)
def test_what_is_no_line_is_refused_with_its_number(line: bytes) -> None:
    with pytest.raises(BadLine, match="line 17 "):
        decode_line(line, 17)


def test_a_queue_comes_after_where_its_dead_letters_go() -> None:
    ordered = dead_letters_first([queue("a", "b"), queue("b", "c"), queue("c"), queue("d", "c")])
    assert [each.name for each in ordered] == ["c", "b", "a", "d"]
    # Round in a circle, or to a queue that is not there, is no reason to fail.
    circle = dead_letters_first([queue("a", "b"), queue("b", "a"), queue("e", "nowhere")])
    assert {each.name for each in circle} == {"a", "b", "e"}


def test_policies_name_the_new_places() -> None:
    policy = json.dumps({"Statement": [{"Resource": arn("a"), "Principal": {"AWS": arn("x")}}]})
    exported = ExportedQueue("a", arn("a"), queue("a", "b").attributes | {"Policy": policy})
    moved = afterwards(exported, {arn(name): arn(name, "9" * 12) for name in "ab"})
    assert json.loads(moved["RedrivePolicy"])["deadLetterTargetArn"] == arn("b", "9" * 12)
    (statement,) = json.loads(moved["Policy"])["Statement"]
    assert statement == {"Resource": arn("a", "9" * 12), "Principal": {"AWS": arn("x")}}
    # Where nothing moves the text stays as it is.
    assert afterwards(exported, {}) == exported.attributes


def test_what_a_queue_has_by_itself_or_from_us_alone_is_left_out() -> None:
    told = {"QueueArn": "a", "CreatedTimestamp": "1", "ApproximateNumberOfMessages": "2"}
    kept = {"DelaySeconds": "5", "ThrottleSendCapacity": "10", "PartitionCount": "4"}
    assert settable(told | kept) == kept
    exported = ExportedQueue("a", arn("a"), kept | {"Policy": "{}"})
    assert at_creation(exported, is_ours=True) == kept
    assert at_creation(exported, is_ours=False) == {"DelaySeconds": "5"}
