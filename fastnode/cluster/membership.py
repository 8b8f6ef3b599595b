"""Members come and go: what a node does about it, for its peers and for an operator. Shell.

Consensus changes one member at a time in one group at a time, and only where the group is led. So
whoever is asked for a change carries it to the leader of each group and waits until it sees it in
force itself (`member_steps.py`). What is in force already it judges by its own state, once that is
no older than the question: others may have undone what it saw last. A new member is a learner
first; each leader makes it a voter when it has caught up. All steps can be repeated, and a change
that was interrupted is finished by asking for it again.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fastnode import __version__, config
from fastnode.cluster.control_api import (
    Addresses,
    ClusterStatus,
    GroupStatus,
    Joined,
    NodeStatus,
    Refused,
    SnapshotTaken,
    merge_groups,
)
from fastnode.cluster.control_api import Member as MemberAddress
from fastnode.cluster.member import Member
from fastnode.cluster.member_records import MemberRecord, encode_record, load_records, record_key
from fastnode.cluster.member_steps import Consensus, Step, Steps
from fastnode.datadir import DataDir
from fastnode.errors import OperationError
from fastnode.store.group import Group

_LEARNER_ENTRIES_BEHIND_MAX: Final = 100
log: Final = logging.getLogger("fastnode.cluster")


class Operator:
    """The cluster as an operator sees it through this node, whoever leads."""

    def __init__(self, membership: "Membership") -> None:
        self.status = membership.merged_status
        self.add = membership.add
        self.remove = membership.remove
        self.transfer = membership.transfer_some
        self.snapshot = membership.snapshot


class Membership:
    def __init__(
        self,
        data: DataDir,
        groups: Sequence[Group],
        raft: Consensus,
        member: Member,
        steps: Steps,
    ) -> None:
        self._data = data
        self._groups = groups
        self._raft = raft
        self._member = member
        self._steps = steps
        self.serve = steps.serve
        # Asks another node for its view.
        self.hear: Callable[[int], Any] | None = None
        self.take: Callable[[int], Any] | None = None

    # --- for peers and operators -------------------------------------------------------------

    async def join(self, node: int, incarnation: bytes, addresses: Addresses) -> Joined:
        await self._steps.catch_up()
        known = load_records(self._groups[0]).get(node)
        if known is not None and known.is_removed:
            raise Refused(f"node {node} was removed: join under another --node-id")
        is_voter = any(node in voters for voters, _ in self._member.members.values())
        if is_voter and known is not None and known.incarnation not in (b"", incarnation):
            raise Refused(
                f"there is a node {node} already, with another data directory: "
                "remove it, and join under another --node-id"
            )
        # Who joins and ends before it hears more finds its way back by what it is told here.
        await self._write_down(load_records(self._groups[0]))
        await self._record(MemberRecord(node, addresses.raft, incarnation), known)
        await self._learn(node)
        members = tuple(
            MemberAddress(one.node, one.incarnation, Addresses(one.raft))
            for one in load_records(self._groups[0]).values()
            if one.raft and not one.is_removed
        )
        return Joined(bytes.fromhex(self._data.cluster_id), len(self._groups), members)

    async def add(self, node: int, raft: str) -> None:
        """Expect a node: when it starts with --join it is let in, under a number that was removed
        too.
        """
        await self._steps.catch_up()
        known = load_records(self._groups[0]).get(node)
        if known is not None and known.incarnation and not known.is_removed:
            # Others would look for it elsewhere, and let another in under its number.
            raise Refused(f"node {node} is a member already: remove it first, or choose another")
        await self._record(MemberRecord(node, raft), known)
        await self._learn(node)

    async def promote(self, node: int) -> None:
        raise Refused(f"node {node} becomes a voter by itself when it has caught up")

    async def remove(self, node: int) -> None:
        await self._steps.catch_up()
        known = load_records(self._groups[0]).get(node)
        if known is None and node not in self._member.known_nodes():
            raise Refused(f"there is no node {node}")
        if len(self._member.voters) == 1 and node in self._member.voters:
            raise Refused(f"node {node} is the only voter: add another one first")
        for group in self._groups:
            step = Step("remove", group.number, node)
            await self._steps.until(step, self._is_out(node, group))
        # Where it is may have been written down meanwhile.
        known = load_records(self._groups[0]).get(node)
        raft = known.raft if known is not None else ""
        incarnation = known.incarnation if known is not None else b""
        await self._record(MemberRecord(node, raft, incarnation, is_removed=True), known)

    async def transfer(self, group: int, to: int) -> None:
        await self.transfer_some(group, to)

    async def transfer_some(self, group: int | None, to: int) -> list[int]:
        """The groups that `to` leads now and did not lead before. It keeps all that were asked for,
        for a while.
        """
        if to not in self._member.voters:
            raise Refused(f"node {to} is no voter")
        chosen = self._groups if group is None else [self._group(group)]
        moved = [one for one in chosen if one.leader != to]
        for one in chosen:
            # First, or the new leader might hand it on before it knows.
            await self._steps.hold(one, to)
            await self._steps.until(Step("transfer", one.number, to), self._is_led(to, one))
        return [one.number for one in moved]

    async def snapshot(self, group: int | None) -> list[SnapshotTaken]:
        chosen = self._groups if group is None else [self._group(group)]
        return [await self.take_snapshot(one.number) for one in chosen]

    async def take_snapshot(self, group: int) -> SnapshotTaken:
        assert self.take is not None
        taken: SnapshotTaken = await self.take(group)
        return taken

    async def merged_status(self) -> ClusterStatus:
        """With what leaders say of their groups, as far as they answer."""
        others = [node for node in self._member.known_nodes() if node != self._data.node_id]
        heard = await asyncio.gather(*map(self._heard, others))
        return merge_groups(self.status(), [one for one in heard if one is not None])

    def status(self) -> ClusterStatus:
        records = load_records(self._groups[0])
        nodes = sorted({*self._member.known_nodes(), self._data.node_id})
        rows = self._raft.status()["groups"]
        return ClusterStatus(
            bytes.fromhex(self._data.cluster_id),
            self._data.node_id,
            tuple(self._node_status(node, records.get(node)) for node in nodes),
            tuple(_group_status(number, row) for number, row in enumerate(rows)),
        )

    # --- in the background -------------------------------------------------------------------

    async def tend(self) -> None:
        """Until cancelled: make voters of learners, write down who is there, know where."""
        home, read_at, records = self._groups[0], -1, dict[int, MemberRecord]()
        while True:
            await asyncio.sleep(config.TEND_SECONDS)
            if home.applied_index != read_at:
                read_at, records = home.applied_index, load_records(home)
                self._member.follow_records(records)
            self._promote_learners()
            if home.is_ready:
                await self._write_down(records)

    def _promote_learners(self) -> None:
        if not any(learners for _, learners in self._member.members.values()):
            return
        for number, row in enumerate(self._raft.status()["groups"]):
            for node in row["learners"] if self._groups[number].is_ready else ():
                peer = row["peers"].get(node)
                # After a snapshot a peer is probed until the next entry, which may be far away.
                if peer is None or not peer["recent_active"] or peer["state"] == "snapshot":
                    continue
                if row["last"] - peer["match"] > _LEARNER_ENTRIES_BEHIND_MAX:
                    continue
                try:
                    self._raft.propose_members(number, "add-voter", node)
                except OperationError as error:
                    fields = {"group": number, "node": node, "why": str(error)}
                    log.debug("a learner is no voter yet", extra=fields)

    async def _write_down(self, records: Mapping[int, MemberRecord]) -> None:
        """Members that began the cluster together are known by their links first."""
        for node, raft, incarnation in self._member.linked():
            known = records.get(node)
            if known is None or (not known.incarnation and not known.is_removed):
                try:
                    address = raft if known is None else known.raft
                    await self._record(MemberRecord(node, address, incarnation), known)
                except OperationError as error:
                    log.debug("a member is not written down yet: %s", error)

    # --- what it is made of --------------------------------------------------------------------

    async def _record(self, record: MemberRecord, known: MemberRecord | None) -> None:
        """In place of what was known when this was decided."""
        stored = encode_record(record)
        replaced = b"" if known is None else encode_record(known)
        step = Step("record", 0, record.node, stored, replaced)
        key = record_key(record.node)
        await self._steps.until(step, lambda: self._groups[0].get(key) == stored)

    async def _learn(self, node: int) -> None:
        for group in self._groups:
            step = Step("add-learner", group.number, node)
            await self._steps.until(step, self._is_in(node, group))

    def _is_in(self, node: int, group: Group) -> Callable[[], bool]:
        return lambda: any(node in some for some in self._member.members[group.number])

    def _is_out(self, node: int, group: Group) -> Callable[[], bool]:
        return lambda: not any(node in some for some in self._member.members[group.number])

    def _is_led(self, node: int, group: Group) -> Callable[[], bool]:
        return lambda: group.leader == node

    def _group(self, number: int) -> Group:
        if number >= len(self._groups):
            raise Refused(f"there is no group {number}: they are 0 to {len(self._groups) - 1}")
        return self._groups[number]

    # --- what is known -------------------------------------------------------------------------

    async def _heard(self, node: int) -> ClusterStatus | None:
        if self.hear is None or self._member.link_to(node) is None:
            return None
        try:
            heard: ClusterStatus = await self.hear(node)
        except OperationError as error:
            log.info("a member does not tell its state: %s", error, extra={"node": node})
            return None
        return heard

    def _node_status(self, node: int, record: MemberRecord | None) -> NodeStatus:
        raft = "" if record is None else record.raft
        identity, offset_ns = self._member.known_of(node)
        if identity is None:
            return NodeStatus(node, Addresses(raft), reachable=False)
        return NodeStatus(
            node,
            Addresses(raft, "", identity.sqs_url, identity.admin_url),
            reachable=True,
            version=identity.version or __version__,
            capabilities=identity.capabilities,
            clock_offset_ms=None if offset_ns is None else offset_ns // 1_000_000,
        )


def _group_status(number: int, row: Mapping[str, Any]) -> GroupStatus:
    lag = {node: row["last"] - peer["match"] for node, peer in row["peers"].items()}
    return GroupStatus(
        number,
        row["leader"],
        row["term"],
        row["commit"],
        row["applied"],
        tuple(row["voters"]),
        tuple(row["learners"]),
        lag,
    )
