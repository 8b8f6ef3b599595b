"""What a request to the admin API says: path, parameters, body; and how it is refused. Sans-IO.

Paths are taken literally: a percent sign, an empty segment or a dot segment is refused before
anything is looked up, so no two paths mean the same queue.
"""

import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec

from fastnode.flow import Suspension
from fastnode.http.http1 import Request

PREFIX: Final = b"/api/v1/"
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._-]+")
_DOTS: Final = (".", "..")
_JSON: Final = b"application/json"
_PARAMETERS_MAX: Final = 8
_VALUE_CHARACTERS_MAX: Final = 1_024

Body = TypeVar("Body")
Answer = Coroutine[Suspension, Any, Any]
# A request and the path that follows the prefix. Raises `Refusal` before it begins.
Answers = Callable[[Request, str], Answer]


class Refusal(Exception):
    """What the caller is told instead."""

    def __init__(self, status: int, code: str, message: str, headers: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers


class Octets(NamedTuple):
    """An answer that is no JSON."""

    content: bytes


def bad_request(message: str) -> Refusal:
    return Refusal(400, "bad_request", message)


def not_found() -> Refusal:
    return Refusal(404, "not_found", "there is nothing here")


def wrong_method(allowed: str) -> Refusal:
    headers = f"Allow: {allowed}\r\n".encode()
    return Refusal(405, "method_not_allowed", f"this path answers {allowed}", headers)


def method_of(request: Request, allowed: str) -> str:
    """One of those that are allowed; HEAD is a GET without its body."""
    method = request.method.decode("latin-1")
    if method not in allowed.split(", "):
        raise wrong_method(allowed)
    return "GET" if method == "HEAD" else method


def path_of(request: Request) -> str:
    """What follows the prefix, without the slash that may end it."""
    path = request.path.removeprefix(PREFIX).decode("latin-1").removesuffix("/")
    for segment in path.split("/"):
        if _SEGMENT.fullmatch(segment) is None or segment in _DOTS:
            raise bad_request(
                "a path segment is empty, a dot segment or has a character that none has"
            )
    return path


def parameters_of(request: Request, *names: str) -> dict[str, str]:
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
        raise bad_request("the query string cannot be read") from error
    given = dict(pairs)
    if len(given) < len(pairs) or not given.keys() <= set(names):
        raise bad_request(f"parameters are {', '.join(sorted(names)) or 'none'}, each once")
    if any(len(value) > _VALUE_CHARACTERS_MAX for value in given.values()):
        raise bad_request("a parameter is too long")
    return given


class Number(NamedTuple):
    """A parameter that is a number: its default and its bounds."""

    default: int
    low: int
    high: int


def number_of(given: Mapping[str, str], name: str, rule: Number) -> int:
    text = given.get(name, str(rule.default))
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(rule.high))
    if not is_number or not rule.low <= int(text) <= rule.high:
        raise bad_request(f"{name} is a number from {rule.low} to {rule.high}")
    return int(text)


def flag_of(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false")
    if text not in ("true", "false"):
        raise bad_request(f"{name} is true or false")
    return text == "true"


def body_of(request: Request, kind: type[Body], bytes_max: int) -> Body:
    content_type = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if content_type != _JSON:
        raise Refusal(415, "unsupported_media_type", "send Content-Type: application/json")
    if len(request.body) > bytes_max:
        raise bad_request(f"a body has {bytes_max} bytes at most")
    try:
        return msgspec.json.decode(request.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"the body cannot be read: {error}") from error
