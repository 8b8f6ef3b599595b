"""Recognised signatures: the compiled proof against its twin, and both against the full judgement,
on requests that were tampered with and on those that their owner signs in another form.
"""

import hashlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode import _http_ref, _sigv4_ref, native
from fastnode.http.http1 import Request
from fastnode.http.sigv4 import derive_signing_key
from fastnode.queue.errors import SqsError
from tests.unit.http.signed_requests import (
    ACCESS_KEY,
    JSON,
    NOW,
    PRINCIPAL,
    REGION,
    SECRET,
    altered,
    parts_of,
    signed,
    verifier,
    with_header,
)

if native.COMPILED:
    from fastnode import _sigv4

    MODULES: list[ModuleType] = [_sigv4_ref, _sigv4]
else:
    MODULES = [_sigv4_ref]

compiled_only = pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")

# --- proofs --------------------------------------------------------------------------------------

Headers = dict[bytes, Any]
SCOPE = b"20260131/us-east-1/sqs/aws4_request"
SIGNING_KEY = derive_signing_key(SECRET, b"20260131", REGION.encode())
MIDNIGHT = NOW - 12 * 3_600
DATE = b"20260131T120000Z"
ANNOUNCED = {"x-amz-content-sha256": hashlib.sha256(b"{}").hexdigest()}
PLAIN = {
    "typical": signed(body=b'{"QueueUrl":"http://queue.example/1/orders","MessageBody":"hello"}'),
    "query protocol": signed(target="/123456789012/orders.fifo", headers={}, body=b"Action=x"),
    "folder": signed(target="/a/b~c_d-e.f/"),
    "get": signed("GET", "/", {}, b""),
    "announced hash": signed(headers=JSON | ANNOUNCED),
    "session token": signed(token="FwoGZXIvYXdzE/token==" * 40),
    "single spaces": signed(headers=JSON | {"x-note": "a b c d"}),
    "last short body": signed(body=b"x" * 4_095),
    "first long body": signed(body=b"x" * 4_096),
    "long body": signed(body=b"xyz" * 40_000),
}
# Right, but not for this file to say.
RARE = {
    "query": signed(target="/?Action=ListQueues"),
    "empty segment": signed(target="/a//b"),
    "dot segment": signed(target="/a/./b"),
    "dots": signed(target="/a/../b"),
    "escape": signed(target="/a%20b"),
    "colon": signed(target="/a:b"),
    "run of spaces": signed(headers=JSON | {"x-note": "a  b"}),
    "tab": signed(headers=JSON | {"x-note": "a\tb"}),
    "date header": signed(headers=JSON | {"Date": "now"}),
    "long header": signed(headers=JSON | {"x-note": "x" * 5_000}),
}


class Known(NamedTuple):
    """How a request is found again."""

    start: bytes
    names: tuple[bytes, ...]


def known(request: Request) -> Known:
    start = request.headers[b"authorization"].rpartition(b"Signature=")[0]
    names = start.partition(b"SignedHeaders=")[2].partition(b",")[0]
    return Known(start, tuple(names.split(b";")))


def proved(module: ModuleType, request: Request, original: Request, now: int = NOW) -> Any:
    """Whose `request` is, to somebody who knows the client of `original`."""
    start, names = known(original)
    proof = module.Proof(SIGNING_KEY, SCOPE, MIDNIGHT, names, PRINCIPAL)
    return module.prove({start: proof}, own(module, request), now)


def own(module: ModuleType, request: Request) -> Any:
    """The request as the module knows requests."""
    return _http_ref.Request(**parts_of(request)) if module is _sigv4_ref else request


def proved_by_all(request: Request, original: Request, now: int = NOW) -> Any:
    results = [proved(module, request, original, now) for module in MODULES]
    assert results[0] is results[-1], "the twins disagree"
    return results[0]


def judged(request: Request, now: int = NOW) -> object:
    """By a verifier that has seen nobody yet, and so by every rule."""
    try:
        return verifier(now).verify(request)
    except SqsError:
        return None


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_request_is_recognised(name: str) -> None:
    request = PLAIN[name]
    assert proved_by_all(request, request) is PRINCIPAL


@pytest.mark.parametrize("name", RARE)
def test_a_rare_request_is_left_to_others(name: str) -> None:
    request = RARE[name]
    assert judged(request) == PRINCIPAL
    assert proved_by_all(request, request) is None


