"""Deliberate bugs in what queues do: as `mutants.py`, a floor above."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from fastnode import native
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
    timers,
    validate,
)
from fastnode.queue.api import ReceiveMessageResponse
from fastnode.queue.receive_answer import answers
from fastnode.store import heads
from tests.sim.mutants import Mutants, Swap

MUTANTS: Final = Mutants()
mutant: Final = MUTANTS.add


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
