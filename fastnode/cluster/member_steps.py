"""One step of a change of members: how it gets to whoever leads its group, what is done there, and
how it is seen here. Shell. Which steps make a change is decided in `membership.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, Protocol

import msgspec

from fastnode.cluster import part_calls
from fastnode.cluster.bridge import as_future
from fastnode.cluster.call_codec import DONE, decode_error, encode_error
from fastnode.cluster.courier import MEMBERS, Courier
from fastnode.cluster.leads import Leads
from fastnode.cluster.member import Member, Members
from fastnode.cluster.member_records import decode_record, record_key
from fastnode.errors import Busy, NotLed, OperationError, PlanAgain, Unavailable
from fastnode.flow import start
from fastnode.peers.calls import IncomingCall, ask
from fastnode.queue import parts
from fastnode.raft.groups import MemberChange
from fastnode.store.group import Group

_RETRY_SECONDS: Final = 0.05
_LOOKS: Final = 20
_CHANGE_SECONDS: Final = 15.0
_HOLD_SECONDS: Final = 3.0


class Consensus(Protocol):
    def propose_members(self, group: int, change: MemberChange, node: int) -> None: ...
    def status(self) -> Any: ...


class Step(msgspec.Struct, frozen=True, array_like=True):
    """Something to be done where a group is led; a hold where it will be led. A record takes the
    place of the one that was `known`, empty if there was none, or of any if that is not said.
    """

    kind: Literal["add-learner", "remove", "record", "transfer", "hold"]
    group: int
    node: int
    record: bytes = b""
    known: bytes | None = None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_step: Final = msgspec.msgpack.Decoder(Step).decode


class Steps:
    def __init__(
        self,
        node_id: int,
        groups: Sequence[Group],
        raft: Consensus,
        member: Member,
        leads: Leads,
        courier: Courier,
        new_request: Callable[[], bytes],
    ) -> None:
        self._node_id = node_id
        self._groups = groups
        self._raft = raft
        self._member = member
        self._leads = leads
        self._courier = courier
        self._new_request = new_request

    # --- for whoever is asked for a change -----------------------------------------------------

    async def catch_up(self) -> None:
        """What this node knows of members afterwards is no older than what any node knew before:
        others may have undone what it saw last.
        """
        deadline = _deadline()
        for group in self._groups:
            await _again(group, partial(self._catch_up, group), deadline)

    async def until(self, step: Step, is_done: Callable[[], bool]) -> None:
        """Ask for the step until it is seen to be done, here."""

        async def ask_for_it() -> bool:
            await as_future(self._carry(step))
            return await _seen(is_done)

        if not is_done():
            await _again(self._groups[step.group], ask_for_it, _deadline())

    async def hold(self, group: Group, node: int) -> None:
        """Let a node know that it shall keep the lead."""
        if node == self._node_id:
            self._leads.hold(group)
            return
        link = self._member.link_to(node)
        if link is None:
            raise Unavailable(f"node {node} cannot be reached from here")
        step = _encode(Step("hold", group.number, node))
        status, payload = await ask(link, MEMBERS, step, _HOLD_SECONDS)
        if status != DONE:
            raise decode_error(status, payload)

    async def _catch_up(self, group: Group) -> bool:
        await as_future(self._reach(group))
        # Members are told when the log holds them, a moment after they are in force.
        return await _seen(lambda: self._member.members[group.number] == self._in_force(group))

    async def _reach(self, group: Group) -> None:
        """A lease would not do: others, whose disks are faster, may have applied more than a leader
        that holds one.
        """
        if group.leads:
            await group.readable()
        else:
            barrier = parts.Barrier(group.number, is_of_commits=True)
            await group.reached(await part_calls.ask(self._courier, group, barrier))

    async def _carry(self, step: Step) -> None:
        group = self._groups[step.group]
        if group.is_ready:
            await self._perform(step)
            return
        status, payload = await self._courier.carry(group, MEMBERS, _encode(step))
        if status != DONE:
            raise decode_error(status, payload)

    # --- at a group's leader -------------------------------------------------------------------

    def serve(self, payload: bytes, incoming: IncomingCall) -> None:
        """A step that another node asks for."""

        def finish(_result: object, error: BaseException | None) -> None:
            if error is None:
                incoming.answer(DONE, b"")
            elif isinstance(error, OperationError):
                incoming.answer(*encode_error(error))
            else:
                raise error

        start(self._perform(_decode_step(payload)), finish)

    async def _perform(self, step: Step) -> None:
        group = self._groups[step.group]
        if step.kind == "hold":
            self._leads.hold(group)
            return
        if not group.is_ready:
            raise NotLed("another node leads the group")
        if step.kind == "record":
            await self._write(group, step)
        elif step.kind == "transfer":
            self._leads.transfer(group, step.node)
        elif step.kind == "remove" and step.node == self._node_id:
            # Whoever removes itself could not see the end of it.
            self._leads.give_away_now(group)
        else:
            self._change(group, step)

    async def _write(self, group: Group, step: Step) -> None:
        key = record_key(decode_record(step.record).node)
        # Whoever asks again may come before the first answer is applied.
        while (blocked := group.latches.wait_for((key,))) is not None:
            await blocked
        txn = group.begin(self._new_request())
        if step.known is not None and group.get(key) not in (step.known or None, step.record):
            # A step that comes late, of a call that nobody waits for, changes nothing.
            raise PlanAgain(f"the record of node {step.node} has changed meanwhile: ask again")
        txn.put(key, step.record)
        await group.submit(txn)

    def _change(self, group: Group, step: Step) -> None:
        """Nothing if it is so already: who asks will see it, and a voter that was let in once more
        would be a learner again.
        """
        assert step.kind in ("add-learner", "remove")
        is_in = any(step.node in some for some in self._in_force(group))
        if is_in != (step.kind == "add-learner"):
            self._raft.propose_members(step.group, step.kind, step.node)

    def _in_force(self, group: Group) -> Members:
        row = self._raft.status()["groups"][group.number]
        return row["voters"], row["learners"]


# --- patience ----------------------------------------------------------------------------------


def _deadline() -> float:
    return asyncio.get_running_loop().time() + _CHANGE_SECONDS


async def _again(group: Group, attempt: Callable[[], Awaitable[bool]], deadline: float) -> None:
    """Until an attempt succeeds."""
    why = ""
    try:
        async with asyncio.timeout_at(deadline):
            while True:
                try:
                    if await attempt():
                        return
                except (Busy, NotLed, Unavailable) as error:
                    why = f"({error})"
                    await asyncio.sleep(_RETRY_SECONDS)
    except TimeoutError:
        text = f"group {group.number}: not done in time {why}"
        raise Unavailable(f"{text}: see `fastnode cluster status`, and ask again") from None


async def _seen(is_done: Callable[[], bool]) -> bool:
    for _ in range(_LOOKS):
        if is_done():
            return True
        await asyncio.sleep(_RETRY_SECONDS)
    return False
