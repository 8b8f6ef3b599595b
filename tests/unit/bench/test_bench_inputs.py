"""What the whole-node benchmark sends and reads: signed requests, metrics, machine facts."""

from datetime import UTC, datetime
from http.client import parse_headers
from io import BytesIO
from pathlib import Path

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from bench import machine, server_process, sqs_requests

SIGNER = sqs_requests.Signer("127.0.0.1:9324", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


def parsed(request: bytes) -> tuple[dict[str, str], bytes]:
    line, _, rest = request.partition(b"\r\n")
    assert line == b"POST / HTTP/1.1"
    stream = BytesIO(rest)
    headers = dict(parse_headers(stream).items())
    return headers, stream.read()


def test_the_signature_is_the_one_botocore_computes() -> None:
    headers, body = parsed(SIGNER.request("SendMessage", {"QueueUrl": "u", "MessageBody": "b"}))
    signed = ("Host", "X-Amz-Target", "Content-Type")
    request = AWSRequest("POST", "http://127.0.0.1:9324/", {n: headers[n] for n in signed}, body)
    request.context["timestamp"] = headers["X-Amz-Date"]
    auth = SigV4Auth(Credentials(SIGNER.access_key, SIGNER.secret_key), "sqs", SIGNER.region)
    request.headers["X-Amz-Date"] = headers["X-Amz-Date"]
    text = auth.string_to_sign(request, auth.canonical_request(request))
    assert headers["Authorization"].endswith(f"Signature={auth.signature(text, request)}")


def test_a_request_carries_the_headers_of_an_sdk_and_its_true_length() -> None:
    headers, body = parsed(SIGNER.request("SendMessage", {"MessageBody": "ü"}, serial=7))
    assert int(headers["Content-Length"]) == len(body)
    assert headers["amz-sdk-invocation-id"].endswith("7")
    assert {"Host", "User-Agent", "X-Amz-Target", "amz-sdk-request"} <= headers.keys()


def test_message_bodies_have_200_bytes_and_differ() -> None:
    bodies = {sqs_requests.message_body(serial) for serial in range(100)}
    assert len(bodies) == 100
    assert {len(body.encode()) for body in bodies} == {200}


def test_metrics_are_summed_over_their_labels() -> None:
    text = """# HELP a_total help {
# TYPE a_total counter
a_total{action="Send Message",status="200"} 3
a_total{action="}",status="400"} 4 1700000000
b 1.5e3
"""
    assert server_process.parse_metrics(text) == {"a_total": 7.0, "b": 1500.0}


def test_the_nearest_and_latest_mount_names_the_filesystem() -> None:
    mounts = "\n".join(
        ["root / ext4 rw 0 0", "x /data xfs rw 0 0", "y /data tmpfs rw 0 0", "z /data2 btrfs rw"]
    )
    assert machine.filesystem_of(Path("/home/me"), mounts) == "ext4"
    assert machine.filesystem_of(Path("/data/a"), mounts) == "tmpfs"


def test_a_processor_says_whether_it_has_instructions_for_sha256() -> None:
    assert machine.sha256_by("flags\t\t: fpu avx2 sha_ni umip\n") == "instructions"
    assert machine.sha256_by("Features\t: fp asimd sha1 sha2\n") == "instructions"
    assert machine.sha256_by("flags\t\t: fpu avx2 avx512_vnni\n") == "arithmetic"


def test_the_cpu_model_is_the_first_one_listed() -> None:
    assert machine.cpu_model("processor : 0\nmodel name\t: Fast CPU\n") == "Fast CPU"
    assert machine.cpu_model("")
