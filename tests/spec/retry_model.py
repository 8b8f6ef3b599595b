"""One call of a client, whatever becomes of its attempts: at most one effect, and no answer that is
not true. The decisions are those of `fastnode.queue.retry` itself.

The client's SDK may send the call to two nodes, since it gives up waiting; each *owner* carries on
by itself under the same identity. An attempt looks for what has landed (`repeats.find`), else it
proposes an entry. An entry is decided once: its effect is written unless one of the same identity
has landed. Who loses its leader knows nothing of its entry, which may still land, or never.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from fastnode.errors import NotLed, OperationError, PlanAgain, Unsettled
from fastnode.queue.retry import Attempts, Stage, Step

# Attempts of each owner; the program has more, which only repeat what two show.
ATTEMPTS = 3
OWNERS = 2

T = TypeVar("T")
IDLE, PROPOSED, TOLD = "idle", "proposed", "told"


class Owner(NamedTuple):
    """Who took the call from the client, and how far it is."""

    stage: Stage = Stage.FIRST
    left: int = ATTEMPTS
    at: str = IDLE
    told: Step | None = None
    # The last attempt found that the call had been here before.
    is_repeat: bool = False
    is_stuck: bool = False


class Call(NamedTuple):
    owners: tuple[Owner, ...] = (Owner(),) * OWNERS
    # By owner: entries that are in a log and undecided, the last first if somebody waits for it.
    floating: tuple[int, ...] = (0,) * OWNERS
    effects: tuple[int, ...] = (0,) * OWNERS
    is_remembered: bool = False


class Guards(NamedTuple):
    """What the program does; a gap leaves one out."""

    looks_first: bool = True
    decides_once: bool = True
    answers_when_decided: bool = True
    keeps_identity: bool = True


def follow(call: Call, guards: Guards) -> Iterator[tuple[str, Call]]:
    for who, owner in enumerate(call.owners):
        if owner.at == IDLE:
            yield from _attempt(call, who, guards)
        elif owner.at == PROPOSED:
            lost = _ended(call, who, Unsettled("the leader is lost"))
            yield f"{who}: the leader is lost", lost
            yield from _decide(call, who, guards, waits=True)
        unheard = call.floating[who] - (owner.at == PROPOSED)
        if unheard:
            yield from _decide(call, who, guards, waits=False)
            yield f"{who}: an entry is lost for good", _floating(call, who, -1)


def _attempt(call: Call, who: int, guards: Guards) -> Iterator[tuple[str, Call]]:
    yield f"{who}: refused", _ended(call, who, NotLed("nobody leads"))
    if guards.looks_first and call.is_remembered:
        yield f"{who}: found what has landed", _ended(call, who, None)
        return
    proposed = _floating(call, who, 1)
    if guards.answers_when_decided:
        yield f"{who}: proposes", _at(proposed, who, PROPOSED)
    else:
        yield f"{who}: proposes and answers", _ended(proposed, who, None)


def _decide(call: Call, who: int, guards: Guards, *, waits: bool) -> Iterator[tuple[str, Call]]:
    decided, is_new = _floating(call, who, -1), not (guards.decides_once and call.is_remembered)
    if is_new:
        effects = _changed(call.effects, who, call.effects[who] + 1)
        # Under another identity it is another call's that is remembered.
        remembered = guards.keeps_identity or call.is_remembered
        decided = decided._replace(effects=effects, is_remembered=remembered)
    error = None if is_new else PlanAgain("the call was here before")
    words = "takes effect" if is_new else "was here before"
    yield f"{who}: {words}", _ended(decided, who, error) if waits else decided


def _ended(call: Call, who: int, error: OperationError | None) -> Call:
    """The step is the program's own."""
    owner = call.owners[who]
    attempts = Attempts(repeats=True)
    attempts.stage, attempts._left = owner.stage, owner.left
    step = attempts.after(error)
    is_repeat = isinstance(error, PlanAgain)
    is_stuck = is_repeat and owner.is_repeat
    after = Owner(attempts.stage, attempts._left, is_repeat=is_repeat, is_stuck=is_stuck)
    if step is not Step.AGAIN:
        after = after._replace(at=TOLD, told=step)
    return call._replace(owners=_changed(call.owners, who, after))


def _at(call: Call, who: int, at: str) -> Call:
    return call._replace(owners=_changed(call.owners, who, call.owners[who]._replace(at=at)))


def _floating(call: Call, who: int, more: int) -> Call:
    return call._replace(floating=_changed(call.floating, who, call.floating[who] + more))


def _changed(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*values[:at], value, *values[at + 1 :])


def judge(call: Call, _is_last: bool) -> str:
    if sum(call.effects) > 1:
        return "the call took effect twice"
    for owner, floating, effects in zip(call.owners, call.floating, call.effects, strict=True):
        if owner.told is Step.DONE and not sum(call.effects):
            return "the client heard of an effect that is not there"
        if owner.told is Step.FAIL and (floating or effects):
            return "the client heard that nothing took effect, and it has or may"
        if owner.is_stuck:
            return "what has landed is not found by the next attempt"
    return ""