def test_who_has_not_been_seen_is_not_recognised() -> None:
    request = PLAIN["typical"]
    for module in MODULES:
        assert module.prove({}, own(module, request), NOW) is None


def test_another_key_scope_or_list_of_headers_proves_nothing() -> None:
    request = PLAIN["typical"]
    start, names = known(request)
    for module in MODULES:
        for proof in (
            module.Proof(bytes(32), SCOPE, MIDNIGHT, names, PRINCIPAL),
            module.Proof(SIGNING_KEY, SCOPE + b"x", MIDNIGHT, names, PRINCIPAL),
            module.Proof(SIGNING_KEY, SCOPE, MIDNIGHT, names[1:], PRINCIPAL),
            module.Proof(SIGNING_KEY, SCOPE, MIDNIGHT, (), PRINCIPAL),
        ):
            assert module.prove({start: proof}, own(module, request), NOW) is None


@pytest.mark.parametrize("shift", [-901, -900, -1, 0, 1, 900, 901, 86_400, -86_400, 2**40])
def test_a_signature_is_good_for_a_quarter_of_an_hour(shift: int) -> None:
    request = PLAIN["typical"]
    expected = PRINCIPAL if abs(shift) <= 900 else None
    assert proved_by_all(request, request, NOW + shift) is expected


# --- what is tampered with -----------------------------------------------------------------------

PLACES = ["method", "target", "body", *sorted(PLAIN["typical"].headers)]
BITS = st.sampled_from(
    [b"", b" ", b"  ", b"\t", b"\n", b"\0", b"/", b".", b"%", b"?", b"=", b";", b"0", b"\xff"]
) | st.binary(min_size=1, max_size=80)
EDITS = st.lists(
    st.tuples(st.sampled_from(PLACES), st.integers(0, 5_000), st.integers(0, 80), BITS),
    min_size=1,
    max_size=2,
)


def edited(request: Request, edits: list[tuple[Any, int, int, bytes]]) -> Request:
    for place, at, removed, bits in edits:
        is_part = place in ("method", "target", "body")
        old = getattr(request, place) if is_part else request.headers.get(place, b"")
        at %= len(old) + 1
        new = old[:at] + bits + old[at + removed :]
        request = altered(request, **{place: new}) if is_part else with_header(request, place, new)
    return request


@settings(max_examples=400)
@given(st.sampled_from([*PLAIN.values(), *RARE.values()]), EDITS, st.integers(-1_000, 1_000))
def test_nobody_is_recognised_who_would_not_be_judged_so(
    request: Request, edits: list[tuple[Any, int, int, bytes]], shift: int
) -> None:
    changed = edited(request, edits)
    if proved_by_all(changed, request, NOW + shift) is not None:
        assert judged(changed, NOW + shift) == PRINCIPAL


@given(st.sampled_from(sorted(PLAIN)), st.data())
def test_without_one_of_its_headers_a_request_ends_as_it_is_judged(
    name: str, data: st.DataObject
) -> None:
    request = PLAIN[name]
    changed = with_header(request, data.draw(st.sampled_from(sorted(request.headers))), None)
    assert (proved_by_all(changed, request) or judged(changed)) == judged(changed)


@given(st.binary(max_size=200), st.binary(max_size=30), st.binary(max_size=80))
def test_garbage_is_nobodys(authorization: bytes, target: bytes, value: bytes) -> None:
    original = PLAIN["typical"]
    for start in (b"", known(original).start, known(original).start + b"Signature="):
        headers = dict.fromkeys([*original.headers, b"x-amz-content-sha256"], value)
        headers |= {b"authorization": start + authorization, b"x-amz-date": value}
        assert proved_by_all(Request(value, target, "1.1", headers, True, value), original) is None


# --- what the owner of the key signs, whatever it is ---------------------------------------------


def signed_anyhow(
    headers: Headers,
    names: tuple[bytes, ...] = (b"host",),
    *,
    target: bytes = b"/",
    method: bytes = b"POST",
    date: bytes = DATE,
    body: bytes = b"{}",
) -> Request:
    """As it is, where an SDK would first make it canonical."""
    payload = hashlib.sha256(body).hexdigest().encode()
    lines = b"".join(name + b":" + headers[name] + b"\n" for name in names)
    joined = b";".join(names)
    text = b"\n".join((method, target, b"", lines, joined, payload))
    twin = _sigv4_ref.Proof(SIGNING_KEY, SCOPE, MIDNIGHT, names, PRINCIPAL)
    credential = ACCESS_KEY.encode() + b"/" + SCOPE
    start = b"AWS4-HMAC-SHA256 Credential=%b, SignedHeaders=%b, " % (credential, joined)
    authorization = start + b"Signature=" + twin.signature(date, text)
    made = {b"x-amz-date": date, b"authorization": authorization} | headers
    return Request(method, target, "1.1", made, True, body)


