"""The identity of a call that an SDK repeats: what it is made of, and what nobody can do to it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from fastnode.http.http1 import Request, RequestParser
from fastnode.http.invocation import invocation_of, is_first_attempt

ACTION = "SendMessage"
SENDER = "AKID"
BODY = b'{"QueueUrl":"q","MessageBody":"m"}'


def request(
    body: bytes = BODY,
    target: bytes = b"/",
    invocation: bytes | None = b"6f1c4a52",
    attempt: bytes | None = b"attempt=1; max=3",
) -> Request:
    headers = {b"host": b"localhost"}
    if invocation is not None:
        headers[b"amz-sdk-invocation-id"] = invocation
    if attempt is not None:
        headers[b"amz-sdk-request"] = attempt
    lines = [b"POST " + target + b" HTTP/1.1", b"content-length: %d" % len(body)]
    lines += [name + b": " + value for name, value in headers.items()]
    parser = RequestParser()
    parser.feed(b"\r\n".join(lines) + b"\r\n\r\n" + body)
    parsed = parser.next_event()
    assert isinstance(parsed, Request)
    return parsed


def identity(sender: str = SENDER, action: str = ACTION, **parts: Any) -> bytes:
    return invocation_of(request(**parts), sender, action)


def test_all_attempts_of_a_call_have_one_identity() -> None:
    attempts = [identity(attempt=b"attempt=%d; max=5" % number) for number in range(1, 6)]
    assert len(set(attempts)) == 1
    assert len(attempts[0]) == 16


@pytest.mark.parametrize(
    "other",
    [
        {"sender": "AKIE"},
        {"action": "SendMessageBatch"},
        {"invocation": b"6f1c4a53"},
        {"target": b"/000000000000/q"},
        {"target": b"/?Action=SendMessage"},
        {"body": BODY + b" "},
        {"body": b""},
    ],
    ids=lambda other: "-".join(map(str, other)),
)
def test_another_caller_action_invocation_path_or_body_is_another_call(
    other: dict[str, Any],
) -> None:
    assert identity(**other) not in (identity(), b"")


@pytest.mark.parametrize(
    "missing", [{"invocation": None}, {"invocation": b""}, {"attempt": None}], ids=str
)
def test_who_does_not_say_so_has_no_identity(missing: dict[str, Any]) -> None:
    assert identity(**missing) == b""


# Everything that a header may hold: no control characters, no blanks at its ends.
VALUES = (
    st.lists(st.sampled_from([*range(0x20, 0x7F), *range(0x80, 0x100)]), min_size=1, max_size=40)
    .map(lambda codes: bytes(codes).strip())
    .filter(bool)
)
NAMES = st.text("abcAKI01/+=.@_-", min_size=1, max_size=6)
CALLS = st.tuples(NAMES, VALUES, NAMES, st.binary(max_size=30))


@given(CALLS, CALLS)
def test_no_two_calls_share_an_identity(
    one: tuple[str, bytes, str, bytes], other: tuple[str, bytes, str, bytes]
) -> None:
    def identity_of(call: tuple[str, bytes, str, bytes]) -> bytes:
        sender, invocation, action, body = call
        return identity(sender, action, invocation=invocation, body=body)

    assert (identity_of(one) == identity_of(other)) is (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"sender": "ab", "invocation": b"c"}, {"sender": "a", "invocation": b"bc"}),
        ({"invocation": b"a", "action": "bc"}, {"invocation": b"ab", "action": "c"}),
        ({"target": b"/a", "body": b"b"}, {"target": b"/ab", "body": b""}),
    ],
)
def test_what_ends_one_part_cannot_begin_the_next(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert identity(**one) != identity(**other)


@pytest.mark.parametrize("size", [0, 1, 1 << 20])
def test_a_body_counts_up_to_its_last_byte(size: int) -> None:
    assert identity(body=b"x" * size) == identity(body=b"x" * size)
    assert identity(body=b"x" * size) != identity(body=b"x" * size + b"y")
    assert identity(body=b"x" * size + b"z") != identity(body=b"x" * size + b"y")


@given(VALUES)
def test_any_value_of_the_header_is_an_identity_of_its_own(value: bytes) -> None:
    found = identity(invocation=value)
    assert len(found) == 16
    assert found != identity(invocation=value + b"x")


@pytest.mark.parametrize("size", [36, 1_024, 8_000])
def test_a_long_value_costs_no_more_than_its_hash(size: int) -> None:
    assert len(identity(invocation=b"i" * size)) == 16


@pytest.mark.parametrize(
    ("value", "is_first"),
    [
        (None, True),
        (b"attempt=1", True),
        (b"attempt=1; max=3", True),
        (b"attempt=1;max=3", True),
        (b"attempt=2; max=3", False),
        (b"attempt=10; max=11", False),
        (b"attempt=1x", False),
        (b"attempt=01", False),
        (b"attempt=", False),
        (b"ttl=20260101T000000Z; attempt=1; max=3", False),
        (b"max=3; attempt=1", False),
        (b"nonsense \xff", False),
    ],
    ids=str,
)
def test_what_does_not_begin_with_the_first_attempt_counts_as_repeated(
    value: bytes | None, is_first: bool
) -> None:
    """To look for what has not landed costs a question; not to look could cost a duplicate."""
    assert is_first_attempt(request(attempt=value)) is is_first


@pytest.mark.parametrize("size", [0, 4095, 4096, 4097, 100_000])
def test_an_identity_is_one_hash_whatever_the_size_of_the_body(size: int) -> None:
    body = b"b" * size
    hashed = xxh3_128_digest(b"AKID\x006f1c4a52\x00SendMessage\x00/\x00" + body)
    assert identity("AKID", "SendMessage", body=body) == hashed
