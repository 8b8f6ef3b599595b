"""Members that come and go while clients are at work: what an operator asks for, and asks again
until it is done.
"""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from fastnode.cluster.membership import Membership
from tests.sim.clockwork import SimLoop
from tests.sim.cluster import SimCluster, SimNode

_Asked = Coroutine[Any, Any, None]
# Nodes that never come, and are expected several at a time.
_NOBODIES: Final = range(97, 100)


class Members:
    def __init__(self, cluster: SimCluster, loop: SimLoop, random: Random) -> None:
        self._cluster = cluster
        self._loop = loop
        self._random = random
        self._operator = cluster.work.random("operator")
        # From then on repeated calls may be taken for others, by whoever has not heard all members.
        self.have_changed = False
        # Numbers of those who are being removed, or shall be, which has to come to an end.
        self._leaving: set[int] = set()
        self.is_someone_lost = False

    @property
    def are_changing(self) -> bool:
        return bool(self._leaving)

    def _any(self) -> SimNode:
        return self._random.choice(list(self._cluster.nodes.values()))

    def change(self) -> bool | None:
        """Once in a run a node joins; then perhaps another one is removed."""
        if self.have_changed or self.is_someone_lost:
            return False
        self.have_changed = True
        via = self._any()
        joining = self._cluster.add(via.number)
        self._cluster.start(joining)
        leaving = self._any() if len(self._cluster.nodes) > 2 else via
        if leaving is not joining and leaving is not via:
            self._leaving.add(leaving.number)
            self._loop.create_task(self._replace(leaving, joining))
        return None

    async def _replace(self, leaving: SimNode, joining: SimNode) -> None:
        while not joining.is_ready:
            await asyncio.sleep(0.5)
        while not leaving.is_lost:
            await asyncio.sleep(0.5)
            if await self._ask(lambda asked: asked.remove(leaving.number), leaving):
                self.is_someone_lost = leaving.is_lost = True
        self._cluster.work.note(f"node {leaving.number} is removed")
        self._cluster.kill(leaving)
        self._leaving.remove(leaving.number)

    def expect(self) -> bool | None:
        """Somebody who never comes is expected, and removed. It costs nobody a vote, so it can be
        done again and again: leaders have changes of members between the entries of their logs.
        """
        number = next((one for one in _NOBODIES if one not in self._leaving), 0)
        if not number:
            return False
        self.have_changed = True
        self._leaving.add(number)
        self._loop.create_task(self._expect(number))
        return None

    async def _expect(self, number: int) -> None:
        raft = f"127.0.0.{number}:9326"
        while not await self._ask(lambda asked: asked.add(number, raft)):
            await asyncio.sleep(0.1)
        while not await self._ask(lambda asked: asked.remove(number)):
            await asyncio.sleep(0.1)
        self._leaving.remove(number)

    async def _ask(
        self, what: Callable[[Membership], _Asked], leaving: SimNode | None = None
    ) -> bool:
        """Whether it is done. Any node is asked, each time; not one about its own end, which it
        would not see.
        """
        others = [one for one in self._cluster.nodes.values() if one is not leaving]
        one = self._operator.choice(others)
        process = one.process
        if one.node is None or process is None:
            return False
        asking = process.create_task(what(one.node.membership))
        # What began in a process ends with it, even if another one is there at once.
        while not asking.done() and one.process is process:
            await asyncio.sleep(0.1)
        return asking.done() and asking.exception() is None
