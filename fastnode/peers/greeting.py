"""A connection until its handshake is done. Shell around `handshake.py`.

It sees to what the rules cannot: TLS where configured, the time limit, the bound on what a stranger
may send, and that a handshake without a secret happens only where no stranger can be: with both
ends on loopback, or under TLS, where both ends show a certificate. `on_end` is called exactly once;
after a good end the connection is the caller's.
"""

import asyncio
import contextlib
import ipaddress
import ssl
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from fastnode.config import PEER_FRAME_BYTES_MAX, PEER_HANDSHAKE_BYTES_MAX
from fastnode.errors import FastnodeError
from fastnode.peers.frames import ProtocolError, Splitter
from fastnode.peers.handshake import Handshake, Reason, Refused
from fastnode.tls import feed

_SHUTDOWN_SECONDS: Final = 1.0
_CLOSED: Final = "the connection was closed during the handshake"
# How a hello of TLS begins, whatever the version.
_TLS_HELLO: Final = b"\x16\x03"
_PEER_HAS_TLS: Final = "the peer speaks TLS and this node does not: give both --peer-tls-cert"
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"})


class Tls(NamedTuple):
    """A context of one side; the name is the one that a dialer expects in the certificate."""

    context: ssl.SSLContext
    server_name: str | None = None


class TlsFailed(FastnodeError):
    """No TLS with the other side: what is wrong, as this side sees it."""


OnEnd = Callable[["Greeting", Exception | None], None]


class Greeting(asyncio.Protocol):
    """After a good end: `transport`, `splitter`, and in `rest` the frames that came behind it."""

    def __init__(
        self,
        handshake: Handshake,
        on_end: OnEnd,
        *,
        is_dialer: bool,
        has_secret: bool,
        seconds: float,
        tls: Tls | None = None,
    ) -> None:
        self.handshake: Final = handshake
        self.is_dialer: Final = is_dialer
        self.remote: Any = None
        self.rest: list[bytes] = []
        # Called when the connection is there, before its first byte.
        self.on_begin: Callable[[Greeting], None] | None = None
        self.splitter: Final = Splitter(PEER_HANDSHAKE_BYTES_MAX)
        self._on_end = on_end
        self._has_secret = has_secret
        self._seconds = seconds
        self._tls = tls
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._securing: asyncio.Task[None] | None = None
        self._is_secured = False
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.remote = transport.get_extra_info("peername")
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._expire)
        if self.on_begin is not None:
            self.on_begin(self)
        if self._is_over:
            return
        if self._tls is not None:
            self.transport.pause_reading()
            if not self.is_dialer:
                self.secure()
        elif self._has_secret or _is_loopback(transport):
            self._send(self.handshake.begin())
        else:
            self._refuse(Refused(Reason.NO_SECRET, ""))

    def secure(self) -> None:
        """Begin with TLS, where there is any. Whoever dials does it when it has the connection: a
        dial that is given up before closes it in a way that no check here would see.
        """
        if self._tls is not None and not self._is_over:
            self._securing = asyncio.get_running_loop().create_task(self._secure(self._tls))

    def data_received(self, data: bytes) -> None:
        if self._tls is not None and not self._is_secured:
            # Before TLS has begun, because uvloop reads although it was told to pause when the
            # connection was made; or from TLS before our task learns that it is there, and an
            # answer now would leave by the bare connection.
            self._early.append(data)
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        frames = self.splitter.feed(data)
        try:
            for at, frame in enumerate(frames):
                if self._is_over:
                    return
                self._receive(frame)
                if self.handshake.is_done:
                    self.rest = frames[at + 1 :]
                    self._end(None)
                    return
            if self.splitter.is_broken:
                raise ProtocolError("not the frames of a handshake")
        except Refused as refused:
            self._refuse(refused)
        except ProtocolError as error:
            self.transport.abort()
            self._end(TlsFailed(_PEER_HAS_TLS) if data.startswith(_TLS_HELLO) else error)

    def connection_lost(self, error: Exception | None) -> None:
        if self._tls is not None:
            self._end(_tls_problem(error or ConnectionError(_CLOSED)))
        else:
            hint = "; does the peer speak TLS?" if self.is_dialer else ""
            self._end(error or ConnectionError(_CLOSED + hint))

    def abort(self, why: str) -> None:
        """Give up at once, unless it has not begun or is over."""
        if self._timer is None or self._is_over:
            return
        if self._securing is not None:
            self._securing.cancel()
        self.transport.abort()
        self._end(TimeoutError(why))

    def _receive(self, frame: bytes) -> None:
        self._send(self.handshake.receive(frame))
        if self.handshake.is_authenticated:
            self.splitter.bytes_max = PEER_FRAME_BYTES_MAX

    def _send(self, frames: list[bytes]) -> None:
        if frames:
            self.transport.write(b"".join(frames))

    def _refuse(self, refused: Refused) -> None:
        if not refused.by_peer:
            self.transport.write(refused.frame())
        self.transport.close()
        self._end(refused)

    def _expire(self) -> None:
        self.abort("the handshake took too long")

    async def _secure(self, tls: Tls) -> None:
        loop = asyncio.get_running_loop()
        if self.transport.is_closing():
            return
        if self._early:
            loop.call_soon(feed, self.transport, b"".join(self._early))
            self._early.clear()
        try:
            secured = await loop.start_tls(
                self.transport,
                self,
                tls.context,
                server_side=not self.is_dialer,
                server_hostname=tls.server_name,
                ssl_handshake_timeout=self._seconds,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
        except OSError as error:
            if not self.transport.is_closing():
                self.transport.abort()
            self._end(_tls_problem(error))
            return
        assert secured is not None
        self.transport = secured
        self._is_secured = True
        if self._is_over:
            secured.abort()
            return
        self._send(self.handshake.begin())
        if self._early:
            self._take(b"".join(self._early))

    def _end(self, problem: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._on_end(self, problem)


def _tls_problem(error: Exception) -> Exception:
    """Neither side tells the other why it closes; whoever closed has the reason in its log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailed(f"the certificate of the peer is not accepted: {error.verify_message}")
    if isinstance(error, ConnectionError):
        return TlsFailed(f"{_CLOSED}; does the peer speak TLS and accept this node's certificate?")
    reason = error.reason if isinstance(error, ssl.SSLError) else ""
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return TlsFailed("the peer shows no certificate")
    if reason in _NO_TLS:
        return TlsFailed(
            "the peer does not speak TLS and this node does: give both --peer-tls-cert"
        )
    return error


def _is_loopback(transport: asyncio.BaseTransport) -> bool:
    """Both ends, as the system names them."""
    names = [transport.get_extra_info(name) for name in ("sockname", "peername")]
    return all(name is not None and _is_loopback_host(name[0]) for name in names)


def _is_loopback_host(host: str) -> bool:
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return (mapped or address).is_loopback
    return False
