"""Signatures: botocore signs, we verify; whatever was signed and is changed is refused."""

import hashlib
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.http.http1 import Request
from fastnode.http.sigv4 import Principal, derive_signing_key
from fastnode.queue.errors import SqsError
from tests.unit.http.signed_requests import (
    ACCESS_KEY,
    ACCOUNT,
    JSON,
    MISMATCH,
    PRINCIPAL,
    altered,
    presigned,
    refusal,
    signed,
    verifier,
    with_authorization,
    with_header,
)

# --- what botocore signs holds -------------------------------------------------------------------

SEGMENTS = st.one_of(
    st.sampled_from(["", ".", "..", "%2F", "%20", "a", "queue", "000000000000", "caf%C3%A9"]),
    st.text("abcXYZ019-_.~!$'()*,:;=@+", max_size=5),
)
PATHS = st.lists(SEGMENTS, max_size=6).map(lambda segments: "/" + "/".join(segments))
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
QUERIES = st.lists(st.tuples(TEXTS.filter(bool), TEXTS), max_size=5).map(
    lambda pairs: "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs
    )
)
HEADERS = st.dictionaries(
    st.text("abcdefghij-", min_size=1, max_size=8).map(lambda name: f"x-{name}"),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
    max_size=4,
)
TARGETS = st.builds(lambda path, query: f"{path}?{query}" if query else path, PATHS, QUERIES)


@given(TARGETS, HEADERS, st.binary(max_size=200), st.sampled_from(["POST", "GET"]))
def test_any_request_that_botocore_signs_is_verified(
    target: str, headers: dict[str, str], body: bytes, method: str
) -> None:
    assert verifier().verify(signed(method, target, JSON | headers, body)) == PRINCIPAL


@given(PATHS, st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=4), st.none() | TEXTS)
def test_any_url_that_botocore_presigns_is_verified(
    path: str, parameters: dict[str, str], token: str | None
) -> None:
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in parameters.items())
    request = presigned("GET", f"{path}?{query}", token=token or None)
    assert verifier().verify(request) == PRINCIPAL


def test_a_signature_by_the_date_header_is_verified() -> None:
    request = signed(headers=JSON | {"Date": "now"})
    assert b"x-amz-date" not in request.headers
    assert verifier().verify(request) == PRINCIPAL


def test_a_session_token_is_passed_through() -> None:
    request = signed(token="FwoGZXIvYXdzE/token==")
    assert b"x-amz-security-token" in request.headers
    assert verifier().verify(request) == PRINCIPAL
    assert refusal(with_header(request, b"x-amz-security-token", b"other"))[1] == MISMATCH


def test_the_published_key_derivation_example_holds() -> None:
    """AWS General Reference, "Deriving the signing key"; its service is iam."""
    secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    assert (
        derive_signing_key(secret, b"20150830", b"us-east-1", b"iam").hex()
        == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
    )


def test_the_region_is_the_one_that_was_signed_for() -> None:
    assert verifier().verify(signed(region="eu-west-1")) == Principal(
        ACCOUNT, "eu-west-1", ACCESS_KEY
    )


def test_a_repeated_header_and_runs_of_spaces_are_verified() -> None:
    request = signed(headers=JSON | {"x-note": "  a   b  "})
    assert request.headers[b"x-note"] == b"a   b"
    assert verifier().verify(request) == PRINCIPAL
    assert verifier().verify(with_header(request, b"x-note", b"a b")) == PRINCIPAL
    assert verifier().verify(with_header(request, b"x-note", b"a\t b")) == PRINCIPAL
    assert refusal(with_header(request, b"x-note", b"ab"))[1] == MISMATCH


@pytest.mark.parametrize("separator", [b",", b" , ", b",  "])
def test_authorization_may_be_spaced_freely(separator: bytes) -> None:
    request = with_authorization(signed(), b", ", separator)
    assert verifier().verify(request) == PRINCIPAL


def test_the_announced_payload_hash_must_be_the_real_one() -> None:
    real = hashlib.sha256(b"{}").hexdigest()
    honest = signed(headers=JSON | {"x-amz-content-sha256": real})
    assert verifier().verify(honest) == PRINCIPAL
    for other in ("UNSIGNED-PAYLOAD", hashlib.sha256(b"").hexdigest()):
        assert refusal(with_header(honest, b"x-amz-content-sha256", other.encode()))[1] == MISMATCH
        # Not even when it is not signed, or signed as it is.
        unsigned = with_header(signed(), b"x-amz-content-sha256", other.encode())
        assert refusal(unsigned)[1] == MISMATCH
        assert refusal(signed(headers=JSON | {"x-amz-content-sha256": other}))[1] == MISMATCH


