"""A proxy between clients and nodes that loses answers, as a broken connection does.

A request is passed on to a node, and when the node has answered, the proxy either gives the answer
to the client or closes the client's connection without a word: the call took effect, and the client
cannot know. Which answers are lost is the test's choice, and it may do things to the node before
the client learns of it. A request to a node that cannot be reached ends the connection as well.
"""

import http.client
import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.nodes import ANSWER_SECONDS

ENDED_SECONDS = 60.0


class Exchange(NamedTuple):
    """A request that a node has answered."""

    action: str
    invocation: str
    status: int
    answer: bytes


Loses = Callable[[Exchange], bool]
Answer = tuple[int, http.client.HTTPMessage, bytes]


def loses_nothing(_exchange: Exchange) -> bool:
    return False


class LosesFirst:
    """The next so many answers, but for a node that asks to come again; `meanwhile` runs between
    the node's answer and each loss.
    """

    def __init__(self, count: int = 1, meanwhile: Callable[[], object] = lambda: None) -> None:
        self._numbers = itertools.count()
        self._count = count
        self._meanwhile = meanwhile

    def __call__(self, exchange: Exchange) -> bool:
        if exchange.status == 503 or next(self._numbers) >= self._count:
            return False
        self._meanwhile()
        return True


class LosesEvery:
    """One of so many calls that were answered with 200; its next attempt gets its answer."""

    def __init__(self, period: int) -> None:
        self._numbers = itertools.count(1)
        self._period = period
        self._lost: set[str] = set()

    def __call__(self, exchange: Exchange) -> bool:
        if exchange.status != 200 or exchange.invocation in self._lost:
            return False
        is_lost = next(self._numbers) % self._period == 0
        if is_lost:
            self._lost.add(exchange.invocation)
        return is_lost


class CutProxy:
    """Every request goes to the next of `targets`, which may change while the proxy runs."""

    def __init__(self, targets: Callable[[], Sequence[str]], loses: Loses = loses_nothing) -> None:
        self.loses = loses
        # What nodes answered, in this order, whether it was lost or not.
        self.exchanges: list[Exchange] = []
        self.lost = 0
        self._targets = targets
        self._idle = threading.Condition()
        self._under_way = 0
        self._turns = itertools.count()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> "CutProxy":
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join(ENDED_SECONDS)
        self._server.server_close()
        self.check()

    def await_idle(self) -> None:
        """No node is at work on a request any more, those included that their clients gave up."""
        with self._idle:
            is_idle = self._idle.wait_for(lambda: self._under_way == 0, 2 * ANSWER_SECONDS)
        assert is_idle, "a node does not answer"

    def check(self) -> None:
        """What `loses` raised was raised in a thread that nobody waits for."""
        if self._server.failures:
            raise self._server.failures[0]

    def pass_on(self, handler: BaseHTTPRequestHandler) -> Answer | None:
        """The answer for the client; None when it is lost, or when there is none."""
        body = handler.rfile.read(int(handler.headers.get("Content-Length", "0")))
        self._count(1)
        try:
            answer = self._exchange(handler, body)
        finally:
            self._count(-1)
        return None if answer is None or self._is_lost(handler, answer) else answer

    def _count(self, change: int) -> None:
        with self._idle:
            self._under_way += change
            self._idle.notify_all()

    def _exchange(self, handler: BaseHTTPRequestHandler, body: bytes) -> Answer | None:
        targets = self._targets()
        target = urlsplit(targets[next(self._turns) % len(targets)])
        assert target.hostname is not None
        onward = http.client.HTTPConnection(target.hostname, target.port, timeout=ANSWER_SECONDS)
        try:
            onward.request("POST", handler.path, body, dict(handler.headers.items()))
            response = onward.getresponse()
            return response.status, response.headers, response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            onward.close()

    def _is_lost(self, handler: BaseHTTPRequestHandler, answer: Answer) -> bool:
        action = handler.headers.get("X-Amz-Target", "").rpartition(".")[2]
        invocation = handler.headers.get("amz-sdk-invocation-id", "")
        exchange = Exchange(action, invocation, answer[0], answer[2])
        self.exchanges.append(exchange)
        is_lost = self.loses(exchange)
        self.lost += is_lost
        return is_lost


class _Server(ThreadingHTTPServer):
    def __init__(self, proxy: CutProxy) -> None:
        self.proxy = proxy
        self.failures: list[BaseException] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, _request: Any, _client_address: Any) -> None:
        """A client that is gone is no failure."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self.failures.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        answer = self.server.proxy.pass_on(self)
        if answer is None:
            self.close_connection = True
            return
        status, headers, body = answer
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silence: what is of interest is in `exchanges`."""
