"""Conditions: every operator and key, values that a call does not have, and patterns."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.queue.policy_conditions import glob, parse_condition
from tests.unit.queue.policy_texts import FRIEND, request


def holds(operator: str, key: str, values: str | list[str], **facts: Any) -> bool:
    listed = [values] if isinstance(values, str) else values
    return parse_condition(operator, key, listed).holds(request(**facts))


ME = f"arn:aws:iam::{FRIEND}:user/AKIDFRIEND"
TRUE = [
    ("StringEquals", "aws:PrincipalAccount", FRIEND),
    ("StringEquals", "AWS:principalaccount", FRIEND),
    ("StringEquals", "aws:PrincipalAccount", ["0", FRIEND]),
    ("StringEquals", "aws:PrincipalArn", ME),
    ("StringEqualsIgnoreCase", "aws:PrincipalArn", ME.lower()),
    ("StringNotEquals", "aws:PrincipalAccount", ["0", "1"]),
    ("StringNotEqualsIgnoreCase", "aws:PrincipalAccount", "0"),
    ("StringLike", "aws:PrincipalArn", "arn:*/AKID*"),
    ("StringLike", "aws:PrincipalAccount", "1111????1111"),
    ("StringNotLike", "aws:PrincipalArn", ["arn:*/OTHER*", "x"]),
    ("ArnEquals", "aws:PrincipalArn", ME),
    ("ArnEquals", "aws:PrincipalArn", "arn:aws:iam::*:user/*"),
    ("ArnLike", "aws:PrincipalArn", ["arn:aws:sns:*:*:*", "arn:*:iam:*:1*:user/A?ID*"]),
    ("ArnNotEquals", "aws:PrincipalArn", ME + "2"),
    ("ArnNotLike", "aws:PrincipalArn", "arn:aws:iam::*:role/*"),
    ("IpAddress", "aws:SourceIp", "203.0.113.0/24"),
    ("IpAddress", "aws:SourceIp", ["10.0.0.0/8", "203.0.113.7"]),
    ("IpAddress", "aws:SourceIp", "203.0.113.99/24"),
    ("NotIpAddress", "aws:SourceIp", ["10.0.0.0/8", "2001:db8::/32"]),
    ("Bool", "aws:SecureTransport", "false"),
    ("Bool", "aws:SecureTransport", ["True", "False"]),
    ("StringEquals", "aws:SecureTransport", "false"),
    ("NumericEquals", "aws:EpochTime", "1700000000"),
    ("NumericNotEquals", "aws:EpochTime", ["1", "2.5"]),
    ("NumericLessThan", "aws:EpochTime", "1700000000.5"),
    ("NumericLessThanEquals", "aws:EpochTime", "1700000000"),
    ("NumericGreaterThan", "aws:EpochTime", "-1"),
    ("NumericGreaterThanEquals", "aws:EpochTime", "1700000000"),
    ("DateEquals", "aws:CurrentTime", "2023-11-14T22:13:20Z"),
    ("DateEquals", "aws:CurrentTime", "2023-11-14T23:13:20+01:00"),
    ("DateEquals", "aws:CurrentTime", "2023-11-14T22:13:20"),
    ("DateNotEquals", "aws:CurrentTime", "2023-11-14"),
    ("DateLessThan", "aws:CurrentTime", "2023-11-15"),
    ("DateLessThanEquals", "aws:CurrentTime", "1700000000"),
    ("DateGreaterThan", "aws:CurrentTime", ["2030-01-01", "2023-01-01"]),
    ("DateGreaterThanEquals", "aws:EpochTime", "2023-11-14T22:13:20Z"),
    ("Null", "aws:SourceArn", "true"),
    ("Null", "aws:SourceIp", "false"),
    ("Null", "aws:SourceIp", ["true", "false"]),
    ("StringEqualsIfExists", "aws:PrincipalAccount", FRIEND),
]
FALSE = [
    ("StringEquals", "aws:PrincipalAccount", "1"),
    ("StringEquals", "aws:PrincipalAccount", "1*"),
    ("StringEquals", "aws:PrincipalArn", ME.lower()),
    ("StringNotEquals", "aws:PrincipalAccount", ["0", FRIEND]),
    ("StringNotEqualsIgnoreCase", "aws:PrincipalArn", ME.upper()),
    ("StringLike", "aws:PrincipalArn", "arn:*/akid*"),
    ("StringNotLike", "aws:PrincipalArn", ["x", "arn:*/AKID*"]),
    ("ArnLike", "aws:PrincipalArn", "arn:aws:*:user/AKID*:x:y"),
    ("ArnLike", "aws:PrincipalArn", "arn:aws:iam:*:user/AKIDFRIEND:*"),
    ("ArnLike", "aws:PrincipalAccount", "arn:*:*:*:*:*"),
    ("ArnNotEquals", "aws:PrincipalArn", [ME, "arn:a:b:c:d:e"]),
    ("IpAddress", "aws:SourceIp", ["203.0.114.0/24", "::/0"]),
    ("IpAddress", "aws:PrincipalAccount", "0.0.0.0/0"),
    ("NotIpAddress", "aws:SourceIp", ["10.0.0.0/8", "203.0.113.0/24"]),
    ("Bool", "aws:SecureTransport", "true"),
    ("NumericEquals", "aws:PrincipalArn", "1"),
    ("NumericNotEquals", "aws:EpochTime", ["1", "1700000000"]),
    ("NumericLessThan", "aws:EpochTime", "1700000000"),
    ("NumericGreaterThan", "aws:EpochTime", "1700000000"),
    ("DateLessThan", "aws:CurrentTime", "2023-11-14"),
    ("DateGreaterThan", "aws:CurrentTime", "2023-11-14T22:13:20Z"),
    ("Null", "aws:SourceArn", "false"),
    ("Null", "aws:SourceIp", "true"),
    ("StringEqualsIfExists", "aws:PrincipalAccount", "1"),
    ("StringNotEqualsIfExists", "aws:PrincipalAccount", FRIEND),
]


@pytest.mark.parametrize(
    ("operator", "key", "values", "expected"),
    [(*case, True) for case in TRUE] + [(*case, False) for case in FALSE],
)
def test_conditions(operator: str, key: str, values: str | list[str], expected: bool) -> None:
    assert holds(operator, key, values) is expected


# Operator → whether it holds for a key that the call has no value for.
ARN_PATTERN = "arn:aws:sns:us-east-1:111111111111:topic"
WITHOUT_VALUE = [
    ("StringEquals", "x", False),
    ("StringLike", "*", False),
    ("ArnEquals", ARN_PATTERN, False),
    ("ArnLike", ARN_PATTERN, False),
    ("IpAddress", "0.0.0.0/0", False),
    ("Bool", "true", False),
    ("NumericLessThan", "1", False),
    ("DateLessThan", "2030-01-01", False),
    ("StringNotEquals", "x", True),
    ("StringNotLike", "*", True),
    ("StringNotEqualsIgnoreCase", "x", True),
    ("ArnNotEquals", ARN_PATTERN, True),
    ("ArnNotLike", ARN_PATTERN, True),
    ("NotIpAddress", "0.0.0.0/0", True),
    ("NumericNotEquals", "1", True),
    ("DateNotEquals", "2030-01-01", True),
    ("StringEqualsIfExists", "x", True),
    ("ArnLikeIfExists", ARN_PATTERN, True),
    ("BoolIfExists", "true", True),
    ("StringNotEqualsIfExists", "x", True),
]


@pytest.mark.parametrize(("operator", "value", "expected"), WITHOUT_VALUE)
def test_a_call_without_a_value_for_the_key(operator: str, value: str, expected: bool) -> None:
    for key in ("aws:SourceArn", "aws:SourceAccount"):
        assert holds(operator, key, value) is expected
    assert holds(operator, "aws:SourceIp", value, source_ip=None) is expected
    assert holds(operator, "aws:PrincipalArn", value, account=None) is expected


def test_ipv4_at_an_ipv6_socket_is_ipv4() -> None:
    assert holds("IpAddress", "aws:SourceIp", "203.0.113.0/24", source_ip="::ffff:203.0.113.7")
    assert holds("IpAddress", "aws:SourceIp", "2001:db8::/32", source_ip="2001:db8::1")
    assert not holds("IpAddress", "aws:SourceIp", "::/0", source_ip="a socket")


def test_a_date_without_a_zone_is_utc_wherever_the_node_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert holds("DateEquals", "aws:CurrentTime", "2023-11-14T22:13:20")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_secure_transport_follows_the_call() -> None:
    assert holds("Bool", "aws:SecureTransport", "true", is_secure=True)


MEANINGLESS = [
    ("StringIs", "aws:SourceArn", ["x"]),
    ("stringequals", "aws:SourceArn", ["x"]),
    ("NullIfExists", "aws:SourceArn", ["true"]),
    ("ForAnyValue:StringEquals", "aws:SourceArn", ["x"]),
    ("ForAllValues:StringLike", "aws:SourceArn", ["x"]),
    ("BinaryEquals", "aws:SourceArn", ["eA=="]),
    ("StringEquals", "aws:PrincipalOrgID", ["o-1"]),
    ("StringEquals", "sqs:x", ["x"]),
    ("StringEquals", "aws:SourceArn", []),
    ("Null", "aws:SourceArn", ["maybe"]),
    ("Bool", "aws:SecureTransport", ["yes"]),
    ("IpAddress", "aws:SourceIp", ["10.0.0.0/33"]),
    ("IpAddress", "aws:SourceIp", ["home"]),
    ("ArnLike", "aws:SourceArn", ["*"]),
    ("ArnLike", "aws:SourceArn", ["x:aws:sns:a:b:c"]),
    ("NumericEquals", "aws:EpochTime", ["nan"]),
    ("NumericEquals", "aws:EpochTime", ["1_000"]),
    ("DateEquals", "aws:CurrentTime", ["tomorrow"]),
]


@pytest.mark.parametrize(("operator", "key", "values"), MEANINGLESS)
def test_a_condition_without_meaning_is_refused(operator: str, key: str, values: list[str]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_condition(operator, key, values)


# --- patterns -----------------------------------------------------------------------------------


def matches(pattern: str, text: str) -> bool:
    """By definition: every way that a star can end is tried."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(matches(pattern[1:], text[skipped:]) for skipped in range(len(text) + 1))
    is_same = bool(text) and pattern[0] in ("?", text[0])
    return is_same and matches(pattern[1:], text[1:])


