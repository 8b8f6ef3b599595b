"""The Query protocol against the JSON protocol, and its compiled kernel against the twin: ratios,
measured like the functions of `test_native.py`.

Both codecs read the same requests, as SDKs send them, and write the same answers. Held to 2.5 times
JSON: the codecs over one request of each kind, and the whole path of any request, bytes in to bytes
out, with a handler that answers at once. The codecs on a single request have a wider ceiling, to
catch a fast path that was lost: beside a JSON codec of a microsecond, every call shows.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import pytest
from msgspec import Struct
from pytest_benchmark.fixture import BenchmarkFixture

from bench.sqs_requests import USER_AGENT, message_body
from bench.test_native import best_seconds
from fastnode import _query_ref, native
from fastnode.http.codec import Codec, Operation
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request, RequestParser
from fastnode.http.identity import IdentitySettings
from fastnode.http.json_codec import CONTENT_TYPE, JsonCodec
from fastnode.http.query_codec import QueryCodec
from fastnode.http.query_plans import read_plan, write_plan
from fastnode.http.router import Router
from fastnode.queue import api
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.retry import Gates

PATH_CEILING = 2.5
MIX_CEILING = 2.5
CODEC_CEILING = 4.0
READ_FLOOR, WRITE_FLOOR = 5.0, 6.0
REQUEST_ID = "6f1c4a52-0d3e-4b77-9c18-000000000000"
AUTHORIZATION = (
    b"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/sqs/aws4_request,"
    b" SignedHeaders=host, Signature=0"
)
URL = "http://127.0.0.1:9324/000000000000/orders"
HANDLE = native.encode_receipt(bytes(16), 3, bytes(16), 1)
MESSAGE_ID, DIGEST = REQUEST_ID, "0" * 32
BODIES = [message_body(serial) for serial in range(10)]
MESSAGES = [api.Message(MESSAGE_ID, HANDLE, DIGEST, body) for body in BODIES]


@dataclass(frozen=True)
class Case:
    """One request in both protocols, and the answer to it."""

    action: str
    members: dict[str, Any]
    answer: Struct | None

    @property
    def operation(self) -> Operation:
        return OPERATIONS[self.action]

    @property
    def json_request(self) -> Request:
        headers = {b"content-type": CONTENT_TYPE, b"x-amz-target": b"AmazonSQS." + self.name}
        return Request(b"POST", b"/", "1.1", headers, True, json.dumps(self.members).encode())

    @property
    def query_request(self) -> Request:
        form: dict[str, Any] = {"Action": self.action, "Version": "2012-11-05"}
        for member, value in self.members.items():
            if member != "Entries":
                form[member] = value
                continue
            for index, entry in enumerate(value, start=1):
                head = f"{self.action}RequestEntry.{index}"
                form |= {f"{head}.{name}": text for name, text in entry.items()}
        headers = {b"content-type": b"application/x-www-form-urlencoded; charset=utf-8"}
        return Request(b"POST", b"/", "1.1", headers, True, urlencode(form).encode())

    @property
    def name(self) -> bytes:
        return self.action.encode()


CASES = [
    Case(
        "SendMessage",
        {"QueueUrl": URL, "MessageBody": BODIES[0]},
        api.SendMessageResponse(MESSAGE_ID, DIGEST),
    ),
    Case(
        "SendMessageBatch",
        {
            "QueueUrl": URL,
            "Entries": [{"Id": str(n), "MessageBody": body} for n, body in enumerate(BODIES)],
        },
        api.SendMessageBatchResponse(
            [api.SendMessageBatchResultEntry(str(n), MESSAGE_ID, DIGEST) for n in range(10)]
        ),
    ),
    Case(
        "ReceiveMessage",
        {"QueueUrl": URL, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 20},
        api.ReceiveMessageResponse(MESSAGES),
    ),
    Case("DeleteMessage", {"QueueUrl": URL, "ReceiptHandle": HANDLE}, None),
    Case(
        "DeleteMessageBatch",
        {
            "QueueUrl": URL,
            "Entries": [{"Id": str(n), "ReceiptHandle": HANDLE} for n in range(10)],
        },
        api.DeleteMessageBatchResponse(
            [api.DeleteMessageBatchResultEntry(str(n)) for n in range(10)]
        ),
    ),
]
Sides = list[Callable[..., object]]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.action)


def report(label: str, query: float, other: float, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        figures = f"{query * 1e6:9.2f} µs{other * 1e6:11.2f} µs {query / other:6.2f}x"
        print(f"\n{label:34}{figures}", end="")


# --- the codecs alone ---------------------------------------------------------------------------

JSON, QUERY = JsonCodec(OPERATIONS), QueryCodec(OPERATIONS)


def served(codec: Codec, request: Request, answer: Struct | None) -> Callable[[], object]:
    """All that a router asks of a codec for one request."""

    def serve() -> object:
        operation = codec.operation_of(request)
        decoded = codec.decode(operation, request)
        return decoded, codec.encode(operation, answer, REQUEST_ID)

    return serve


@each_case
def test_query_codec_beside_the_json_codec(
    case: Case, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    query = served(QUERY, case.query_request, case.answer)
    by_json = served(JSON, case.json_request, case.answer)
    assert benchmark(query)[0] == by_json()[0]  # type: ignore[index]  # a pair, seen as an object
    if not benchmark.disabled:
        ours, theirs = best_seconds([query, by_json], ())
        report(f"codec {case.action}", ours, theirs, capsys)
        assert ours / theirs <= CODEC_CEILING


def test_query_codec_beside_the_json_codec_on_a_mix(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """One request of each kind."""
    query = [served(QUERY, case.query_request, case.answer) for case in CASES]
    by_json = [served(JSON, case.json_request, case.answer) for case in CASES]

    def serve(all_of_them: list[Callable[[], object]]) -> None:
        for each in all_of_them:
            each()

    benchmark(serve, query)
    if not benchmark.disabled:
        sides: Sides = [lambda: serve(query), lambda: serve(by_json)]
        # The margin is narrow, so a busy machine gets several chances to be quiet for a moment.
        rounds = [best_seconds(sides, ()) for _ in range(5)]
        ours, theirs = map(min, zip(*rounds, strict=True))
        report("codec, one of each", ours, theirs, capsys)
        assert ours / theirs <= MIX_CEILING


# --- the whole path of a request ----------------------------------------------------------------


class Answered:
    """What a router asks of its service when the handlers do without one."""

    def __init__(self) -> None:
        self.gates = Gates()


class Client:
    """Stands for a connection: hands requests to a router and frames its answers."""

    has_ended = False
    peer = ("127.0.0.1", 50_000)

    def __init__(self, case: Case) -> None:
        async def answer_at_once(*_: object) -> Struct | None:
            return case.answer

        operation = replace(OPERATIONS[case.action], handler=answer_at_once)
        self._parser = RequestParser()
        self._router = Router(
            {case.action: operation},
            Answered(),
            IdentitySettings("us-east-1", "http://127.0.0.1:9324"),
            lambda: REQUEST_ID,
            logging.getLogger("bench"),
        )

    def serve(self, packet: bytes) -> bytes:
        request = self._parser.take_whole(packet)
        assert request is not None
        exchange = Exchange(self, request)
        self._router.respond(request, exchange)
        parts: list[bytes] = []
        exchange.append_to(parts, is_last=False)
        return b"".join(parts)

    def write_alone(self, exchange: Exchange, response: bytes) -> bool:
        return False

    def on_answer(self, _exchange: Exchange) -> None:
        """Answers are taken from the exchange."""


def packet(request: Request) -> bytes:
    """As an SDK sends it, but for the signature: what checking one costs is not the question."""
    headers = {
        b"host": b"127.0.0.1:9324",
        b"accept-encoding": b"identity",
        b"user-agent": USER_AGENT.encode(),
        b"authorization": AUTHORIZATION,
        # Keeps the short way of plain sends out: Query has none.
        b"x-amzn-trace-id": b"Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1",
        b"content-length": b"%d" % len(request.body),
    }
    lines = [b"%b: %b\r\n" % line for line in (headers | request.headers).items()]
    return b"POST / HTTP/1.1\r\n" + b"".join(lines) + b"\r\n" + request.body


@each_case
def test_query_path_beside_the_json_path(
    case: Case, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Client(case)
    query, by_json = packet(case.query_request), packet(case.json_request)
    assert benchmark(client.serve, query).startswith(b"HTTP/1.1 200 ")
    assert client.serve(by_json).startswith(b"HTTP/1.1 200 ")
    if not benchmark.disabled:
        ours, theirs = best_seconds(
            [lambda: client.serve(query), lambda: client.serve(by_json)], ()
        )
        report(f"path {case.action}", ours, theirs, capsys)
        assert ours / theirs <= PATH_CEILING


# --- the kernel ---------------------------------------------------------------------------------


@each_case
def test_compiled_kernel_beats_its_twin(
    case: Case, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    form, plan = case.query_request.body, read_plan(case.operation.request)
    readers: Sides = [native.FormReader(plan).read, _query_ref.FormReader(plan).read]
    assert benchmark(readers[0], form) == readers[1](form)
    if benchmark.disabled:
        return
    ours, theirs = best_seconds(readers, (form,))
    report(f"twin reads {case.action}", theirs, ours, capsys)
    assert theirs / ours >= READ_FLOOR
    if case.operation.response is not None:
        elements = write_plan(case.operation.response)
        writers: Sides = [native.XmlWriter(elements).write, _query_ref.XmlWriter(elements).write]
        ours, theirs = best_seconds(writers, (case.answer,))
        report(f"twin writes {case.action}", theirs, ours, capsys)
        assert theirs / ours >= WRITE_FLOOR
