"""Who calls, and whether they still wait: what every handler is told about its caller. A leaf of
the queue layer.

How a caller is recognised is the edge's business; nothing here knows HTTP or signatures.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

# How long an identity is remembered once it has landed: see `native.Resolver`.
SERVER_ATTEMPTS: Final = 0
CLIENT_RETRIES: Final = 1
RECEIVES: Final = 2


class Caller(Struct, frozen=True, gc=False):
    """The same for all calls of one client. `endpoint` is the address that the client used, as
    queue URLs show it (`http://host:port`). An anonymous caller has proved nothing where proof is
    asked for: only a policy that admits everybody lets it in, and its account owns nothing.
    """

    account: str
    region: str
    endpoint: str
    sender_id: str
    is_anonymous: bool = False


class Call:
    """One call in progress.

    `is_gone` becomes true when the client goes away before its answer, and then `on_gone` is
    called, once, if a handler has set it. A handler that begins to wait looks at `is_gone` first.
    It is never cancelled: what it has submitted runs on, and its answer is dropped if it cannot be
    written.

    `request` is the call's identity, the same for all its attempts, and empty until somebody needs
    it; `retention` says how long it is remembered. `is_repeated`: an earlier attempt may have taken
    effect, somewhere; `is_reused`: it was a node that repeated it, not the client. `deadline_ms` is
    set of a receive that has waited already: until then.
    """

    __slots__ = (
        "action",
        "caller",
        "deadline_ms",
        "explanation",
        "is_gone",
        "is_repeated",
        "is_reused",
        "on_gone",
        "request",
        "request_id",
        "retention",
    )

    def __init__(self, caller: Caller, action: str, request_id: str) -> None:
        self.caller = caller
        self.action = action
        self.request_id = request_id
        self.request = b""
        self.retention = SERVER_ATTEMPTS
        self.is_repeated = False
        self.is_reused = False
        self.deadline_ms = 0
        self.is_gone = False
        self.on_gone: Callable[[], None] | None = None
        self.explanation: str | None = None

    @property
    def trace_header(self) -> str | None:
        """What the transport carried for X-Ray."""
        return None

    @property
    def wants_explanation(self) -> bool:
        """Whether the caller asked how a receive spent its budget; then `explanation` is set."""
        return False

    @property
    def source_ip(self) -> str | None:
        """Where the call came from, for policies that ask."""
        return None

    @property
    def is_secure(self) -> bool:
        """Whether the call came over TLS."""
        return False

    def stop_waiting(self) -> None:
        """The client has left a wait, if this is one, for another attempt."""
        if self.on_gone is not None:
            self.leave()

    def leave(self) -> None:
        """The client is gone. Called by whoever watches the connection."""
        self.is_gone = True
        on_gone, self.on_gone = self.on_gone, None
        if on_gone is not None:
            on_gone()
