"""What members say about themselves, where they are asked, and what their answers are worth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.cluster.capabilities import (
    HTFIFO,
    Member,
    Report,
    advertised,
    encode_health,
    health_url,
    problem_of,
)

GOOD = b'{"status":"ok","capabilities":["htfifo","dedup"]}\n'


def test_this_build_advertises_what_nobody_has_switched_off() -> None:
    assert advertised("") == ("htfifo", "dedup")
    assert advertised("htfifo") == ("dedup",)
    assert advertised("dedup") == ("htfifo",)


def test_health_is_one_line_of_json() -> None:
    assert encode_health(advertised("")) == GOOD
    assert encode_health(()) == b'{"status":"ok","capabilities":[]}\n'


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("10.0.0.1:9324", "http://10.0.0.1:9324/sqs_health"),
        ("node-1:9324/", "http://node-1:9324/sqs_health"),
        ("[::1]:9324", "http://[::1]:9324/sqs_health"),
        ("http://node-1:9324", "http://node-1:9324/sqs_health"),
        ("https://node-1", "https://node-1/sqs_health"),
        ("https://node-1/proxy//", "https://node-1/proxy/sqs_health"),
        ("http://node-1:9324/sqs_health", "http://node-1:9324/sqs_health"),
        ("http://node-1:9324/sqs_health/", "http://node-1:9324/sqs_health"),
    ],
)
def test_members_are_asked_where_they_answer(address: str, url: str) -> None:
    assert health_url(address) == url


def test_an_empty_address_is_none() -> None:
    with pytest.raises(ValueError, match="empty"):
        health_url("")


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (200, GOOD, ""),
        (200, b'{"capabilities":["other","htfifo"],"more":1}', ""),
        (200, b'{"status":"ok","capabilities":[]}', "does not advertise htfifo"),
        (200, b'{"status":"ok"}', "does not advertise htfifo"),
        (200, b'{"status":"ok","capabilities":["HTFIFO"]}', "does not advertise htfifo"),
        (200, b'{"status":"ok","capabilities":["htfifo2"]}', "does not advertise htfifo"),
        (200, b'{"status":"ok","capabilities":"htfifo"}', "the answer is not the JSON of a member"),
        (200, b'{"status":"ok","capabilities":null}', "the answer is not the JSON of a member"),
        (200, b'["htfifo"]', "the answer is not the JSON of a member"),
        (200, b"ok\n", "the answer is not the JSON of a member"),
        (200, b"", "the answer is not the JSON of a member"),
        (200, GOOD[:-4], "the answer is not the JSON of a member"),
        (200, b'{"status":"\xff"}', "the answer is not the JSON of a member"),
        (200, b"[" * 1_000, "the answer is not the JSON of a member"),
        (500, GOOD, "status 500"),
        (204, GOOD, "status 204"),
        (302, GOOD, "status 302"),
    ],
)
def test_only_a_proper_answer_proves_the_capability(status: int, body: bytes, problem: str) -> None:
    assert problem_of(status, body, HTFIFO) == problem


@given(st.binary(max_size=200))
def test_no_bytes_break_the_judgement(body: bytes) -> None:
    assert problem_of(200, body, HTFIFO)


def test_nobody_asked_is_nobody_against() -> None:
    assert Report(()).all_capable


@pytest.mark.parametrize("problems", [["x"], ["", "x"], ["x", ""], ["", "", "x"]])
def test_one_member_without_the_capability_is_enough(problems: list[str]) -> None:
    report = Report(tuple(Member(f"node-{n}:1", problem) for n, problem in enumerate(problems)))
    assert not report.all_capable
    assert [member.is_capable for member in report.members] == [not each for each in problems]


def test_a_member_is_shown_with_its_problem() -> None:
    assert str(Member("node-1:9324")) == "node-1:9324: capable"
    assert str(Member("", "the address is empty")) == "(no address): the address is empty"
