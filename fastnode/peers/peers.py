"""All links of a node: listening, dialling, which link counts. Shell.

Between two nodes there is one link. The node with the higher id dials; a node that wants to join
dials the address it was given (`set_seeds`), whoever is there. A peer that connects anew replaces
its link, because the old connection may be one that only this side believes in.

A stranger on the port gets nothing: it has a time limit, few bytes, and a place among a bounded
number of handshakes, from which the oldest is put out when another one comes.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, cast

from fastnode.clock import Clock, IdSource, Rng
from fastnode.config import PEER_CLOSE_SECONDS, PEER_HANDSHAKES_MAX
from fastnode.errors import StartError
from fastnode.peers.calls import Handler
from fastnode.peers.clock_question import CLOCK, ClockQuestion, answering
from fastnode.peers.dialer import Dialer, Timing
from fastnode.peers.greeting import Greeting, OnEnd, Tls, TlsFailed
from fastnode.peers.handshake import NONCE_BYTES, Handshake, Identity, Reason, Refused
from fastnode.peers.link import Counts, Link

_BACKLOG: Final = 128
# So often the links are looked at; pings and silence are counted in these ticks.
_TICKS_PER_PING: Final = 4
# The same complaint about the same stranger is not repeated sooner.
_COMPLAINT_SECONDS: Final = 60.0
_COMPLAINTS_MAX: Final = 256


class Rules(NamedTuple):
    """What the node decides about its peers.

    `check_member` says why a proven peer is not wanted, or None. `remember_incarnation(node,
    incarnation)` is True when the node was never heard of before, and is durably known from then
    on, or has the incarnation that is known.
    """

    check_member: Callable[[Identity], Reason | None]
    remember_incarnation: Callable[[int, bytes], bool]


class TlsContexts(NamedTuple):
    """For accepting and for dialling; both must demand a certificate of the other side."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class _Known(NamedTuple):
    """A link, when it came up, and what it asks."""

    link: Link
    since: float
    question: ClockQuestion


OnRaft = Callable[[int, bytes], None]
OnLink = Callable[[Link], None]


def _ignore(_: Link) -> None:
    pass


