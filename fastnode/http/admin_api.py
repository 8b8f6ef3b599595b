"""The REST part of the admin listener, `/api/v1/…`: who may, who answers, how answers look. What
they say is in `admin_queues.py`, `admin_overview.py` and `admin_cluster.py`; who may, in
`admin_access.py`. Answers and errors are JSON.
"""

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from fastnode.errors import OperationError
from fastnode.flow import start
from fastnode.http.admin_access import Access, Grant, session_id_of
from fastnode.http.admin_request import (
    PREFIX,
    Answer,
    Answers,
    Octets,
    Refusal,
    body_of,
    method_of,
    not_found,
    parameters_of,
    path_of,
)
from fastnode.http.admin_tokens import FULL
from fastnode.http.codec import retry_after
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.queue.errors import SqsError
from fastnode.queue.peek import BadCursor

__all__ = ["PREFIX", "AdminApi"]

_HEADERS: Final = (
    b"Content-Type: application/json\r\n"
    b"Cache-Control: no-store\r\n"
    b"X-Content-Type-Options: nosniff\r\n"
)
_OCTETS: Final = _HEADERS.replace(b"application/json", b"application/octet-stream")
_SESSION: Final = "session"
# What is no business of tokens that may only look.
_FULL_ONLY: Final = frozenset({"backup"})
_SESSION_BYTES_MAX: Final = 4_096
_READING: Final = (b"GET", b"HEAD")
_NO_QUEUE: Final = "QueueDoesNotExist"
_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

_encoder: Final = msgspec.json.Encoder()
Rendered = tuple[int, bytes, bytes]


class _Reply(Struct, frozen=True):
    """An answer that brings headers of its own."""

    body: object
    headers: bytes = b""


class _SignIn(Struct, frozen=True, forbid_unknown_fields=True):
    token: str = ""


class AdminApi:
    """`guard` raises `SqsError` for a request that may have come through a foreign web page.
    `sections` answer by the first segment of the path.
    """

    def __init__(
        self,
        guard: Callable[[Request], object],
        log: logging.Logger,
        access: Access,
        sections: Mapping[str, Answers],
    ) -> None:
        self._guard = guard
        self._log = log
        self._access = access
        self._sections = sections

    def admits(self, request: Request) -> bool:
        try:
            self._guard(request)
        except SqsError:
            return False
        return True

    def respond(self, request: Request, exchange: Exchange) -> None:
        grant: Grant | None = None
        try:
            self._guard(request)
            path = path_of(request)
            if path == _SESSION:
                answer = self._session(request)
            else:
                grant = self._access.judge(request)
                _check_role(grant, path)
                answer = self._answer(request, path)
        except SqsError as error:
            exchange.reply(*_rendered_error(403, "forbidden", error.message))
        except Refusal as refusal:
            exchange.reply(*_rendered_refusal(refusal))
        else:

            def finish(result: Any, error: BaseException | None) -> None:
                rendered = self._rendered(result, error)
                if grant is not None and request.method not in _READING:
                    self._note(request, grant, rendered[0])
                exchange.reply(*rendered)

            start(answer, finish)

    def _answer(self, request: Request, path: str) -> Answer:
        answers = self._sections.get(path.partition("/")[0])
        if answers is None:
            raise not_found()
        return answers(request, path)

    def _note(self, request: Request, grant: Grant, status: int) -> None:
        """Who changed what, for whoever asks later."""
        what = f"{request.method.decode()} {request.path.decode('latin-1')}"
        fields = {"by": grant.name or "anybody", "what": what, "status": status}
        self._log.info("an admin change", extra=fields)

    # --- sessions ------------------------------------------------------------------------------

    async def _session(self, request: Request) -> _Reply:
        parameters_of(request)
        method = method_of(request, "GET, HEAD, POST, DELETE")
        access = self._access
        if method == "POST":
            token = body_of(request, _SignIn, _SESSION_BYTES_MAX).token
            return self._shown(*access.sign_in(request, token))
        if method == "DELETE":
            if session_id_of(request) is not None:
                access.check_meant(request)
            return self._shown(None, access.sign_out(request))
        try:
            return self._shown(access.judge(request))
        except Refusal:
            return self._shown(None)

    def _shown(self, grant: Grant | None, headers: bytes = b"") -> _Reply:
        """Who is signed in. The CSRF token is for the page of that session, and no other page can
        read this.
        """
        session = None if grant is None else grant.session
        shown = {
            "signed_in": session is not None,
            "needs_token": not self._access.is_open,
            "name": grant.name if grant else "",
            "role": grant.role if grant else None,
            "csrf": session.csrf if session else None,
        }
        return _Reply(shown, headers)

    # --- answers -------------------------------------------------------------------------------

    def _rendered(self, result: Any, error: BaseException | None) -> Rendered:
        if isinstance(error, Refusal):
            return _rendered_refusal(error)
        if isinstance(error, BadCursor):
            return _rendered_error(400, "bad_cursor", str(error))
        if isinstance(error, SqsError) and error.row.shape != _NO_QUEUE:
            return _rendered_error(error.row.status, _code_of(error), error.message)
        if isinstance(error, OperationError):
            status, headers, body = _rendered_error(503, "unavailable", "try again")
            return status, headers + retry_after(error.retry_after_seconds), body
        if error is not None and not isinstance(error, SqsError):
            self._log.error("bug in the admin API", exc_info=error)
            return _rendered_error(500, "internal_error", "a bug; the log says more")
        if result is None:
            return _rendered_error(404, "queue_not_found", "there is no such queue")
        if isinstance(result, Octets):
            return 200, _OCTETS, result.content
        reply = result if isinstance(result, _Reply) else _Reply(result)
        return 200, _HEADERS + reply.headers, _encoder.encode(reply.body)


def _check_role(grant: Grant, path: str) -> None:
    if path.partition("/")[0] in _FULL_ONLY and grant.role != FULL:
        raise Refusal(403, "read_only", "this token may look, and a backup is more than that")


def _code_of(error: SqsError) -> str:
    """`InvalidAttributeValue` → `invalid_attribute_value`."""
    return _WORD.sub("_", error.row.shape.removesuffix("Exception")).lower()


def _rendered_error(status: int, code: str, message: str) -> Rendered:
    return status, _HEADERS, _encoder.encode({"error": {"code": code, "message": message}})


def _rendered_refusal(refusal: Refusal) -> Rendered:
    status, headers, body = _rendered_error(refusal.status, refusal.code, str(refusal))
    return status, headers + refusal.headers, body
