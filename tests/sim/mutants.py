"""Deliberate bugs, to see that the simulator finds each of them: `tests/sim/mutation.py` tries.
Here are those below the queues, in `mutants_of_queues.py` the others.

A mutant replaces something of the program for the time of a run; the program has no switch for it.
What survives all its seeds is a hole in the proof.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from fastnode import native, node
from fastnode.errors import NotLed, OperationError, PlanAgain, Unsettled
from fastnode.native import APPLIED, DROP
from fastnode.queue import repeats
from fastnode.store import apply, group, judge, latches, sums, txn
from fastnode.store.keyspace import WINDOW_PREFIX
from tests.sim import machine

# What is put in the place of what: owner, name, replacement.
Swap = tuple[Any, str, Any]


class Mutant(NamedTuple):
    name: str
    bug: str
    swaps: Callable[[], Sequence[Swap]]


class Mutants(list[Mutant]):
    def add(self, bug: str) -> Callable[[Callable[[], Sequence[Swap]]], None]:
        """A mutant is called like the function that has its swaps."""
        return lambda swaps: self.append(Mutant(swaps.__name__, bug, swaps))


@contextmanager
def mutated(swaps: Sequence[Swap]) -> Iterator[None]:
    with ExitStack() as usual:
        for owner, name, replacement in swaps:
            usual.enter_context(patch.object(owner, name, replacement))
        yield


MUTANTS: Final = Mutants()
mutant: Final = MUTANTS.add


# --- the log and the engine --------------------------------------------------------------------


@mutant("the log is not synced")
def skip_fsync() -> Sequence[Swap]:
    usual = machine.SimMachine.__init__

    def init(self: machine.SimMachine, *args: Any) -> None:
        usual(self, *args)
        self.disk.ignore_syncs(True)

    # What was never synced cannot rot.
    return [(machine.SimMachine, "__init__", init), (machine.SimMachine, "rot", lambda self: False)]


@mutant("an engine that did not flush says it did")
def skip_flush() -> Sequence[Swap]:
    return [(machine.SimEngine, "flush", lambda self: None)]


@mutant("a call is answered when it is proposed, not when it is committed")
def answer_before_commit() -> Sequence[Swap]:
    usual = group.Group.take_entry

    class Answered:
        def prepare(self) -> None: ...
        def resume(self, _outcome: object) -> None: ...
        def fail(self, _error: OperationError) -> None: ...

    def take(self: group.Group) -> bytes | None:
        entry = usual(self)
        for request, _, commit_ts, _, mask, *_ in (
            native.Entry(entry).transactions() if entry else ()
        ):
            owner, *rest = self._submitted[request]
            self._submitted[request] = (Answered(), *rest)  # type: ignore[assignment]  # as it was
            owner.resume((APPLIED, commit_ts, mask))
        return entry

    return [(group.Group, "take_entry", take)]


@mutant("what an entry wrote is applied again after a restart")
def forget_applied_index() -> Sequence[Swap]:
    usual = apply.put_position

    def put(batch: Any, after: apply.Position) -> None:
        usual(batch, after._replace(applied_index=max(after.applied_index - 1, 0)))

    return [(group, "put_position", put)]


@mutant("a snapshot leaves out what was remembered of calls")
def snapshot_without_window() -> Sequence[Swap]:
    usual = machine.SimSnapshot.__init__

    def init(self: machine.SimSnapshot, *args: Any) -> None:
        usual(self, *args)
        rows = self.rows.items()
        self.rows = {key: row for key, row in rows if not key.startswith(WINDOW_PREFIX)}

    return [(machine.SimSnapshot, "__init__", init)]


@mutant("a group goes on with what it knew before a snapshot replaced its state")
def snapshot_without_reset() -> Sequence[Swap]:
    def replaced(self: group.Group) -> None:
        self._undecided.clear()
        self._decided = None
        self._position = apply.load_position(self._engine)
        self._reaching.release(self._position.applied_index)

    return [(group.Group, "replaced", replaced)]


# --- transactions ------------------------------------------------------------------------------


def _decided_by(change: Callable[[native.Transaction], native.Transaction]) -> Sequence[Swap]:
    """The resolver sees other transactions than those that are written."""

    def decide(resolver: native.Resolver, entries: Sequence[bytes]) -> list[apply.Decided]:
        decided: list[apply.Decided] = []
        for entry in map(native.Entry, entries):
            seen = [native.encode_transaction(*change(one)) for one in entry.transactions()]
            judged = resolver.resolve(native.Entry(native.encode_entry(seen)))
            decided.append(apply.Decided(entry, judged))
        return decided

    return [(judge, "decide", decide)]


@mutant("conflicts are not looked for, and nobody waits for a latch")
def skip_conflicts() -> Sequence[Swap]:
    return [
        *_decided_by(lambda one: one._replace(start_ts=one.commit_ts - 1)),
        (latches.Latches, "hold", lambda self, keys: None),
        (latches.Latches, "release", lambda self, keys: []),
        (latches.Latches, "wait_for", lambda self, keys: None),
        (latches.Latches, "is_held", lambda self, key: False),
    ]


@mutant("the calls that have landed are forgotten")
def forget_requests() -> Sequence[Swap]:
    def renamed(one: native.Transaction) -> native.Transaction:
        return one._replace(request=one.commit_ts.to_bytes(16, "big"))

    return [
        *_decided_by(renamed),
        (group.Group, "landed", lambda self, request: None),
        (group.Group, "has_seen", lambda self, request: request in self._submitted),
    ]


@mutant("a landed call is answered with another one's ids")
def answer_other_ids() -> Sequence[Swap]:
    def message_id(self: repeats.Landed, entry: int) -> str:
        named = native.message_id(self.commit_ts + 1, entry, self.request)
        return native.message_id_text(named)

    return [(repeats.Landed, "message_id", message_id)]


@mutant("a leader plans before it has applied what others committed, as if it had")
def skip_barrier() -> Sequence[Swap]:
    def stamp(self: group.Group, request: bytes) -> tuple[int, int]:
        if self.has_seen(request):
            raise PlanAgain("the call was here before")
        if not self._leads:
            raise NotLed("the group has no leader here")
        self._stamped = stamped = self._clock.stamp()
        return stamped - 1, stamped

    def ready(usual: Callable[..., None]) -> Callable[..., None]:
        def at_once(self: group.Group, *given: apply.Position) -> None:
            usual(self, *given)
            self.is_ready = self._leads

        return at_once

    lead, reach = ready(group.Group._lead), ready(group.Group._reach)
    swaps = {"stamp": stamp, "_lead": lead, "_reach": reach}
    return [(group.Group, name, swap) for name, swap in swaps.items()]


@mutant("what was judged ahead is remembered, whatever was committed")
def believe_guesses() -> Sequence[Swap]:
    return [(judge.Judge, "_take_back", lambda self, guess, applied: None)]


@mutant("an index without content ends what is planned of the entry behind it")
def end_plans_early() -> Sequence[Swap]:
    usual = judge.Judge.rule

    def rule(
        self: judge.Judge, before: apply.Position, index: int, term: int, entries: Sequence[bytes]
    ) -> judge.Ruling:
        if not entries and self._guess is not None:
            # Sums are planned anew, of nothing, and heads that were planned are believed.
            head_rows = self._guess.head_rows
            apply.fill_rows(self._engine, self._engine.batch(), (), head_rows)
            head_rows.written()
        return usual(self, before, index, term, entries)

    return [(judge.Judge, "rule", rule)]


@mutant("leader memory is kept when the lead is lost")
def keep_leader_memory() -> Sequence[Swap]:
    def lose(self: group.Group) -> None:
        self._was_ready = False
        untaken, self._gathered = self._gathered, []
        self._fail(map(group._request_of, untaken), NotLed("the group has another leader"))
        self._fail(list(self._submitted), Unsettled("the group lost its leader"))

    return [(group.Group, "_lose", lose)]


@mutant("whoever believes to lead may be looked at")
def stale_lease() -> Sequence[Swap]:
    return [(group.Group, "is_readable", property(lambda self: self._leads))]


@mutant("a leader believes its own clock, not the one in the middle")
def own_clock() -> Sequence[Swap]:
    return [(node.Node, "_now_ns", lambda self, reached_ns=0: self.clock.wall_ns())]


@mutant("counters only grow")
def counters_only_grow() -> Sequence[Swap]:
    usual = sums.Sums.write

    def write(self: sums.Sums, batch: sums.Writer) -> None:
        self.added = {key: delta for key, delta in self.added.items() if delta > 0}
        usual(self, batch)

    return [(sums.Sums, "write", write)]


@mutant("a range that is dropped ends too late")
def wrong_prefix_bound() -> Sequence[Swap]:
    def drop(self: txn.Txn, prefix: bytes) -> None:
        # Without the generation and the end of the queue's name.
        self.writes.append((DROP, prefix, native.prefix_end(prefix[:-10])))

    return [(txn.Txn, "drop", drop)]
