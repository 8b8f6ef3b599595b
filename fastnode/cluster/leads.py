"""Who should lead what: leads are spread over the members, and given away before a node stops.

Each group has a preferred leader, the same in the eyes of all members, so that nobody argues. A
leader hands its group on only to a member that it has heard of for a while and that has all of its
log, and never two groups at once: leads come to rest. What an operator has put somewhere stays
there for a while: whoever got it remembers that, until it ends.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from fastnode import config
from fastnode.errors import OperationError, Unavailable
from fastnode.store.group import Group

_CHECK_SECONDS: Final = 0.02
log: Final = logging.getLogger("fastnode.cluster")


class Consensus(Protocol):
    def transfer_leader(self, group: int, to: int) -> None: ...
    def status(self) -> Any: ...


class Members(Protocol):
    @property
    def voters(self) -> Sequence[int]: ...

    def link_to(self, node: int) -> object | None: ...


def preferred_leader(group: int, voters: Sequence[int]) -> int:
    return sorted(voters)[group % len(voters)]


class Leads:
    def __init__(
        self, node_id: int, groups: Sequence[Group], raft: Consensus, members: Members
    ) -> None:
        self._node_id = node_id
        self._groups = groups
        self._raft = raft
        self._members = members
        # How many looks in a row a member could be reached.
        self._steady: dict[int, int] = {}
        # Of groups that stay here: until when, by the loop's time.
        self._held: dict[int, float] = {}
        self._is_stopping = False

    async def balance(self) -> None:
        """Until cancelled: give each group to the member that should lead it, one at a time."""
        while True:
            await asyncio.sleep(config.BALANCE_SECONDS)
            self._look()
            for group in self._groups:
                if group.is_ready and self._begin_transfer(group):
                    break

    def hold(self, group: Group) -> None:
        """An operator wants this node to lead it: it is not handed on to balance leads."""
        now = asyncio.get_running_loop().time()
        self._held[group.number] = now + config.TRANSFER_HOLD_SECONDS

    async def give_away(self, number: int) -> None:
        """Begin to hand a group on to any member that can take it; `OperationError` if none can."""
        group = self._groups[number]
        self.give_away_now(group)

    def give_away_now(self, group: Group) -> None:
        target = self._ablest(group, self._others())
        if not target:
            raise Unavailable("no other voter can be reached")
        self.transfer(group, target)

    async def give_all_away(self, seconds: float) -> None:
        """Before a stop: return when this node leads nothing, or the time is up."""
        self._is_stopping = True
        deadline = asyncio.get_running_loop().time() + seconds
        asked: dict[int, float] = {}
        while self._others() and asyncio.get_running_loop().time() < deadline:
            led = [group for group in self._groups if group.leads]
            if not led:
                return
            now = asyncio.get_running_loop().time()
            for group in led:
                target = self._ablest(group, self._others())
                # raft-rs gives a transfer up after an election timeout.
                if target and now - asked.get(group.number, -1.0) > 1.0:
                    asked[group.number] = now
                    # The log may know already that another node leads, and the group not yet.
                    with contextlib.suppress(OperationError):
                        self.transfer(group, target)
            await asyncio.sleep(_CHECK_SECONDS)

    def _look(self) -> None:
        reachable = self._others()
        self._steady = {node: self._steady.get(node, 0) + 1 for node in reachable}

    def _others(self) -> list[int]:
        return [
            node
            for node in self._members.voters
            if node != self._node_id and self._members.link_to(node) is not None
        ]

    def _begin_transfer(self, group: Group) -> bool:
        wanted = preferred_leader(group.number, self._members.voters)
        if wanted == self._node_id or self._steady.get(wanted, 0) < config.BALANCE_STEADY_LOOKS:
            return False
        if self._held.get(group.number, 0.0) > asyncio.get_running_loop().time():
            return False
        if self._is_stopping or self._ablest(group, [wanted]) != wanted:
            return False
        log.info("handing on a lead", extra={"group": group.number, "to": wanted})
        self.transfer(group, wanted)
        return True

    def transfer(self, group: Group, target: int) -> None:
        """Begin to hand the lead to another member; it may come to nothing."""
        self._held.pop(group.number, None)
        group.reads.begin_transfer()
        self._raft.transfer_leader(group.number, target)

    def _ablest(self, group: Group, candidates: Sequence[int]) -> int:
        """Of these, the one with the most of the group's log; 0 if none could lead at once."""
        status = self._raft.status()["groups"][group.number]
        peers: Mapping[int, Any] = status.get("peers", {})
        if not peers:
            return candidates[0] if candidates else 0
        able = {node: peers[node]["match"] for node in candidates if node in peers}
        behind = status["last"] - max(able.values(), default=0)
        if not able or behind > config.TRANSFER_ENTRIES_BEHIND_MAX:
            return 0
        return max(able, key=lambda node: able[node])
