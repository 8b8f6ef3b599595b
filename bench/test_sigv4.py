"""What proof costs: a verified signature against the bare SHA-256 of the same body, in one run.

Four hashes cannot be avoided (body, canonical request, two for the HMAC); the ceilings say how much
may come on top. They are far above what is measured: they catch a cache that was lost, not a bad
afternoon. Beside the ratio the microseconds are printed, for a reader. Then the compiled proof
against its twin, like the functions of `test_native.py`.
"""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import machine
from bench.sqs_requests import SIGNED_HEADERS, Signer, message_body
from bench.test_native import best_seconds
from fastnode import _http_ref, _sigv4_ref, native
from fastnode.http.http1 import Request, RequestParser
from fastnode.http.identity import IdentitySettings, identity_of
from fastnode.http.sigv4 import Key, Verifier
from tests.unit.http.signed_requests import parts_of

SIGNED_AT = datetime(2026, 1, 1, tzinfo=UTC)
SIGNER = Signer("127.0.0.1:9324", SIGNED_AT)
QUEUE_URL = "http://127.0.0.1:9324/000000000000/orders"
# Body characters → how many bare hashes a verification may cost.
CEILINGS = {200: 12.0, 65_536: 3.0}
PROOF_FLOOR = 4.0


def received(characters: int) -> Request:
    members = {"QueueUrl": QUEUE_URL, "MessageBody": message_body(1, characters)}
    parser = RequestParser()
    parser.feed(SIGNER.request("SendMessage", members, 0))
    request = parser.next_event()
    assert isinstance(request, Request)
    return request


@pytest.mark.parametrize("characters", CEILINGS)
def test_proof_costs_little_more_than_the_hash_of_the_body(
    characters: int, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {SIGNER.access_key: Key(SIGNER.secret_key, "123456789012")}
    verifier = Verifier(keys, lambda: int(SIGNED_AT.timestamp()))
    identity = identity_of(IdentitySettings("us-east-1", "http://e", verifier=verifier))
    request = received(characters)
    assert benchmark(identity.caller, request).account == "123456789012"
    if benchmark.disabled:
        return
    proof, bare = best_seconds(
        [lambda: identity.caller(request), lambda: hashlib.sha256(request.body).digest()], ()
    )
    with capsys.disabled():
        figures = f"{proof * 1e6:9.1f} us{bare * 1e6:9.2f} us {proof / bare:6.1f}x"
        print(f"\nsignature, {characters:6} characters{figures}", end="")
    ceiling = CEILINGS[characters]
    assert proof / bare <= ceiling, f"{proof / bare:.1f} bare hashes, {ceiling} allowed"


# Most of a compiled proof is SHA-256, so the baseline has a row for each kind of processor.
@pytest.mark.parametrize("sha256_by", [machine.sha256_by(Path("/proc/cpuinfo").read_text())])
def test_compiled_proof_beats_its_twin(
    sha256_by: str, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    request, now = received(200), int(SIGNED_AT.timestamp())
    scope = f"{SIGNED_AT:%Y%m%d}/{SIGNER.region}/sqs/aws4_request"
    start = request.headers[b"authorization"].rpartition(b"Signature=")[0]
    names = tuple(name.encode() for name in SIGNED_HEADERS)
    common = (SIGNER.signing_key(scope), scope.encode(), now, names, "somebody")
    own = _http_ref.Request(**parts_of(request))
    compiled, twin = {start: native.Proof(*common)}, {start: _sigv4_ref.Proof(*common)}
    proved = benchmark(native.prove, compiled, request, now)
    assert proved == _sigv4_ref.prove(twin, own, now) == "somebody"
    if benchmark.disabled:
        return
    ours, theirs = best_seconds(
        [
            lambda: native.prove(compiled, request, now),
            lambda: _sigv4_ref.prove(twin, own, now),
        ],
        (),
    )
    benchmark.extra_info["times_faster_than_twin"] = round(theirs / ours, 2)
    with capsys.disabled():
        figures = f"{ours * 1e9:9.0f} ns{theirs * 1e9:11.0f} ns {theirs / ours:6.1f}x"
        print(f"\n{f'prove, by {sha256_by}':22}{figures}", end="")
    assert theirs / ours >= PROOF_FLOOR, f"{theirs / ours:.1f} times faster, {PROOF_FLOOR} wanted"
