"""A real node and clients that misbehave, by raw sockets: the contract's error or a closed
connection, and never a 500, a traceback, a hang or growing memory.

What the parser refuses byte by byte is in `tests/unit/http/test_http1.py` and in `tests/fuzz`; here
a whole node is asked.
"""

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from fastnode.config import HTTP_BODY_BYTES_MAX, HTTP_HEADER_BYTES_MAX, HTTP_HEADER_SECONDS
from tests.nodes import AUTHORIZATION, JsonClient, Node

ANSWER_SECONDS = 60.0
# The flood of one test may leave buffers that the allocator keeps, not more.
GROWTH_MB_MAX = 48
# Of a client that does not read: as many answers as may be open at once, 1 MB each, and one more
# buffer of them on its way.
UNREAD_MB_MAX = 160


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node") / "data") as running:
        client = JsonClient(running.sqs_url)
        client.call("CreateQueue", QueueName="q")
        client.close()
        yield running
        assert running.stop() == 0, running.stderr_tail()


@pytest.fixture(autouse=True)
def unharmed(node: Node) -> Iterator[None]:
    """After every test: the node answers, its log is clean, its memory is what it was."""
    before = resident_mb(node)
    yield
    client = JsonClient(node.sqs_url)
    client.call("SendMessage", QueueUrl="q", MessageBody="still here")
    client.call("PurgeQueue", QueueUrl="q")
    client.close()
    log = (node.data_dir.parent / f"{node.data_dir.name}.stderr").read_text(errors="replace")
    assert "Traceback" not in log and "level=error" not in log, log[-4_000:]
    assert resident_mb(node) - before <= GROWTH_MB_MAX