@given(st.text("ab*?\\.:", max_size=6), st.text("ab\\.:\n", max_size=7))
def test_patterns_match_what_they_should(pattern: str, text: str) -> None:
    assert glob([pattern])(text) is matches(pattern, text)


@given(st.text("ab*?", max_size=6), st.text("aAbB", max_size=7))
def test_patterns_may_ignore_case(pattern: str, text: str) -> None:
    assert glob([pattern], ignores_case=True)(text) is matches(pattern, text.lower())


@given(st.lists(st.text("ab*?|", max_size=4), min_size=1, max_size=3), st.text("ab|", max_size=5))
def test_one_of_several_patterns_is_enough(patterns: list[str], text: str) -> None:
    assert glob(patterns)(text) is any(matches(pattern, text) for pattern in patterns)


@given(
    st.lists(st.text("ab*?", max_size=3), min_size=5, max_size=5),
    st.text("ab:", max_size=8),
)
def test_arn_patterns_match_part_by_part(parts: list[str], rest: str) -> None:
    text = f"arn:{rest}"
    texts = text.split(":", 5)
    expected = len(texts) == 6 and all(map(matches, ["arn", *parts], texts))
    test = parse_condition("ArnLike", "aws:SourceArn", [":".join(["arn", *parts])]).test
    assert test(text) is expected


def test_a_star_does_not_reach_over_a_colon() -> None:
    test = parse_condition("ArnLike", "aws:SourceArn", ["arn:*:b:c:d:*"]).test
    assert test("arn:a:b:c:d:e:f")
    assert not test("arn:a:x:b:c:d:e")


def test_many_stars_take_no_exponential_time() -> None:
    # Forty stars on a text that fails at its end only: tried one by one they would never finish.
    assert not glob(["*a" * 40 + "b"])("a" * 2_000)
    assert glob(["*a" * 40 + "b"])("a" * 2_000 + "b")
