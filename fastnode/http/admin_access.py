"""Who may use the admin API, and for what: tokens, sessions of the console, and the proof that a
change was meant. It decides; what is changed is elsewhere.

Without tokens the API is open to whoever reaches it, as the listener is on loopback then. With
tokens every request brings one (`Authorization: Bearer …`) or the cookie of a session that began
with one. A session keeps no role: each request looks its token up, so a token that is taken away,
or given another role, counts at once.

A browser sends cookies by itself, so a change by way of a session also brings the session's CSRF
token in a header, which no other page knows or can send. And a change that comes from a browser
without any session is refused, on an open node too.
"""

import hmac
import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from fastnode.clock import IdSource
from fastnode.config import ADMIN_SESSION_SECONDS, ADMIN_SESSIONS_MAX
from fastnode.http.admin_request import Refusal
from fastnode.http.admin_tokens import FULL, Holder, Holders, Role, digest_of
from fastnode.http.http1 import Request

CSRF_HEADER: Final = b"x-csrf-token"
_COOKIE: Final = "fastnode_session"
_PORT: Final = re.compile(rb".*:([0-9]{1,5})")
_SESSION_BYTES: Final = 32
_READING: Final = (b"GET", b"HEAD")
# What only browsers send; a page cannot leave them out.
_OF_BROWSERS: Final = (b"origin", b"sec-fetch-site", b"sec-fetch-mode")
_OPEN: Final = Holder("", FULL)


class Session(Struct, frozen=True):
    """`digest` is that of the token that it began with; empty where none is needed."""

    csrf: str
    digest: bytes
    expires_at: float


class Grant(Struct, frozen=True):
    """What a request may do, and by whose name."""

    name: str
    role: Role
    session: Session | None = None


class Access:
    """`holders` gives those of now; None leaves the API open. `now` is in seconds. `is_secure`:
    requests come by TLS.
    """

    def __init__(
        self,
        holders: Callable[[], Holders] | None,
        ids: IdSource,
        now: Callable[[], float],
        *,
        is_secure: bool = False,
    ) -> None:
        self._is_secure = is_secure
        self._holders = holders
        self._ids = ids
        self._now = now
        # Oldest first.
        self._sessions: dict[str, Session] = {}

    @property
    def is_open(self) -> bool:
        return self._holders is None

    def judge(self, request: Request) -> Grant:
        """Raises `Refusal` for who is not known, and for a change that is not proved or allowed."""
        grant = self._recognised(request)
        if request.method in _READING:
            return grant
        _check_csrf(request, grant)
        if grant.role != FULL:
            raise Refusal(403, "read_only", "this token may look, and change nothing")
        return grant

    def check_meant(self, request: Request) -> None:
        """As `judge`, for what whoever is known may do."""
        _check_csrf(request, self._recognised(request))

    def _recognised(self, request: Request) -> Grant:
        authorization = request.headers.get(b"authorization", b"")
        if self._holders is not None and authorization:
            scheme, _, token = authorization.decode("latin-1").partition(" ")
            holder = self._holder(digest_of(token.strip()))
            if scheme.lower() != "bearer" or holder is None:
                raise _unauthorized("the token is not known")
            return Grant(holder.name, holder.role)
        given = session_id_of(request)
        if given is not None:
            return self._of_session(given)
        if not self.is_open:
            raise _unauthorized("sign in, or send Authorization: Bearer with an admin token")
        if request.method not in _READING and any(one in request.headers for one in _OF_BROWSERS):
            raise _bad_csrf("a change from a web page needs a session: POST /api/v1/session first")
        return Grant(_OPEN.name, _OPEN.role)

    def _of_session(self, given: str) -> Grant:
        session = self._sessions.get(given)
        holder = None if session is None else self._holder(session.digest)
        if session is None or holder is None or session.expires_at <= self._now():
            self._sessions.pop(given, None)
            raise _unauthorized("the session has ended: sign in again")
        return Grant(holder.name, holder.role, session)

    def _holder(self, digest: bytes) -> Holder | None:
        return _OPEN if self._holders is None else self._holders().get(digest)

    # --- sessions ------------------------------------------------------------------------------

    def sign_in(self, request: Request, token: str) -> tuple[Grant, bytes]:
        """A new session, in place of the one that the request may have, and its header."""
        digest = b"" if self.is_open else digest_of(token)
        holder = self._holder(digest)
        if holder is None:
            raise _unauthorized("the token is not known")
        self._forget(request)
        while len(self._sessions) >= ADMIN_SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        session_id, csrf = (self._ids.take(_SESSION_BYTES).hex() for _ in range(2))
        session = Session(csrf, digest, self._now() + ADMIN_SESSION_SECONDS)
        self._sessions[session_id] = session
        cookie = self._cookie(request, session_id, ADMIN_SESSION_SECONDS)
        return Grant(holder.name, holder.role, session), cookie

    def sign_out(self, request: Request) -> bytes:
        """The header that makes the browser forget it too."""
        self._forget(request)
        return self._cookie(request, "", 0)

    def _forget(self, request: Request) -> None:
        self._sessions.pop(session_id_of(request) or "", None)

    def _cookie(self, request: Request, value: str, seconds: int) -> bytes:
        """Sent to the API only, never to a script, and never with what another site begins."""
        forwarded = request.headers.get(b"x-forwarded-proto", b"").partition(b",")[0]
        is_secure = self._is_secure or forwarded.strip().lower() == b"https"
        secure = "; Secure" if is_secure else ""
        rules = f"Path=/api/v1/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        return f"Set-Cookie: {_cookie_name(request)}={value}; {rules}\r\n".encode()


def _check_csrf(request: Request, grant: Grant) -> None:
    """Each session has a token of its own; what comes without a session proves itself otherwise."""
    if grant.session is None:
        return
    given = request.headers.get(CSRF_HEADER, b"")
    if not hmac.compare_digest(given, grant.session.csrf.encode()):
        raise _bad_csrf("the X-CSRF-Token header is not that of this session")


def session_id_of(request: Request) -> str | None:
    """What the cookie says; None if there is none."""
    wanted = _cookie_name(request)
    for pair in request.headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == wanted:
            return value
    return None


def _cookie_name(request: Request) -> str:
    """Cookies do not know ports, and several nodes may share a host."""
    port = _PORT.fullmatch(request.headers.get(b"host", b""))
    return f"{_COOKIE}_{port[1].decode()}" if port else _COOKIE


def _unauthorized(message: str) -> Refusal:
    return Refusal(401, "unauthorized", message, b'WWW-Authenticate: Bearer realm="fastnode"\r\n')


def _bad_csrf(message: str) -> Refusal:
    return Refusal(403, "bad_csrf", message)
