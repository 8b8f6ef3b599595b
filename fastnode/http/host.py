"""What a connection needs from its server."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from fastnode.http.exchange import Exchange
from fastnode.http.holding import Crowd
from fastnode.http.http1 import Request

if TYPE_CHECKING:
    from fastnode.http.connection import Connection

Respond = Callable[[Request, Exchange], None]


class Host(Protocol):
    """What a connection needs from its server. `coarse_now` is at most one sweep old: nobody reads
    a clock here.
    """

    respond: Respond
    coarse_now: float
    crowd: Crowd
    is_draining: bool

    def forget(self, connection: "Connection") -> None: ...
