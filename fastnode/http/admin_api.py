"""The REST part of the admin listener, `/api/v1/…`: queues and a look at their messages, read only.
What is below `cluster` is in `admin_cluster.py`.

Paths are taken literally: a percent sign, an empty segment or a dot segment is refused before
anything is looked up, so no two paths mean the same queue. Answers and errors are JSON.
"""

import logging
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from fastnode.errors import OperationError
from fastnode.flow import Suspension, start
from fastnode.http.codec import retry_after
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.queue.errors import SqsError
from fastnode.queue.overview import describe, list_all
from fastnode.queue.peek import STATES, BadCursor, PeekRequest, peek

PREFIX: Final = b"/api/v1/"
_HEADERS: Final = (
    b"Content-Type: application/json\r\n"
    b"Cache-Control: no-store\r\n"
    b"X-Content-Type-Options: nosniff\r\n"
)
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._-]+")
_DOTS: Final = (".", "..")
_PARAMETERS_MAX: Final = 8
_VALUE_CHARACTERS_MAX: Final = 1_024
# Account, region and name as they can be stored.
_QUEUE: Final = re.compile(
    r"queues/(?P<account>[0-9]{12})/(?P<region>[a-z0-9-]{1,32})"
    r"/(?P<name>[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo)(?P<messages>/messages)?"
)

_encoder: Final = msgspec.json.Encoder()

Answer = Coroutine[Suspension, Any, Any]
# A request and the path that follows the prefix.
Answers = Callable[[Request, str], Answer]
_CLUSTER: Final = "cluster"


class Refusal(Exception):
    """What the caller is told instead."""

    def __init__(self, status: int, code: str, message: str, headers: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers


class Number(NamedTuple):
    """A parameter that is a number: its default and its bounds."""

    default: int
    low: int
    high: int


_LIST: Final = Number(100, 1, 1_000)
_LIMIT: Final = Number(20, 1, 100)
_BODY_BYTES: Final = Number(4_096, 256, 262_144)


class AdminApi:
    """`guard` raises `SqsError` for a request that may have come through a browser. `cluster`
    answers what is asked of the cluster.
    """

    def __init__(
        self,
        service: Any,
        guard: Callable[[Request], object],
        log: logging.Logger,
        cluster: Answers | None = None,
    ) -> None:
        self._service = service
        self._guard = guard
        self._log = log
        self._cluster = cluster

    def respond(self, request: Request, exchange: Exchange) -> None:
        try:
            self._guard(request)
            answer = self._answer(request)
        except SqsError as error:
            exchange.reply(*_rendered_error(403, "forbidden", error.message))
        except Refusal as refusal:
            exchange.reply(*_rendered_refusal(refusal))
        else:
            start(answer, lambda result, error: exchange.reply(*self._rendered(result, error)))

    def _answer(self, request: Request) -> Answer:
        path = _path_of(request)
        if self._cluster is not None and path.split("/")[0] == _CLUSTER:
            return self._cluster(request, path)
        if request.method not in (b"GET", b"HEAD"):
            raise wrong_method("GET, HEAD")
        if path == "queues":
            return self._list(_parameters(request, {"prefix", "limit", "cursor"}))
        match = _QUEUE.fullmatch(path)
        if match is None:
            raise _refused_path(path)
        queue = match["account"], match["region"], match["name"]
        if match["messages"] is None:
            _parameters(request, set())
            return self.described(queue)
        names = {"state", "limit", "body_max_bytes", "cursor"}
        return self._peek(queue, _parameters(request, names))

    def _list(self, given: Mapping[str, str]) -> Answer:
        limit = _number(given, "limit", _LIST)
        return list_all(self._service, given.get("prefix", ""), limit, given.get("cursor", ""))

    def _peek(self, queue: tuple[str, str, str], given: Mapping[str, str]) -> Answer:
        state = given.get("state", STATES[0])
        if state not in STATES:
            raise _bad(f"state is one of {', '.join(STATES)}")
        request = PeekRequest(
            state,
            _number(given, "limit", _LIMIT),
            _number(given, "body_max_bytes", _BODY_BYTES),
            given.get("cursor", ""),
        )
        return self.peeked(queue, request)

    def described(self, queue: tuple[str, str, str]) -> Answer:
        return describe(self._service, *queue)

    def peeked(self, queue: tuple[str, str, str], request: PeekRequest) -> Answer:
        return peek(self._service, *queue, request)

    def _rendered(self, result: Any, error: BaseException | None) -> tuple[int, bytes, bytes]:
        if isinstance(error, Refusal):
            return _rendered_refusal(error)
        if isinstance(error, BadCursor):
            return _rendered_error(400, "bad_cursor", str(error))
        if isinstance(error, OperationError):
            status, headers, body = _rendered_error(503, "unavailable", "try again")
            return status, headers + retry_after(error.retry_after_seconds), body
        if error is not None:
            self._log.error("bug in the admin API", exc_info=error)
            return _rendered_error(500, "internal_error", "a bug; the log says more")
        if result is None:
            return _rendered_error(404, "queue_not_found", "there is no such queue")
        return 200, _HEADERS, _encoder.encode(result)


def _rendered_error(status: int, code: str, message: str) -> tuple[int, bytes, bytes]:
    return status, _HEADERS, _encoder.encode({"error": {"code": code, "message": message}})


def _rendered_refusal(refusal: Refusal) -> tuple[int, bytes, bytes]:
    status, headers, body = _rendered_error(refusal.status, refusal.code, str(refusal))
    return status, headers + refusal.headers, body


def wrong_method(allowed: str) -> Refusal:
    headers = f"Allow: {allowed}\r\n".encode()
    return Refusal(405, "method_not_allowed", f"this path answers {allowed}", headers)


# --- paths and parameters -----------------------------------------------------------------------


def _path_of(request: Request) -> str:
    """What follows the prefix, without the slash that may end it."""
    path = request.path.removeprefix(PREFIX).decode("latin-1").removesuffix("/")
    for segment in path.split("/"):
        if _SEGMENT.fullmatch(segment) is None or segment in _DOTS:
            raise _bad("a path segment is empty, a dot segment or has a character that none has")
    return path


def _refused_path(path: str) -> Refusal:
    segments = path.split("/")
    if segments[0] == "queues" and (len(segments) == 4 or segments[4:] == ["messages"]):
        return _bad("a queue is queues/{12 digits}/{region}/{name}")
    return Refusal(404, "not_found", "there is nothing here")


def _parameters(request: Request, names: set[str]) -> dict[str, str]:
    try:
        query = request.query.decode("ascii")
        pairs = parse_qsl(
            query,
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=_PARAMETERS_MAX,
        )
    except ValueError as error:
        raise _bad("the query string cannot be read") from error
    given = dict(pairs)
    if len(given) < len(pairs) or not given.keys() <= names:
        raise _bad(f"parameters are {', '.join(sorted(names)) or 'none'}, each once")
    if any(len(value) > _VALUE_CHARACTERS_MAX for value in given.values()):
        raise _bad("a parameter is too long")
    return given


def _number(given: Mapping[str, str], name: str, rule: Number) -> int:
    text = given.get(name, str(rule.default))
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(rule.high))
    if not is_number or not rule.low <= int(text) <= rule.high:
        raise _bad(f"{name} is a number from {rule.low} to {rule.high}")
    return int(text)


def _bad(message: str) -> Refusal:
    return Refusal(400, "bad_request", message)