def resident_mb(node: Node) -> float:
    pages = int(Path(f"/proc/{node.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_048_576


def connect(node: Node) -> socket.socket:
    address = urlsplit(node.sqs_url)
    return socket.create_connection((address.hostname, address.port), timeout=ANSWER_SECONDS)


def read_all(client: socket.socket) -> bytes:
    """Until the node closes. A reset after the answer counts as closed."""
    received = b""
    try:
        while part := client.recv(65_536):
            received += part
    except ConnectionResetError:
        pass
    return received


def send_all(client: socket.socket, data: bytes) -> None:
    """As far as the node takes it: who is refused early may not get rid of the rest."""
    try:
        client.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


def talk(node: Node, data: bytes) -> bytes:
    """Everything the node says to these bytes before it closes or the client does."""
    with connect(node) as client:
        send_all(client, data)
        client.shutdown(socket.SHUT_WR)
        return read_all(client)


def head(length: int, *lines: bytes) -> bytes:
    start = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n" % length
    return start + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def json_request(action: str, body: bytes) -> bytes:
    lines = [
        b"Content-Type: application/x-amz-json-1.0",
        b"X-Amz-Target: AmazonSQS." + action.encode(),
        b"Authorization: " + AUTHORIZATION.encode(),
    ]
    return head(len(body), *lines) + body


def outcome(answer: bytes) -> tuple[int, str]:
    """Status and error type of the only answer."""
    assert len(re.findall(rb"HTTP/1\.1 [0-9]", answer)) == 1, answer[:500]
    first, _, body = answer.partition(b"\r\n\r\n")
    status = int(first.split(b" ", 2)[1])
    shown = json.loads(body) if b"json" in first and body else {}
    return status, shown.get("__type", "").rpartition("#")[2]


SENT = b'{"QueueUrl":"q","MessageBody":"x"%b}'
ATTRIBUTE = SENT % b',"MessageAttributes":{"a":{"DataType":"Binary","BinaryValue":"%b"}}'
REFUSED_BODIES = {
    "deep lists": ("SendMessage", b"[" * 100_000, "SerializationException"),
    "deep objects": ("SendMessage", b'{"a":' * 100_000, "SerializationException"),
    "deep member": ("SendMessage", b'{"X":' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
    "invalid utf-8": ("SendMessage", SENT.replace(b"x", b"\xff\xfe") % b"", None),
    "half a surrogate": ("SendMessage", SENT.replace(b"x", rb"\ud800") % b"", None),
    "huge number": ("ReceiveMessage", b'{"QueueUrl":"q","WaitTimeSeconds":1e999}', None),
    "endless number": (
        "ReceiveMessage",
        b'{"QueueUrl":"q","WaitTimeSeconds":' + b"9" * 1_000_000 + b"}",
        None,
    ),
    "number in a text": ("SendMessage", b'{"QueueUrl":"q","MessageBody":7}', None),
    "bad base64": ("SendMessage", ATTRIBUTE % b"A", None),
    "base64 with a space": ("SendMessage", ATTRIBUTE % b"AP8= ", None),
    "no json": ("SendMessage", b"Action=SendMessage", "SerializationException"),
    "empty": ("SendMessage", b"", None),
    "null": ("SendMessage", b"null", None),
    "nul bytes": ("SendMessage", bytes(1_000), "SerializationException"),
}


@pytest.mark.parametrize("name", REFUSED_BODIES)
def test_a_bad_body_is_refused_in_the_protocol(node: Node, name: str) -> None:
    action, body, expected = REFUSED_BODIES[name]
    status, error = outcome(talk(node, json_request(action, body)))
    assert status == 400, error
    assert error, "a refusal names its type"
    assert expected is None or error == expected


def test_the_last_of_two_equal_members_counts(node: Node) -> None:
    body = b'{"QueueUrl":"absent","MessageBody":"a","QueueUrl":"q","MessageBody":"b"}'
    assert outcome(talk(node, json_request("SendMessage", body)))[0] == 200
    client = JsonClient(node.sqs_url)
    (message,) = client.call("ReceiveMessage", QueueUrl="q")["Messages"]
    client.close()
    assert message["Body"] == "b"


def test_a_body_over_the_limit_is_refused_and_not_kept(node: Node) -> None:
    for _ in range(8):
        length = HTTP_BODY_BYTES_MAX + 2 * 1_048_576
        answer = talk(node, head(length) + bytes(length))
        assert answer.startswith(b"HTTP/1.1 413 ")


def test_many_bodies_within_the_limit_are_not_kept(node: Node) -> None:
    """Each is a whole request of the largest size, and a message too large."""
    body = SENT % b"" + b" " * (HTTP_BODY_BYTES_MAX - len(SENT))
    long_text = b'{"QueueUrl":"q","MessageBody":"' + b"x" * 2_000_000 + b'"}'
    for _ in range(8):
        assert outcome(talk(node, json_request("SendMessage", long_text)))[0] == 400
        talk(node, json_request("SendMessage", body))


HEADER_FLOODS = {
    "many headers": (b"".join(b"x-%d: 1\r\n" % n for n in range(101)) + b"\r\n", (431,)),
    "one long header": (b"x: " + b"a" * HTTP_HEADER_BYTES_MAX + b"\r\n\r\n", (431,)),
    "an endless header": (b"x: " + b"a" * 4_000_000, (431,)),
    "endless headers": (b"x: y\r\n" * 500_000, (431,)),
    "a header of colons": (b":" * 20_000 + b"\r\n\r\n", (400,)),
}


@pytest.mark.parametrize("name", HEADER_FLOODS)
def test_a_flood_of_headers_is_refused(node: Node, name: str) -> None:
    flood, statuses = HEADER_FLOODS[name]
    answer = talk(node, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + flood)
    assert outcome(answer)[0] in statuses


def test_a_long_target_is_refused(node: Node) -> None:
    answer = talk(node, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert outcome(answer)[0] == 431


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
SMUGGLING = {
    "both lengths": POST
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + SMUGGLED,
    "two lengths": POST
    + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED)
    + SMUGGLED,
    "length twice in one": POST + b"Content-Length: 0, 44\r\n\r\n" + SMUGGLED,
    "folded coding": POST + b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n" + SMUGGLED,
    "lone line feed": POST + b"X: y\nContent-Length: 44\r\n\r\n" + SMUGGLED,
    "space before colon": POST + b"Content-Length : 44\r\n\r\n" + SMUGGLED,
    "lone line feed in a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n0\n\n" + SMUGGLED,
    "coding in disguise": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("name", SMUGGLING)
def test_a_request_with_two_readings_is_the_last_of_its_connection(node: Node, name: str) -> None:
    answer = talk(node, SMUGGLING[name])
    assert outcome(answer)[0] in (400, 501)
    assert b"Connection: close\r\n" in answer


def test_bytes_beyond_ascii_in_a_target_are_answered(node: Node) -> None:
    for target in (b"/\xff\xfe", b"/?Action=\xff", b"/?X-Amz-Credential=\xff&Action=ListQueues"):
        answer = talk(node, b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % target)
        assert 400 <= outcome(answer)[0] < 500


def test_another_protocol_is_told_so_or_closed(node: Node) -> None:
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
    for opening in (hello, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x00" * 100, b"HELO x\r\n\r\n"):
        answer = talk(node, opening)
        assert answer == b"" or 400 <= outcome(answer)[0] <= 505


def test_clients_that_stop_halfway_do_not_slow_others_down(node: Node) -> None:
    """Three hundred of them, at every point of a request."""
    request = json_request("SendMessage", SENT % b"")
    with ExitStack() as stack:
        for number in range(300):
            client = stack.enter_context(connect(node))
            client.sendall(request[: 1 + number * (len(request) - 2) // 300])
        other = JsonClient(node.sqs_url)
        slowest = 0.0
        for _ in range(20):
            started = time.monotonic()
            other.call("SendMessage", QueueUrl="q", MessageBody="x")
            slowest = max(slowest, time.monotonic() - started)
        # A node that waited for one of them would wait as long as it lets one write a head.
        assert slowest < HTTP_HEADER_SECONDS
        other.close()


def test_a_client_that_finished_sending_gets_its_answer(node: Node) -> None:
    answer = talk(node, json_request("SendMessage", SENT % b""))
    assert outcome(answer)[0] == 200


def test_a_client_that_leaves_within_its_body_leaves_nothing(node: Node) -> None:
    for _ in range(50):
        with connect(node) as client:
            client.sendall(json_request("SendMessage", SENT % b"")[:-3])
    other = JsonClient(node.sqs_url)
    assert "Messages" not in other.call("ReceiveMessage", QueueUrl="q")
    other.close()


def test_a_client_that_never_reads_its_answers_is_not_buffered_for(node: Node) -> None:
    """Requests for large answers, as many as the node takes, and not one of them read."""
    sender = JsonClient(node.sqs_url)
    sender.call("SendMessage", QueueUrl="q", MessageBody="x" * 1_000_000)
    before = resident_mb(node)
    body = b'{"QueueUrl":"q","VisibilityTimeout":0}'
    request = json_request("ReceiveMessage", body)
    with connect(node) as client:
        client.settimeout(3)
        try:
            for _ in range(2_000):
                client.sendall(request)
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            pass
        sender.call("SendMessage", QueueUrl="q", MessageBody="others go on")
        grown = resident_mb(node) - before
    sender.close()
    assert grown < UNREAD_MB_MAX


def test_random_bytes_end_in_a_refusal_or_a_close(node: Node) -> None:
    chance = Random(20_260_101)
    request = json_request("SendMessage", SENT % b"")
    for number in range(300):
        data = bytearray(request if number % 2 else chance.randbytes(chance.randrange(1, 2_000)))
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        answer = talk(node, bytes(data))
        assert not re.search(rb"HTTP/1\.1 50[^15]", answer), bytes(data)
