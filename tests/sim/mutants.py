"""Deliberate bugs, to see that the simulator finds each of them: `tests/sim/mutation.py` tries.

A mutant replaces something of the program for the time of a run; the program has no switch for it.
What survives all its seeds is a hole in the proof.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from msgspec.structs import replace

from fastnode import native, node
from fastnode.errors import NotLed, OperationError, PlanAgain, Unsettled
from fastnode.native import APPLIED, DROP
from fastnode.queue import (
    delete,
    fifo_send,
    inbox,
    long_poll,
    outbox,
    queues,
    receive,
    receive_again,
    receive_one,
    repeats,
    timers,
    validate,
)
from fastnode.queue.api import ReceiveMessageResponse
from fastnode.queue.receive_answer import answers
from fastnode.store import apply, group, heads, judge, latches, sums, txn
from fastnode.store.keyspace import WINDOW_PREFIX
from tests.sim import machine

# What is put in the place of what: owner, name, replacement.
Swap = tuple[Any, str, Any]


class Mutant(NamedTuple):
    name: str
    bug: str
    swaps: Callable[[], Sequence[Swap]]


MUTANTS: list[Mutant] = []


def mutant(bug: str) -> Callable[[Callable[[], Sequence[Swap]]], Callable[[], Sequence[Swap]]]:
    def add(swaps: Callable[[], Sequence[Swap]]) -> Callable[[], Sequence[Swap]]:
        MUTANTS.append(Mutant(swaps.__name__, bug, swaps))
        return swaps

    return add


@contextmanager
def mutated(swaps: Sequence[Swap]) -> Iterator[None]:
    with ExitStack() as usual:
        for owner, name, replacement in swaps:
            usual.enter_context(patch.object(owner, name, replacement))
        yield


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


# --- receiving ---------------------------------------------------------------------------------


@mutant("messages are hidden for half of their time")
def short_window() -> Sequence[Swap]:
    usual = receive_one._plan_deliveries

    def plan(queue: Any, planned: Any, choice: Any, valid: Any) -> Any:
        half = valid.visibility_timeout_ms // 2
        return usual(queue, planned, choice, replace(valid, visibility_timeout_ms=half))

    return [(receive_one, "_plan_deliveries", plan)]


@mutant("messages are never visible again")
def endless_window() -> Sequence[Swap]:
    return [(timers.Timers, "advance", lambda self, now: None)]


@mutant("a receive that is answered gives its messages back too")
def always_give_back() -> Sequence[Swap]:
    async def handed_over(service: Any, call: Any, received: Any, valid: Any) -> Any:
        answer = ReceiveMessageResponse(answers(received, valid))
        for part in received:
            await receive_one.give_back(service, part)
        return answer

    return [(receive, "_handed_over", handed_over)]


@mutant("an attempt that was left takes from a later one what that has")
def give_back_of_others() -> Sequence[Swap]:
    return [(owner, "keep", lambda queue, at: None) for owner in (receive, receive_again)]


@mutant("all receipt handles of a message are the same")
def same_handles() -> Sequence[Swap]:
    usual = native.show_deliveries

    def show(secret: Any, generation: int, partition: int, records: Any, states: Any) -> Any:
        same = [state._replace(nonce=1 << 40) for state in states]
        return usual(secret, generation, partition, records, same)

    return [(native, "show_deliveries", show)]


@mutant("nobody who waits is woken")
def lost_wake_up() -> Sequence[Swap]:
    return [(long_poll.Waiters, "wake_one", lambda self: None)]


@mutant("delays are ignored")
def no_delay() -> Sequence[Swap]:
    return [(validate, "_checked_delay", lambda seconds, settings: 0)]


# --- other calls -------------------------------------------------------------------------------


@mutant("a delete is answered and not done")
def skip_delete() -> Sequence[Swap]:
    async def deleted(*_: Any) -> dict[str, Any]:
        return {}

    return [(delete, "delete_in", deleted)]


@mutant("of a batch only the first delete is done")
def delete_first_only() -> Sequence[Swap]:
    usual = delete.delete_in

    async def deleted(service: Any, queue: Any, call: Any, opened: Any) -> Any:
        return await usual(service, queue, call, opened[:1])

    return [(delete, "delete_in", deleted)]


@mutant("a purge is answered and not done")
def skip_purge() -> Sequence[Swap]:
    usual = queues._plan_next_generation

    def plan(queue: Any, planned: Any, *, deleted_ms: int) -> int:
        if deleted_ms:
            return usual(queue, planned, deleted_ms=deleted_ms)
        generation: int = queue.generation
        return generation

    return [(queues, "_plan_next_generation", plan)]


# --- FIFO --------------------------------------------------------------------------------------


@mutant("deduplication ids are not remembered")
def forget_deduplication() -> Sequence[Swap]:
    return [
        (fifo_send, "_originals", lambda queue, keys: dict.fromkeys(keys)),
        (fifo_send, "_is_recent", lambda original, now: False),
        (fifo_send, "original_of", lambda queue, valid: None),
    ]


@mutant("a group's first message is found without looking at its state")
def heads_without_state() -> Sequence[Swap]:
    usual = heads._available_at
    return [(heads, "_available_at", lambda position, state: usual(position, None))]


# --- letters -----------------------------------------------------------------------------------


@mutant("a letter is not written")
def drop_letters() -> Sequence[Swap]:
    def post(planned: Any, source: Any, target: Any, letters: Any) -> outbox.Posted:
        return outbox.Posted(source, target, planned.commit_ts << 16)

    return [(outbox, "_post", post)]


@mutant("a letter that was delivered is delivered again")
def repeat_letters() -> Sequence[Swap]:
    usual = outbox._Carrier._complete

    async def complete(self: Any, batch: Any, refused: Any) -> None:
        await self._deliver(self._queues, self._target, self._source.number, batch)
        await usual(self, batch, refused)

    return [
        (outbox._Carrier, "_complete", complete),
        (inbox, "inbox_key", lambda source: b"!lost|" + source.to_bytes(2, "big")),
        (inbox, "encode_position", lambda number: b""),
    ]


@mutant("the last step of a letter is left out")
def skip_last_step() -> Sequence[Swap]:
    async def complete(self: Any, batch: Any, refused: Any) -> None:
        self._next = batch[-1][0] + 1

    return [(outbox._Carrier, "_complete", complete)]