def test_what_is_canonical_already_is_recognised() -> None:
    request = signed_anyhow({b"host": b"h"})
    assert judged(request) == PRINCIPAL
    assert proved_by_all(request, request) is PRINCIPAL


@pytest.mark.parametrize(
    "target",
    [
        *(b"", b"a", b"*", b"//", b"/a//b", b"/.", b"/..", b"/./a", b"/a/../b", b"/.a", b"/a/.b"),
        *(b"/%41", b"/a b", b"/a:b", b"/a+b", b"/?", b"/a?b=c", b"/\xff", b"http://h/a", b"/a\0"),
    ],
)
def test_a_path_that_has_another_form_is_left_to_others(target: bytes) -> None:
    request = signed_anyhow({b"host": b"h"}, target=target)
    assert proved_by_all(request, request) is None


@pytest.mark.parametrize("value", [b"a  b", b"a\tb", b"\t", b"  ", b"a  ", b"\ta", b" \t "])
def test_white_space_that_has_another_form_is_left_to_others(value: bytes) -> None:
    for other in (b"", b"a", b" "):
        for pair in ((value, other), (other, value)):
            headers = dict(zip((b"host", b"x-note"), pair, strict=True))
            request = signed_anyhow(headers, (b"host", b"x-note"))
            assert proved_by_all(request, request) is None


@pytest.mark.parametrize("shift", [0, 43_200, -43_200, 60, 3_600])
@pytest.mark.parametrize(
    "date",
    [
        *(b"20260131T240000Z", b"20260131T126000Z", b"20260131T120060Z", b"20260130T120000Z"),
        *(b"20260131t120000Z", b"20260131T120000z", b"20260131T1200 0Z", b"20260131T12000/Z"),
        *(b"20260131T12000:Z", b"20260131T120000Z0", b"20260131T120000", b"20260131", b""),
        *(b"20260131T-10000Z", b"20260131T+10000Z", b"20260131T1:0000Z", b"20260201T000000Z"),
    ],
)
def test_a_date_that_is_none_or_of_another_day_proves_nothing(date: bytes, shift: int) -> None:
    request = signed_anyhow({b"host": b"h"}, date=date)
    assert proved_by_all(request, request, NOW + shift) is None


@pytest.mark.parametrize("mark", [b"", b"signature=", b"Signature:", b"=", b"XSignature="])
def test_a_signature_is_announced(mark: bytes) -> None:
    request = signed_anyhow({b"host": b"h"})
    authorization = request.headers[b"authorization"].replace(b"Signature=", mark)
    changed = with_header(request, b"authorization", authorization)
    assert proved_by_all(changed, request) is None


def test_an_authorization_may_be_cut_off_anywhere() -> None:
    request = signed_anyhow({b"host": b"h"})
    authorization = request.headers[b"authorization"]
    for size in range(len(authorization)):
        for part in (authorization[:size], authorization[-size:] if size else b""):
            changed = with_header(request, b"authorization", part)
            assert proved_by_all(changed, request) is None


def test_a_hash_that_is_announced_is_the_real_one() -> None:
    real = hashlib.sha256(b"{}").hexdigest().encode()
    for announced in (real, real.upper(), real[:-1], real + b"0", b"", b"UNSIGNED-PAYLOAD"):
        headers = {b"host": b"h", b"x-amz-content-sha256": announced}
        for names in ((b"host",), (b"host", b"x-amz-content-sha256")):
            request = signed_anyhow(headers, names)
            expected = PRINCIPAL if announced == real else None
            assert proved_by_all(request, request) is expected


