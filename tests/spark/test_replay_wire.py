"""Requests and answers of the replay on the wire: signatures, bodies, the two HTTP readers."""

import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials
from hypothesis import given
from hypothesis import strategies as st

from spark_load.replay import answers, http1
from spark_load.replay.attempts import Lost
from spark_load.replay.http1 import Answer, BadAnswer, PlainReader, QuickReader, Reader
from spark_load.replay.judgement import judge
from spark_load.replay.operations import Operation, Outgoing
from spark_load.replay.requests import QueueTarget, message_text, operation_body
from spark_load.replay.signing import Credentials, Signer
from spark_load.schema import SEND_ACTIONS, TRACE_ACTIONS

READERS: list[Callable[[], Reader]] = [PlainReader, *([QuickReader] if http1.IS_QUICK else [])]
PLAIN = QueueTarget("plain", "http://h/1/plain", "00c0ffee")
FIFO = QueueTarget("a.fifo", "http://h/1/a.fifo", "00c0ffee")
BODY = b'{"MessageId":"m"}'
WHOLE = b"HTTP/1.1 200 OK\r\nX-Fastnode-Receive: a\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b"5;x=y\r\n" + BODY[:5] + b"\r\n%x\r\n" % len(BODY[5:]) + BODY[5:] + b"\r\n0\r\nT: 1\r\n\r\n"
)
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE
CLOSING = WHOLE.replace(b"\r\n", b"\r\nconnection: Close\r\n", 1)


@pytest.fixture(params=READERS)
def make_reader(request: pytest.FixtureRequest) -> Callable[[], Reader]:
    made: Callable[[], Reader] = request.param
    return made


def signed(body: bytes, *, token: str | None = None, attempt: int = 1) -> dict[str, str]:
    """The headers of a signed request."""
    at = int(datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC).timestamp())
    signer = Signer(Credentials("AKID", "secret", "eu-west-1", token))
    wire = signer.request(
        host="queue.test:9324",
        action="SendMessage",
        body=body,
        invocation=b"an-id",
        attempt=attempt,
        at_seconds=at,
    )
    head, _, sent = wire.partition(b"\r\n\r\n")
    assert sent == body
    first, *lines = head.decode().split("\r\n")
    assert first == "POST / HTTP/1.1"
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


@pytest.mark.parametrize("token", [None, "a/session+token"])
@pytest.mark.parametrize("body", [b"{}", b'{"MessageBody":"\xc3\xa4"}'])
def test_signature_is_the_one_of_the_aws_sdk(
    body: bytes, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = signed(body, token=token)
    request = AWSRequest("POST", "http://queue.test:9324/", data=body)
    request.headers["Host"] = "queue.test:9324"
    for name in ("content-type", "x-amz-target"):
        request.headers[name] = headers[name]
    moment = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: moment)
    botocore.auth.SigV4Auth(BotoCredentials("AKID", "secret", token), "sqs", "eu-west-1").add_auth(
        request
    )
    assert headers["authorization"] == request.headers["Authorization"]
    assert headers["x-amz-date"] == request.headers["X-Amz-Date"]
    assert headers.get("x-amz-security-token") == token


def test_attempts_of_a_call_have_one_signature_and_invocation() -> None:
    first, second = signed(b"{}"), signed(b"{}", attempt=2)
    assert first["amz-sdk-request"] == "attempt=1"
    assert second == {**first, "amz-sdk-request": "attempt=2"}
    assert first["amz-sdk-invocation-id"] == "an-id"