def test_a_request_without_a_signature_is_nobodys() -> None:
    assert verifier().verify(Request(b"GET", b"/?Action=ListQueues", "1.1", {}, True)) is None
    assert verifier().verify(with_header(signed(), b"authorization", None)) is None


# --- what is changed is refused ------------------------------------------------------------------


def flipped(text: bytes, at: int, bit: int) -> bytes:
    index = at % len(text)
    return text[:index] + bytes([text[index] ^ (1 << bit)]) + text[index + 1 :]


ON_QUEUE = signed(target="/123456789012/queue")
PRESIGNED = presigned("GET", "/?Action=SendMessage&MessageBody=hello%20world&QueueUrl=q")
PARTS = ["body", "method", "path", *(JSON | {"host": "", "x-amz-date": "", "authorization": ""})]


@given(st.sampled_from(PARTS), st.integers(0, 300), st.integers(0, 6))
@settings(max_examples=400)
def test_no_bit_of_a_signed_request_can_be_altered(part: str, at: int, bit: int) -> None:
    request = ON_QUEUE
    if part == "body":
        changed = altered(request, body=flipped(request.body, at, bit))
    elif part == "method":
        changed = altered(request, method=flipped(request.method, at, bit))
    elif part == "path":
        # The question mark begins the query, which is another matter.
        target = flipped(request.target, at, bit).replace(b"?", b"!")
        changed = altered(request, target=target)
    else:
        name = part.lower().encode()
        changed = with_header(request, name, flipped(request.headers[name], at, bit))
    judge = verifier()
    judge.verify(request)
    if part == "authorization" and _is_same_authorization(request, changed):
        return
    assert refusal(changed, judge)[0] in {
        "SignatureDoesNotMatch",
        "IncompleteSignature",
        "InvalidClientTokenId",
    }


def _is_same_authorization(request: Request, changed: Request) -> bool:
    """White space between the fields is free."""
    texts = (r.headers[b"authorization"].replace(b" ", b"") for r in (request, changed))
    first, second = texts
    return first == second


@given(st.integers(0, 400), st.integers(0, 6))
@settings(max_examples=300)
def test_no_bit_of_a_presigned_url_can_be_altered(at: int, bit: int) -> None:
    query = PRESIGNED.query
    changed = flipped(query, at, bit)
    if _meaning(changed) == _meaning(query):
        return
    try:
        found = verifier().verify(altered(PRESIGNED, target=b"/?" + changed))
    except SqsError:
        return
    # All that is left is a URL whose own parameters are gone or misspelt: nobody's.
    assert found is None


def _meaning(query: bytes) -> object:
    return sorted(parse_qsl(query.decode("latin-1"), keep_blank_values=True, encoding="latin-1"))


def test_a_plus_is_a_space_and_no_plus() -> None:
    """The form reader takes it for a space, so it must not pass for an encoded plus sign."""
    plus = presigned("GET", "/?Action=SendMessage&MessageBody=a%2Bb")
    forged = altered(plus, target=plus.target.replace(b"a%2Bb", b"a+b"))
    assert refusal(forged)[1] == MISMATCH
    space = presigned("GET", "/?Action=SendMessage&MessageBody=a%20b")
    same = altered(space, target=space.target.replace(b"a%20b", b"a+b"))
    assert verifier().verify(same) == PRINCIPAL


def test_a_parameter_cannot_be_added() -> None:
    for request in (presigned(), signed(target="/?Action=ListQueues")):
        longer = altered(request, target=request.target + b"&QueueNamePrefix=a")
        assert refusal(longer)[1] == MISMATCH


def test_a_presigned_get_takes_no_body() -> None:
    assert refusal(altered(presigned(), body=b"MessageBody=x"))[1] == MISMATCH


def test_a_signed_header_cannot_be_left_out() -> None:
    request = signed()
    for name in (b"content-type", b"x-amz-target", b"x-amzn-query-mode", b"host"):
        assert refusal(with_header(request, name, None))[1] == MISMATCH
