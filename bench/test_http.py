"""The compiled request scanner, alone and inside the parser, against the twin: ratios with floors.

The requests are what an SDK sends. Measured and held like the functions of `test_native.py`: short
alternating slices in one process, floors well under what is measured.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.sqs_requests import Signer, message_body
from bench.test_native import best_seconds
from fastnode import _http_ref, native
from fastnode.http.http1 import Request, RequestParser

SIGNER = Signer("127.0.0.1:9324", datetime(2026, 1, 1, tzinfo=UTC))
QUEUE_URL = "http://127.0.0.1:9324/000000000000/orders"
SEND = SIGNER.request("SendMessage", {"QueueUrl": QUEUE_URL, "MessageBody": message_body(1)}, 0)
SDK_EXTRAS = b"x-amzn-query-mode: true\r\nConnection: keep-alive\r\n\r\n"
REQUESTS = {
    "12 headers": SEND.replace(b"\r\n\r\n", b"\r\n" + SDK_EXTRAS, 1),
    "health check": b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:9324\r\n\r\n",
    "body to come": SEND[:-100],
}
SCAN_FLOORS = {"12 headers": 4.5, "health check": 5.0, "body to come": 4.5}
PARSER_FLOOR = 3.0


def compare(
    label: str,
    floor: float,
    compiled: Callable[[], object],
    twin: Callable[[], object],
    capsys: pytest.CaptureFixture[str],
    benchmark: BenchmarkFixture,
) -> None:
    ours, theirs = best_seconds([compiled, twin], ())
    benchmark.extra_info["times_faster_than_twin"] = round(theirs / ours, 2)
    with capsys.disabled():
        figures = f"{ours * 1e9:9.0f} ns{theirs * 1e9:11.0f} ns {theirs / ours:6.1f}x"
        print(f"\n{label:22}{figures}", end="")
    assert theirs / ours >= floor, f"{label}: {theirs / ours:.1f} times faster, {floor} wanted"


@pytest.mark.parametrize("name", REQUESTS)
def test_compiled_scanner_beats_its_twin(
    name: str, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (REQUESTS[name], 0, 0)
    expected = _http_ref.take_request(*arguments)
    taken = benchmark(native.take_request, *arguments)
    assert expected is not None and taken[1:] == expected[1:]
    assert taken[0].headers == expected[0].headers and taken[0].body == expected[0].body
    if not benchmark.disabled:
        compare(
            name,
            SCAN_FLOORS[name],
            lambda: native.take_request(*arguments),
            lambda: _http_ref.take_request(*arguments),
            capsys,
            benchmark,
        )


def test_whole_parser_beats_the_twin_of_its_scanner(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    parser, packet = RequestParser(), REQUESTS["12 headers"]

    def parse() -> object:
        """All that a connection asks of its parser for one request in one packet."""
        parser.feed(packet)
        event = parser.next_event()
        parser.next_event()
        return event, parser.stage

    assert isinstance(benchmark(parse)[0], Request)
    if not benchmark.disabled:
        compare(
            "parser, 12 headers",
            PARSER_FLOOR,
            parse,
            lambda: _http_ref.take_request(packet, 0, 0),
            capsys,
            benchmark,
        )
