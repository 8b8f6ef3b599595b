"""What a connection needs from its server, and from the other processes of the node."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request

if TYPE_CHECKING:
    from fastnode.http.connection import Connection

Respond = Callable[[Request, Exchange], None]


class Mover(Protocol):
    """Where connections may belong to another process of the node."""

    def owner_of(self, request: Request) -> int | None:
        """Who should have a connection that begins with this request; None if it may stay."""
        ...

    def move(
        self, connection: "Connection", transport: asyncio.Transport, owner: int, received: bytes
    ) -> bool:
        """True: it is on its way, and the connection will be told to `close`, which tells the
        client nothing when another process has the socket, or to `stay`. False: nothing has
        happened.
        """
        ...


class Host(Protocol):
    """What a connection needs from its server. `coarse_now` is at most one sweep old: nobody reads
    a clock here. `held_bytes` is what all connections have of requests that are not complete.
    """

    mover: Mover | None
    respond: Respond
    coarse_now: float
    held_bytes: int
    is_draining: bool

    def forget(self, connection: "Connection") -> None: ...