def test_hand_made_hmac_is_the_one_of_the_library() -> None:
    headers = signed(b"{}")
    signature = headers["authorization"].rpartition("=")[2]
    names = ("content-type", "host", "x-amz-date", "x-amz-target")
    listed = "".join(f"{name}:{headers[name]}\n" for name in names)
    body_hash = hashlib.sha256(b"{}").hexdigest()
    canonical = f"POST\n/\n\n{listed}\n{';'.join(names)}\n{body_hash}"
    key = b"AWS4secret"
    for part in ("20260301", "eu-west-1", "sqs", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    to_sign = (
        "AWS4-HMAC-SHA256\n20260301T120005Z\n20260301/eu-west-1/sqs/aws4_request\n"
        + hashlib.sha256(canonical.encode()).hexdigest()
    )
    assert signature == hmac.new(key, to_sign.encode(), "sha256").hexdigest()


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(Credentials("AKID", "secret", "eu-west-1", "token"))


def test_body_begins_with_its_key_and_has_its_size() -> None:
    assert message_text("0123abcd-5-0", 30) == "0123abcd-5-0 abcdefghijklmnopq"
    assert len(message_text("0123abcd-5-0", 1_048_576)) == 1_048_576
    assert message_text("0123abcd-5-0", 3) == "0123abcd-5-0"


@given(st.text(min_size=1), st.integers(0, 900))
def test_send_says_what_the_operation_says(group: str, delay: int) -> None:
    message = Outgoing("0123abcd-5-0", 20, delay, "same")
    operation = Operation(5, 0, "plain", "SendMessage", group, [message])
    text = message_text("0123abcd-5-0", 20)
    assert json.loads(operation_body(PLAIN, operation)) == {
        "QueueUrl": "http://h/1/plain",
        "MessageBody": text,
        "DelaySeconds": delay,
        "MessageGroupId": group,
    }
    assert json.loads(operation_body(FIFO, operation)) == {
        "QueueUrl": "http://h/1/a.fifo",
        "MessageBody": text,
        "MessageGroupId": group,
        "MessageDeduplicationId": "same-00c0ffee",
    }


def test_fifo_message_without_deduplication_id_gets_its_key() -> None:
    messages = [Outgoing(f"0123abcd-5-{index}", 20, None, None) for index in range(2)]
    operation = Operation(5, 0, "a.fifo", "SendMessageBatch", "g", messages)
    entries = json.loads(operation_body(FIFO, operation))["Entries"]
    assert [entry["Id"] for entry in entries] == ["0", "1"]
    assert entries[1]["MessageDeduplicationId"] == "0123abcd-5-1-00c0ffee"


def test_long_deduplication_ids_stay_equal_and_short_enough() -> None:
    def dedup(text: str, target: QueueTarget) -> str:
        message = Outgoing("0123abcd-5-0", 20, None, text)
        body = operation_body(target, Operation(5, 0, "a.fifo", "SendMessage", "g", [message]))
        return str(json.loads(body)["MessageDeduplicationId"])

    long = "x" * 128
    assert dedup(long, FIFO) == dedup(long, FIFO) != dedup("y" * 128, FIFO)
    assert len(dedup(long, FIFO)) <= 128
    assert dedup(long, FIFO) != dedup(long, QueueTarget("a.fifo", "http://h/1/a.fifo", "0"))


@pytest.mark.parametrize("action", TRACE_ACTIONS)
def test_every_action_of_a_trace_has_a_body(action: str) -> None:
    messages = [Outgoing("0123abcd-5-0", 20, None, None)] if action in SEND_ACTIONS else []
    target = QueueTarget("plain", "http://h/1/my-plain", "00c0ffee")
    body = operation_body(target, Operation(5, 0, "plain", action, None, messages))
    assert "my-plain" in str(json.loads(body))


@pytest.mark.parametrize("data", [WHOLE, CHUNKED, CONTINUED, CLOSING])
@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
def test_answer_is_read_however_it_is_cut(
    make_reader: Callable[[], Reader], data: bytes, size: int
) -> None:
    reader = make_reader()
    # A connection that closes has one answer, any other has more.
    for _ in range(1 if data is CLOSING else 2):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        *early, last = map(reader.feed, pieces)
        assert early == [None] * len(early)
        assert last is not None
        assert (last.status, last.body, last.closes) == (200, BODY, data is CLOSING)


def test_headers_are_found_in_any_case(make_reader: Callable[[], Reader]) -> None:
    answer = make_reader().feed(WHOLE)
    assert answer is not None
    assert answer.header("x-fastnode-receive") == "a"
    assert answer.header("absent") is None


def test_answer_without_length_ends_with_the_connection(make_reader: Callable[[], Reader]) -> None:
    reader = make_reader()
    assert reader.feed(b"HTTP/1.1 500 No\r\n\r\nsor") is None
    assert reader.feed(b"ry") is None
    answer = reader.end()
    assert answer is not None
    assert (answer.status, answer.body, answer.closes) == (500, b"sorry", True)


@pytest.mark.parametrize("data", [b"", WHOLE[:10], WHOLE[:-1], CHUNKED[:-9]])
def test_answer_that_was_cut_off_is_none(make_reader: Callable[[], Reader], data: bytes) -> None:
    reader = make_reader()
    if data:
        assert reader.feed(data) is None
    assert reader.end() is None


@pytest.mark.parametrize("data", [b"SSH-2.0-x\r\n\r\n", WHOLE + WHOLE, WHOLE + b"x"])
def test_what_is_no_answer_is_told(make_reader: Callable[[], Reader], data: bytes) -> None:
    with pytest.raises(BadAnswer):
        make_reader().feed(data)


def answer(body: object, status: int = 200, head: str = "") -> Answer:
    raw = f"HTTP/1.1 {status} X\r\n{head}\r\n".encode()
    return Answer(status, raw, json.dumps(body).encode(), closes=False)


def rows(count: int) -> list[answers.MessageRow]:
    return [answers.BLANK._replace(key=f"0123abcd-5-{index}") for index in range(count)]


def test_error_has_its_name_or_its_status() -> None:
    assert answers.error_name(answer({"__type": "com.amazonaws.sqs#OverLimit"})) == "OverLimit"
    assert answers.error_name(answer([], 502)) == "HTTP 502"


def test_cost_of_a_receive_is_in_its_header() -> None:
    head = "X-Fastnode-Receive: partitions=3;rows=12;us=450;remote=2\r\n"
    assert answers.cost_of(answer({}, head=head)) == (3, 12, 450, 2)
    assert answers.cost_of(answer({})) == answers.NO_COST


def test_batch_is_settled_entry_by_entry() -> None:
    """What the sender did wrong has no effect; what the server could not do may have one; what the
    answer leaves out nobody knows.
    """
    body = {
        "Successful": [{"Id": "2", "MessageId": "m2", "SequenceNumber": "20"}],
        "Failed": [{"Id": "0", "SenderFault": True}, {"Id": "1", "SenderFault": False}],
    }
    settled = answers.settle_send_batch(rows(4), json.dumps(body).encode())
    assert [row.outcome for row in settled] == ["refused", "unknown", "ok", "unknown"]
    assert (settled[2].message_id, settled[2].sequence) == ("m2", "20")


def test_received_messages_are_known_by_their_first_word() -> None:
    message = {
        "MessageId": "m",
        "ReceiptHandle": "h",
        "Body": "0123abcd-5-0 filler",
        "Attributes": {
            "ApproximateReceiveCount": "3",
            "MessageGroupId": "g",
            "SequenceNumber": "9",
        },
    }
    foreign = {"MessageId": "n", "ReceiptHandle": "h", "Body": "hello 0123abcd-5-0"}
    body = json.dumps({"Messages": [message, foreign]}).encode()
    ours, other = answers.received(body)
    assert (ours.key, ours.sequence, ours.group, ours.receives) == ("0123abcd-5-0", "9", "g", 3)
    assert (other.key, other.message_id) == (None, "n")
    assert len(ours.receipt) == 16
    assert ours.receipt == other.receipt != answers.receipt_hash("i")


def test_answer_that_sqs_would_not_give_leaves_us_in_doubt() -> None:
    for action, body in [
        ("SendMessage", "pong"),
        ("SendMessage", {}),
        ("SendMessageBatch", [1]),
        ("ReceiveMessage", {"Messages": [{}]}),
    ]:
        found = judge(action, rows(1), answer(body))
        assert (found.outcome, found.error, found.status) == ("unknown", "BadAnswer", 200)
        assert [row.outcome for row in found.messages] == ["unknown"]


def test_message_that_never_left_had_no_effect() -> None:
    found = judge("SendMessage", rows(1), Lost("unsent", "Connection refused"))
    assert (found.outcome, found.status, found.error) == ("unsent", 0, "Connection refused")
    assert [row.outcome for row in found.messages] == ["refused"]