class Peers:
    """Made before the loop runs or in it; `start` listens and dials."""

    def __init__(
        self,
        identity: Identity,
        secret: bytes,
        rules: Rules,
        *,
        on_raft: OnRaft,
        services: Mapping[int, Handler],
        clock: Clock,
        ids: IdSource,
        rng: Rng,
        addresses: Mapping[int, str] | None = None,
        on_up: OnLink = _ignore,
        on_down: OnLink = _ignore,
        tls: TlsContexts | None = None,
        timing: Timing | None = None,
        log: logging.Logger | None = None,
    ) -> None:
        if tls is not None and any(side.verify_mode != ssl.CERT_REQUIRED for side in tls):
            raise StartError("TLS between nodes must demand certificates of both sides")
        self.identity: Final = identity
        self.counts = Counts()
        self.services: Mapping[int, Handler] = {
            CLOCK: answering(lambda: self.wall_ns()),
            **services,
        }
        self.log = log or logging.getLogger("fastnode.peers")
        self.rng = rng
        self.timing = timing or Timing()
        self.on_raft = on_raft
        self.wall_ns = clock.wall_ns
        self.boottime_ns = clock.boottime_ns
        self._secret = secret
        self._rules = rules
        self._ids = ids
        self._tls = tls
        self._on_up = on_up
        self._on_down = on_down
        self._addresses = dict(addresses or {})
        self._seeds: tuple[str, ...] = ()
        self._dialers: dict[int | str, Dialer] = {}
        self._links: dict[int, _Known] = {}
        # Of accepted connections, oldest first.
        self._greetings: dict[Greeting, None] = {}
        self._complaints: dict[object, float] = {}
        self._listener: asyncio.Server | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._is_open = False

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen and begin to dial; returns the bound address. Raises OSError if it is taken."""
        assert self._listener is None, "peers start once"
        self._loop = asyncio.get_running_loop()
        self._listener = await self._loop.create_server(self._accept, host, port, backlog=_BACKLOG)
        self._is_open = True
        self._tick()
        self._update_dialers()
        address = self._listener.sockets[0].getsockname()
        return (address[0], address[1])

    async def close(self) -> None:
        """End all links; what is queued leaves first, for a short time."""
        self._is_open = False
        if self._listener is not None:
            self._listener.close()
        if self._ticker is not None:
            self._ticker.cancel()
        tasks = [dialer.stop() for dialer in self._dialers.values()]
        self._dialers.clear()
        if tasks:
            await asyncio.wait(tasks)
        for greeting in tuple(self._greetings):
            greeting.abort("this node stops")
        links = [known.link for known in self._links.values()]
        for link in links:
            link.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PEER_CLOSE_SECONDS):
                for link in links:
                    await link.closed.wait()
        for link in links:
            link.abort()

    def link_to(self, node_id: int) -> Link | None:
        entry = self._links.get(node_id)
        return entry.link if entry is not None else None

    def is_linked(self, node_id: int) -> bool:
        return node_id in self._links

    @property
    def reachable(self) -> list[int]:
        """The nodes that there is a link to, by id."""
        return sorted(self._links)

    def clock_offsets(self) -> dict[int, int]:
        """How many nanoseconds the wall clock of each linked node is ahead of ours."""
        offsets = {node_id: known.link.clock_offset_ns for node_id, known in self._links.items()}
        return {node_id: offset for node_id, offset in offsets.items() if offset is not None}

    def set_addresses(self, addresses: Mapping[int, str]) -> None:
        """Where the other nodes are, as HOST:PORT. Links that exist stay."""
        self._addresses = dict(addresses)
        self._update_dialers()

    def set_seeds(self, addresses: Iterable[str]) -> None:
        """Dial these too, whoever answers there: how a node that joins finds its cluster."""
        self._seeds = tuple(addresses)
        self._update_dialers()

    def cut(self, node_id: int, why: str) -> None:
        """End the link to a node, if there is one; it may come back unless `Rules` refuse it."""
        if link := self.link_to(node_id):
            link.lose(why)

    # --- What greetings, dialers and links ask for ---

    def greet(self, expected_node: int | None, server_name: str, on_end: OnEnd) -> Greeting:
        """For a connection that this node dials."""
        tls = Tls(self._tls.client, server_name) if self._tls is not None else None
        return self._greeting(on_end, tls, is_dialer=True, expected_node=expected_node)

    def establish(self, greeting: Greeting) -> None:
        """Make a link of a connection whose handshake is done."""
        if not self._is_open:
            greeting.transport.abort()
            return
        peer = greeting.handshake.peer
        dialer_id = self.identity.node_id if greeting.is_dialer else peer.node_id
        if old := self.link_to(peer.node_id):
            old.lose("the peer connected anew")
        link = Link(self, peer, greeting.transport, greeting.splitter, dialer_id=dialer_id)
        question = ClockQuestion(link, link.offsets, self.boottime_ns)
        self._links[peer.node_id] = _Known(link, self._loop.time(), question)
        extra = {"node": peer.node_id, "remote": _text_of(greeting.remote)}
        self.log.info("link to peer is up", extra=extra)
        self._on_up(link)
        question.tick()
        link.begin(greeting.rest)

    def link_lost(self, link: Link, why: str) -> None:
        node_id = link.peer.node_id
        known = self._links.pop(node_id)
        assert known.link is link, "a link is replaced only after it was lost"
        self.log.warning("link to peer is down", extra={"node": node_id, "why": why})
        self._on_down(link)
        for dialer in self._dialers.values():
            dialer.link_ended(node_id, self._loop.time() - known.since)

    # --- Handshakes ---

    def _accept(self) -> Greeting:
        tls = Tls(self._tls.server) if self._tls is not None else None
        greeting = self._greeting(self._accepted, tls, is_dialer=False)
        greeting.on_begin = self._make_room
        return greeting

    def _make_room(self, greeting: Greeting) -> None:
        if not self._is_open:
            greeting.abort("this node stops")
            return
        if len(self._greetings) >= PEER_HANDSHAKES_MAX:
            next(iter(self._greetings)).abort("too many handshakes at a time")
        self._greetings[greeting] = None

    def _accepted(self, greeting: Greeting, problem: Exception | None) -> None:
        self._greetings.pop(greeting, None)
        if problem is None:
            self.establish(greeting)
        elif self._is_open:
            self._complain(greeting, problem)

    def _greeting(
        self, on_end: OnEnd, tls: Tls | None, *, is_dialer: bool, expected_node: int | None = None
    ) -> Greeting:
        handshake = Handshake(
            self.identity,
            self._secret,
            self._ids.take(NONCE_BYTES),
            lambda peer: self._refusal_of(peer, is_dialer=is_dialer),
            is_dialer=is_dialer,
            expected_node=expected_node,
        )
        return Greeting(
            handshake,
            on_end,
            is_dialer=is_dialer,
            has_secret=bool(self._secret),
            seconds=self.timing.handshake_seconds,
            tls=tls,
        )

    def _refusal_of(self, peer: Identity, *, is_dialer: bool) -> Refused | None:
        detail = f"node {peer.node_id}"
        if reason := self._rules.check_member(peer):
            return Refused(reason, detail)
        old = self.link_to(peer.node_id)
        if old is not None and old.peer.incarnation != peer.incarnation:
            return Refused(Reason.ID_IN_USE, detail)
        if not self._rules.remember_incarnation(peer.node_id, peer.incarnation):
            return Refused(Reason.OTHER_INCARNATION, detail)
        dialer_id = self.identity.node_id if is_dialer else peer.node_id
        # When both dial at once, both must keep the same of the two connections.
        if old is not None and dialer_id < old.dialer_id:
            return Refused(Reason.ALREADY_LINKED, detail)
        return None

    def _complain(self, greeting: Greeting, problem: Exception) -> None:
        """One line about a connection that led to nothing, now and then."""
        what, kind = "a connection without a handshake", cast(object, type(problem))
        if isinstance(problem, Refused):
            what = "refused by a peer" if problem.by_peer else "refused a peer"
            kind = problem.reason
        elif isinstance(problem, TlsFailed):
            kind = str(problem)
        key = greeting.remote[0] if greeting.remote else "", kind
        now = self._loop.time()
        if kind is Reason.ALREADY_LINKED:
            return
        if now - self._complaints.get(key, -_COMPLAINT_SECONDS) < _COMPLAINT_SECONDS:
            return
        if len(self._complaints) >= _COMPLAINTS_MAX:
            self._complaints.clear()
        self._complaints[key] = now
        claimed = greeting.handshake.claimed
        extra = {"remote": _text_of(greeting.remote), "why": str(problem) or type(problem).__name__}
        if claimed is not None:
            extra["claims_to_be"] = f"node {claimed.node_id}"
        self.log.warning(what, extra=extra)

    # --- Time ---

    def _tick(self) -> None:
        period = self.timing.ping_seconds / _TICKS_PER_PING
        silent_ticks = max(2, round(self.timing.silent_seconds / period))
        for known in tuple(self._links.values()):
            known.link.tick(_TICKS_PER_PING, silent_ticks)
            known.question.tick()
        self._ticker = self._loop.call_later(period, self._tick)

    def _update_dialers(self) -> None:
        if not self._is_open:
            return
        own = self.identity.node_id
        wanted: dict[int | str, tuple[int | None, str]] = {
            node_id: (node_id, address)
            for node_id, address in self._addresses.items()
            if node_id < own
        }
        wanted |= {address: (None, address) for address in self._seeds}
        for key in [
            key
            for key, dialer in self._dialers.items()
            if wanted.get(key, (0, ""))[1] != dialer.address
        ]:
            self._dialers.pop(key).stop()
        for key, (node_id, address) in wanted.items():
            if key not in self._dialers:
                self._dialers[key] = Dialer(self, node_id, address)


def _text_of(address: object) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else ""
