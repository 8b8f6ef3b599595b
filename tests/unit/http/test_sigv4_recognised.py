"""A client that is recognised gets what it would get if it were not: the short way of a verifier
against the judgement by every rule.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.http.http1 import Request
from fastnode.http.sigv4 import Verifier
from fastnode.queue.errors import SqsError
from tests.unit.http.signed_requests import (
    JSON,
    KEYS,
    MISMATCH,
    PRINCIPAL,
    Watch,
    altered,
    presigned,
    refusal,
    signed,
    verifier,
    with_authorization,
    with_header,
)

PATHS = st.text("ab/.%~-_: ", max_size=8).map(lambda path: "/" + path.replace(" ", "%20"))
VALUES = st.text(st.sampled_from("ab  \t,;=%\x7f~"), max_size=12)
HEADERS = st.dictionaries(st.sampled_from(["x-a", "x-note", "content-md5"]), VALUES, max_size=3)
QUERIES = st.sampled_from(["", "", "", "?Action=ListQueues", "?a=b&a=%20"])


def outcome(judge: Verifier, request: Request) -> object:
    try:
        return judge.verify(request)
    except SqsError as error:
        return error.row.query_code, error.message


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Verifier:
    """Has seen the client, and judges nobody any more."""
    judge = verifier()
    judge.verify(signed())
    monkeypatch.setattr(judge, "_judged", lambda request: pytest.fail("judged by every rule"))
    return judge


def test_the_next_request_of_a_client_is_recognised(judge: Verifier) -> None:
    for body in (b"{}", b"", b"other", b"x" * 10_000):
        for target in ("/", "/123456789012/orders.fifo"):
            request = signed(target=target, body=body)
            assert judge.verify(request) is judge.verify(request)
            assert judge.verify(request) == PRINCIPAL


@settings(max_examples=100)
@given(PATHS, QUERIES, HEADERS, st.binary(max_size=100))
def test_whatever_a_known_client_signs_is_verified(
    path: str, query: str, headers: dict[str, str], body: bytes
) -> None:
    judge, request = verifier(), signed("POST", path + query, JSON | headers, body)
    assert [judge.verify(request) for _ in range(3)] == [PRINCIPAL] * 3


@settings(max_examples=300)
@given(
    st.sampled_from([signed(), signed(target="/1/q"), signed(headers=JSON | {"x-note": "a b"})]),
    st.sampled_from(["method", "target", "body", "now", "header", "header", "header"]),
    st.sampled_from([b"authorization", b"x-amz-date", b"host", b"x-note", b"x-amz-content-sha256"]),
    st.none() | st.tuples(st.integers(0, 300), st.integers(0, 3), st.binary(max_size=3)),
    st.integers(-1_000, 1_000),
)
def test_a_changed_request_ends_as_a_stranger_would(
    request: Request,
    place: str,
    name: bytes,
    edit: tuple[int, int, bytes] | None,
    shift: int,
) -> None:
    known, stranger = (Verifier(KEYS, Watch()) for _ in range(2))
    known.verify(request)
    old = request.headers.get(name, b"") if place == "header" else getattr(request, place, b"")
    at, removed, bits = edit or (0, 0, b"")
    at %= len(old) + 1
    new = old[:at] + bits + old[at + removed :]
    if place == "header":
        request = with_header(request, name, new if edit else None)
    elif place == "now":
        watch = Watch()
        watch.now += shift
        known._now_seconds = stranger._now_seconds = watch
    else:
        request = altered(request, **{place: new})
    assert outcome(known, request) == outcome(stranger, request)


def test_a_forged_request_of_a_known_client_is_refused_with_the_same_words() -> None:
    judge = verifier()
    judge.verify(signed())
    assert refusal(altered(signed(), body=b"{ }"), judge)[1] == MISMATCH
    assert refusal(signed(secret="wrong"), judge)[1] == MISMATCH
    start, _, digits = signed().headers[b"authorization"].rpartition(b"=")
    shouted = with_header(signed(), b"authorization", start + b"=" + digits.upper())
    assert refusal(shouted, judge)[1] == MISMATCH


def test_a_presigned_url_beside_a_known_header_is_refused() -> None:
    judge, request = verifier(), signed()
    judge.verify(request)
    both = altered(request, target=presigned().target)
    assert "Found both" in refusal(both, judge)[1]


def test_the_time_is_asked_for_with_every_request() -> None:
    watch = Watch()
    judge = Verifier(KEYS, watch)
    judge.verify(signed())
    watch.now += 901
    assert "Signature expired" in refusal(signed(), judge)[1]
    watch.now -= 2 * 901
    assert "Signature not yet current" in refusal(signed(), judge)[1]
    watch.now += 901
    assert judge.verify(signed()) == PRINCIPAL


def test_only_who_has_proved_something_is_remembered() -> None:
    judge, request = verifier(), signed()
    for number in range(20):
        refusal(with_authorization(request, b"us-east-1", b"r-%d" % number), judge)
    refusal(altered(request, body=b"forged"), judge)
    assert not judge._proofs
    judge.verify(request)
    assert len(judge._proofs) == 1


def test_remembered_clients_do_not_fill_memory() -> None:
    judge = verifier()
    for number in range(1_100):
        judge.verify(signed(headers={f"x-{number}": ""}))
    assert 0 < len(judge._proofs) <= 1_024
    judge.verify(signed(headers={f"x-{'a' * 1_100}": ""}))
    assert max(map(len, judge._proofs)) <= 1_024
