"""One turn of all groups: what to propose, what to apply, in which order.

No event loop, no sockets, no clock: the shell in `runtime.py` says when.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from fastnode.errors import NotLed, OperationError
from fastnode.raft.groups import LEADER, Ready
from fastnode.raft.lease import Reads


class Consensus(Protocol):
    def propose(self, group: int, entry: bytes) -> None: ...
    def read_index(self, group: int, context: bytes) -> None: ...
    def ready(self, *, here: bool = False) -> Ready: ...
    def applied(self, positions: list[tuple[int, int]]) -> None: ...


class Machine(Protocol):
    """What a replicated group looks like from here."""

    reads: Reads

    @property
    def applied_index(self) -> int: ...

    @property
    def is_ready(self) -> bool:
        """It leads and has applied an entry of its term; before that no round is answered."""
        ...

    @property
    def gathered_count(self) -> int:
        """Transactions that wait for an entry."""
        ...

    def take_entry(self) -> bytes | None:
        """Gathered transactions as one entry of bounded size; None when nothing is left."""
        ...

    def refuse_entry(self, error: OperationError) -> None:
        """The entry taken last did not enter the log, and never will."""
        ...

    def look_ahead(self) -> None:
        """The entry taken last is being written: what can be done before it is committed."""
        ...

    def commit(self, index: int, term: int, entries: Sequence[bytes]) -> None:
        """Entries up to `index` are committed."""
        ...

    def apply(self) -> bool:
        """Apply what is committed. False: the engine stalls, the rest is kept for the next call."""
        ...

    def change_role(self, role: str, term: int, leader: int) -> None: ...

    @property
    def is_waiting(self) -> bool:
        """Whether something counts ticks. Most groups of a node are idle."""
        ...

    def tick(self) -> None:
        """A tick has passed, for what waits."""
        ...


class Driver:
    __slots__ = ("_consensus", "_led", "_machines", "is_persisting", "reading", "stalled")

    def __init__(self, consensus: Consensus, machines: Sequence[Machine]) -> None:
        self._consensus = consensus
        self._machines = machines
        # Only where this node leads somebody can wait.
        self._led: dict[int, Machine] = {}
        self.is_persisting = False
        self.stalled: dict[int, None] = {}
        # Groups whose reads wait. A sole voter is here when its members are to change, and
        # pays nothing for them otherwise.
        self.reading: dict[int, None] = {}

    def gathered_count(self, groups: Iterable[int]) -> int:
        return sum([self._machines[group].gathered_count for group in groups])

    def propose(self, groups: Iterable[int]) -> None:
        """One entry per group and turn: an entry per transaction costs several times as much."""
        for group in groups:
            machine = self._machines[group]
            while (entry := machine.take_entry()) is not None:
                try:
                    self._consensus.propose(group, entry)
                except OperationError as error:
                    machine.refuse_entry(error)

    def look_ahead(self, groups: Iterable[int]) -> None:
        """While a block is written there is time for what would have to be done after it."""
        if self.is_persisting:
            for group in groups:
                self._machines[group].look_ahead()

    def tick(self, now_ns: int) -> None:
        """A lease in use that grows old is renewed by the turn that follows."""
        for group, machine in tuple(self._led.items()):
            if machine.is_waiting:
                machine.tick()
            reads = machine.reads
            if reads.is_active and reads.is_round_due(now_ns):
                self.reading[group] = None

    def is_round_due(self, now_ns: int) -> bool:
        """Reads wait for a question that could be asked now."""
        machines = [self._machines[group] for group in self.reading]
        return any(machine.is_ready and machine.reads.is_round_due(now_ns) for machine in machines)

    def ask(self, now_ns: int) -> None:
        """Before a turn: one question per group for all reads that wait. `now_ns` is read before,
        since the lease counts from it.
        """
        for group in list(self.reading):
            machine = self._machines[group]
            context = machine.reads.take_round(now_ns) if machine.is_ready else None
            if context is not None:
                try:
                    self._consensus.read_index(group, context)
                except NotLed as error:
                    machine.reads.refuse(error)

    def turn(self) -> Ready:
        """Hand on what became durable and committed; what is left concerns peers and members."""
        ready = self.look()
        self.carry_out(ready)
        return ready

    def look(self, *, here: bool = False) -> Ready:
        """What is to be carried out. When `here`, nothing else goes on, and this thread may begin
        to write the log, which the next look finishes.
        """
        ready = self._consensus.ready(here=here)
        self.is_persisting = ready.is_persisting
        return ready

    def carry_out(self, ready: Ready) -> None:
        """Roles come first: a committed entry of the new term is what ends the leader's barrier,
        and a leader that stepped down must not count a confirmed round, nor send its vote for
        another while it still believes in its lease.
        """
        for group, role, term, leader in ready.roles:
            self._change_role(group, role, term, leader)
        for group, context, index in ready.reads:
            self._machines[group].reads.confirm(context, index)
        for group, index, term, entries in ready.committed:
            self._machines[group].commit(index, term, entries)
        self.apply([group for group, *_ in ready.committed])

    def _change_role(self, group: int, role: str, term: int, leader: int) -> None:
        if role == LEADER:
            self._led[group] = self._machines[group]
        else:
            self._led.pop(group, None)
        self._machines[group].change_role(role, term, leader)

    def apply(self, groups: Iterable[int]) -> None:
        """A group whose engine stalls keeps its entries and is named in `stalled`."""
        positions: list[tuple[int, int]] = []
        for group in groups:
            machine = self._machines[group]
            if machine.apply():
                self.stalled.pop(group, None)
            else:
                self.stalled[group] = None
            positions.append((group, machine.applied_index))
        if positions:
            self._consensus.applied(positions)
        if self.reading:
            self._release_reads()

    def _release_reads(self) -> None:
        for group in list(self.reading):
            machine = self._machines[group]
            machine.reads.release(machine.applied_index)
            if not machine.reads.are_waiting:
                del self.reading[group]
