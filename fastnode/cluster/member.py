"""This node among the members of its cluster: its links, and who is known to be a member. Shell.

What consensus and queues make of packets and calls is decided elsewhere; here they are handed on.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from fastnode.cluster.member_records import MemberRecord, refusal_of
from fastnode.datadir import DataDir
from fastnode.option_values import Address
from fastnode.peers.handshake import JOINING, Identity, Reason
from fastnode.peers.link import Link
from fastnode.peers.peers import Peers
from fastnode.raft.groups import is_urgent

Members = tuple[Sequence[int], Sequence[int]]


class Consensus(Protocol):
    def report_unreachable(self, peer: int) -> None: ...


class Member:
    """`addresses` are those of the members that it was told of at its start. `received` takes a
    packet and says why messages in it were refused. `connect` gives it its
    links, once the node's own addresses are known; until then nobody can be reached.
    """

    def __init__(
        self,
        data: DataDir,
        addresses: Mapping[int, str],
        consensus: Consensus,
        received: Callable[[bytes], list[str]],
        wall_ns: Callable[[], int],
        log: logging.Logger,
    ) -> None:
        self._data = data
        self._consensus = consensus
        self._received = received
        self._wall_ns = wall_ns
        self._log = log
        self._peers: Peers | None = None
        self._addresses = dict(addresses)
        self._records: Mapping[int, MemberRecord] = {}
        # How far the clocks of others are ahead, in nanoseconds, when last heard.
        self._offsets: dict[int, int] = {}
        # Voters and learners of each group, as they are in force here.
        self.members: dict[int, Members] = {}
        # Of any group; they differ for the time of a change only.
        self.voters: Sequence[int] = ()
        # Told when somebody can be reached again, or not any more, and when members have changed.
        self.on_up: Callable[[], None] = lambda: None
        self.on_down: Callable[[int], None] = lambda _node: None
        self.on_members: Callable[[int], None] = lambda _group: None
        # Told when `advertised` may have changed.
        self.on_others: Callable[[], None] = lambda: None

    # --- links -------------------------------------------------------------------------------

    def connect(self, peers: Peers, own_address: Address) -> None:
        self._peers = peers
        self._addresses.setdefault(peers.identity.node_id, str(own_address))
        self._warn_of_addresses()
        self._dial()

    def _warn_of_addresses(self) -> None:
        """Whoever wrote them may have meant another node, or moved one."""
        for node, record in self._records.items():
            given = self._addresses.get(node, record.raft)
            if record.raft and given != record.raft and not record.is_removed:
                fields = {"node": node, "given": given, "used": record.raft}
                self._log.warning("--peers differs from what the cluster has", extra=fields)

    async def leave(self) -> None:
        if self._peers is not None:
            await self._peers.close()

    def link_to(self, node: int) -> Link | None:
        return None if self._peers is None else self._peers.link_to(node)

    def send(self, peer: int, packet: bytes) -> None:
        link = self.link_to(peer)
        if link is not None:
            link.send_raft(packet, is_urgent=is_urgent(packet))

    def on_raft(self, node: int, packet: bytes) -> None:
        """An empty packet only says what time it is there."""
        for refusal in self._received(packet) if packet else ():
            self._log.debug("a message was refused", extra={"node": node, "why": refusal})

    def link_is_up(self, link: Link) -> None:
        # Whoever is elected must have heard all clocks that it can hear, not only those of its
        # voters.
        link.send_raft(b"", is_urgent=True)
        self.on_others()
        self.on_up()

    def link_is_down(self, link: Link) -> None:
        if link.clock_offset_ns is not None:
            self.note_clocks({link.peer.node_id: link.clock_offset_ns})
        self._consensus.report_unreachable(link.peer.node_id)
        self.on_down(link.peer.node_id)

    def refusal_of(self, peer: Identity) -> Reason | None:
        return refusal_of(peer, self._records.get(peer.node_id), self.known_nodes())

    def remember(self, node: int, incarnation: bytes) -> bool:
        """Durably; see `Rules`. Of a node that only joins nothing is known yet."""
        record = self._records.get(node)
        if record is not None and record.incarnation == incarnation:
            return True
        if node not in self.known_nodes():
            return True
        return self._data.remember_peer(node, incarnation)

    # --- members -----------------------------------------------------------------------------

    def known_nodes(self) -> set[int]:
        """All that are members of a group, or are written down, or that this node was told of; but
        not those that were removed.
        """
        known = {node for both in self.members.values() for some in both for node in some}
        removed = {node for node, one in self._records.items() if one.is_removed}
        return (known | self._records.keys() | self._addresses.keys()) - removed

    def change_members(self, group: int, voters: Sequence[int], learners: Sequence[int]) -> None:
        self.members[group] = voters, learners
        self.voters = sorted({node for some, _ in self.members.values() for node in some})
        self.on_members(group)
        self.on_others()

    def follow_records(self, records: Mapping[int, MemberRecord]) -> None:
        """What group 0 says about the members may have changed."""
        if records == self._records:
            return
        for node, record in records.items():
            known = self._records.get(node)
            if record.is_removed and self._peers is not None:
                self._peers.cut(node, "the node was removed")
            if known is not None and known.is_removed and not record.is_removed:
                self._data.forget_peer(node)
        self._records = dict(records)
        self._dial()
        self.on_others()

    def _dial(self) -> None:
        if self._peers is None:
            return
        own = self._peers.identity.node_id
        written = {node: one.raft for node, one in self._records.items() if one.raft}
        removed = {node for node, one in self._records.items() if one.is_removed}
        addresses = self._addresses | written
        self._peers.set_addresses(
            {node: at for node, at in addresses.items() if node != own and node not in removed}
        )

    def linked(self) -> Iterator[tuple[int, str, bytes]]:
        """Of each member that can be reached, this one too: number, raft address, incarnation."""
        if self._peers is None:
            return
        own = self._peers.identity
        for node in sorted(self.known_nodes()):
            link = self._peers.link_to(node)
            identity = own if node == own.node_id else link.peer if link is not None else None
            if identity is not None and not identity.roles & JOINING:
                yield node, self._addresses.get(node, ""), identity.incarnation

    def known_of(self, node: int) -> tuple[Identity | None, int | None]:
        """What a node says of itself, if it can be reached, and how far its clock is ahead."""
        if self._peers is None:
            return None, None
        if node == self._peers.identity.node_id:
            return self._peers.identity, 0
        link = self._peers.link_to(node)
        return (None, None) if link is None else (link.peer, link.clock_offset_ns)

    def sqs_urls(self) -> list[str]:
        """Of the other members; empty for one that cannot be reached."""
        links = self._links_to_others().values()
        return ["" if link is None else link.peer.sqs_url for link in links]

    def links(self) -> list[Link]:
        """Those to other members that are up."""
        return [link for link in self._links_to_others().values() if link is not None]

    def advertised(self) -> dict[int, tuple[str, ...] | None]:
        """The capabilities of the other members; None of one that cannot be reached."""
        links = self._links_to_others()
        return {
            node: None if link is None else link.peer.capabilities for node, link in links.items()
        }

    def _links_to_others(self) -> dict[int, Link | None]:
        others = sorted(self.known_nodes() - {self._data.node_id})
        return {node: self.link_to(node) for node in others}

    def note_clocks(self, offsets: Mapping[int, int]) -> None:
        """How many nanoseconds the clocks of others are ahead; what is not heard now stays."""
        self._offsets.update(offsets)

    def median_wall_ns(self, reached_ns: int) -> int:
        """The median of the voters' clocks, as far as they were ever heard. Of two in the middle
        the lower counts, unless the group's time has passed it already: then that one is wrong.
        """
        if self._peers is not None:
            self.note_clocks(self._peers.clock_offsets())
        offsets, own_ns = self._offsets, self._wall_ns()
        heard = sorted([0, *(offsets[node] for node in self.voters if node in offsets)])
        lower_ns, upper_ns = heard[(len(heard) - 1) // 2], heard[len(heard) // 2]
        return own_ns + (lower_ns if own_ns + lower_ns >= reached_ns else upper_ns)