@settings(max_examples=200)
@given(
    st.text("ab/.%~ ", max_size=6).map(lambda path: b"/" + path.encode()) | st.binary(max_size=4),
    st.sampled_from([b"POST", b"GET", b"", b"P  T", b"\t"]) | st.binary(max_size=4),
    st.text("a \t\n", max_size=6).map(str.encode) | st.binary(max_size=4),
    st.text("0123456789TZ", max_size=3).map(lambda text: DATE[:-4] + text.encode() + b"Z"),
    st.integers(-1_000, 1_000),
)
def test_the_owner_of_a_key_is_recognised_only_by_what_would_be_judged_so(
    target: bytes, method: bytes, value: bytes, date: bytes, shift: int
) -> None:
    headers = {b"host": b"h", b"x-note": value}
    for chosen in (DATE, date):
        request = signed_anyhow(
            headers, (b"host", b"x-note"), target=target, method=method, date=chosen
        )
        if proved_by_all(request, request, NOW + shift) is not None:
            assert judged(request, NOW + shift) == PRINCIPAL


def test_the_longest_text_is_recognised_and_a_longer_one_is_not() -> None:
    names = (b"host", b"x-note")
    frame = len(b"POST\n/\n\nhost:\nx-note:\n\nhost;x-note\n") + 64
    room = _sigv4_ref.TEXT_BYTES_MAX - frame
    for total in (*range(room - 70, room + 70), room + 4_096, 100_000):
        for at in (0, 1, total // 2, total):
            request = signed_anyhow({b"host": b"h" * at, b"x-note": b"x" * (total - at)}, names)
            expected = PRINCIPAL if total <= room else None
            assert proved_by_all(request, request) is expected


@pytest.mark.parametrize("count", [1, 2, 100, 700])
def test_any_number_of_names_is_looked_at(count: int) -> None:
    names = tuple(b"n%d" % number for number in range(count))
    request = signed_anyhow(dict.fromkeys(names, b""), names)
    assert proved_by_all(request, request) is (PRINCIPAL if count < 700 else None)


def test_a_space_at_the_end_of_anything_is_only_a_space() -> None:
    for value in (b" ", b" a", b"a ", b" a "):
        request = signed_anyhow({b"host": value, b"x-note": value}, (b"host", b"x-note"))
        assert proved_by_all(request, request) is PRINCIPAL


@pytest.mark.parametrize("odd", [None, "text", 7, b"x" * 3, bytearray(64), memoryview(b"x"), [b""]])
@pytest.mark.parametrize(
    "name", [b"authorization", b"x-amz-date", b"x-amz-content-sha256", b"host", b"x-amz-target"]
)
def test_a_value_of_any_type_is_only_looked_at(name: bytes, odd: object) -> None:
    request = PLAIN["announced hash"]
    headers: Headers = {**request.headers, name: odd}
    assert proved_by_all(altered(request, headers=headers), request) is None


def test_bytes_of_another_class_are_no_reason_to_fail() -> None:
    class Odd(bytes):
        pass

    request = PLAIN["typical"]
    headers: Headers = {name: Odd(value) for name, value in request.headers.items()}
    for module in MODULES:
        found = proved(module, altered(request, headers=headers), request)
        assert found in (None, PRINCIPAL)


@pytest.mark.parametrize(
    ("key_bytes", "scope_bytes"), [(0, 8), (31, 8), (33, 8), (64, 8), (32, 0), (32, 7), (32, 65)]
)
def test_a_key_or_scope_of_an_impossible_length_is_refused(
    key_bytes: int, scope_bytes: int
) -> None:
    for module in MODULES:
        with pytest.raises(ValueError):
            module.Proof(bytes(key_bytes), bytes(scope_bytes), 0, (), None)


@compiled_only
@pytest.mark.parametrize(
    "call",
    [
        lambda prove, proof: prove(None, PLAIN["typical"], 0),
        lambda prove, proof: prove({}, None, 0),
        lambda prove, proof: prove({}, b"POST / HTTP/1.1", 0),
        lambda prove, proof: prove({}, PLAIN["typical"], None),
        lambda prove, proof: proof(None, SCOPE, 0, (), None),
        lambda prove, proof: proof(bytes(32), SCOPE, 0, None, None),
        lambda prove, proof: proof(bytes(32), SCOPE, 0, ("host",), None),
        lambda prove, proof: proof(bytes(32), SCOPE, 0, (None,), None),
    ],
)
def test_arguments_of_another_type_are_refused(call: Callable[[Any, Any], object]) -> None:
    with pytest.raises(TypeError):
        call(_sigv4.prove, _sigv4.Proof)


@compiled_only
def test_what_is_no_proof_is_refused() -> None:
    request = PLAIN["typical"]
    proofs: Any = {known(request).start: object()}
    with pytest.raises(TypeError):
        _sigv4.prove(proofs, request, NOW)
