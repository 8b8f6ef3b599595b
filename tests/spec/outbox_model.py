"""A message that changes queues, between two groups that share no transaction: it is always in one
place, and never in two. The rules are those of `fastnode/queue/outbox.py` and `inbox.py`.

Three messages of the source are posted, one after the other. A *carrier* reads letters, delivers
them to the target and completes them at the source; there are two carriers, since a leader that was
replaced may still have a step on its way. Each step is planned from what its carrier saw then and
decided later: a transaction whose reads have changed is refused (`planned`). The target queue may
be deleted at any time, and then refuses.
"""

from collections.abc import Iterator
from typing import NamedTuple

MESSAGES = ("a", "b", "c")
CARRIERS = 2


class Guards(NamedTuple):
    """What the program does; a gap leaves one out."""

    # Removing the message and writing its letter are one transaction.
    posts_at_once: bool = True
    # The target remembers the last letter that it decided.
    remembers_decided: bool = True
    remembers_refusals: bool = True
    # Refusals are kept until the source sends only newer letters.
    keeps_refusals: bool = True
    # A transaction is refused if what it was planned from has changed.
    checks_target: bool = True
    checks_source: bool = True
    delivers_before_completing: bool = True
    returns_refused: bool = True
    numbers_rise: bool = True


class Carrier(NamedTuple):
    """`letters` are those it has read; `refused` is None until the target has answered."""

    letters: tuple[tuple[int, str], ...] = ()
    refused: frozenset[int] | None = None
    # What the target looked like when a delivery was planned.
    saw: tuple[int, frozenset[int]] | None = None


class World(NamedTuple):
    source: frozenset[str] = frozenset(MESSAGES)
    letters: tuple[tuple[int, str], ...] = ()
    posted: int = 0
    # Taken from the source and not yet a letter: only where a guard is missing.
    between: frozenset[str] = frozenset()
    target: tuple[str, ...] = ()
    decided: int = 0
    refusals: frozenset[int] = frozenset()
    is_target_there: bool = True
    consumed: frozenset[str] = frozenset()
    carriers: tuple[Carrier, ...] = (Carrier(),) * CARRIERS


def follow(world: World, guards: Guards) -> Iterator[tuple[str, World]]:
    yield from _post(world, guards)
    if world.is_target_there:
        yield "the target is deleted", world._replace(is_target_there=False)
    for message in world.source:
        if world.posted and message in _ever_posted(world):
            taken = world._replace(source=world.source - {message})
            yield f"{message} is consumed", taken._replace(consumed=world.consumed | {message})
    for who, carrier in enumerate(world.carriers):
        yield from _carry(world, who, carrier, guards)


def _ever_posted(world: World) -> tuple[str, ...]:
    return MESSAGES[: world.posted]


def _post(world: World, guards: Guards) -> Iterator[tuple[str, World]]:
    """In the order of their numbers, which are timestamps of the source's log."""
    if world.posted < len(MESSAGES):
        message, number = MESSAGES[world.posted], world.posted + 1
        if not guards.numbers_rise:
            number = len(MESSAGES) - world.posted
        letters = tuple(sorted((*world.letters, (number, message))))
        rest = world._replace(source=world.source - {message}, posted=world.posted + 1)
        if guards.posts_at_once:
            yield f"{message} is posted", rest._replace(letters=letters)
        else:
            yield f"{message} is removed", rest._replace(between=world.between | {message})
    for message in world.between:
        letter = MESSAGES.index(message) + 1, message
        letters = tuple(sorted((*world.letters, letter)))
        without = world._replace(between=world.between - {message})
        yield f"{message} becomes a letter", without._replace(letters=letters)
        yield f"the node is killed before {message} is a letter", without


def _carry(world: World, who: int, carrier: Carrier, guards: Guards) -> Iterator[tuple[str, World]]:
    if carrier.letters:
        yield f"{who} is killed", _with(world, who, Carrier())
    if not carrier.letters:
        if world.letters:
            yield f"{who} reads letters", _with(world, who, Carrier(world.letters))
            yield f"{who} reads one letter", _with(world, who, Carrier(world.letters[:1]))
    elif carrier.refused is None and carrier.saw is None:
        saw = world.decided, world.refusals
        yield f"{who} plans a delivery", _with(world, who, carrier._replace(saw=saw))
        if not guards.delivers_before_completing:
            unheard = carrier._replace(refused=frozenset())
            yield f"{who} does not deliver", _with(world, who, unheard)
    elif carrier.refused is None:
        yield from _deliver(world, who, carrier, guards)
    else:
        yield from _complete(world, who, carrier, guards)


def _deliver(
    world: World, who: int, carrier: Carrier, guards: Guards
) -> Iterator[tuple[str, World]]:
    """The target decides what was planned; whether the carrier hears of it is another matter."""
    assert carrier.saw is not None
    decided, known = carrier.saw
    if guards.checks_target and decided != world.decided:
        yield f"{who} has a conflict", _with(world, who, carrier._replace(saw=None))
        return
    fresh = [one for one in carrier.letters if one[0] > decided or not guards.remembers_decided]
    after, refused = world, known
    if fresh:
        after, refused = _decide(world, carrier, fresh, known, guards)
    yield f"{who} delivers", _with(after, who, carrier._replace(refused=refused, saw=None))
    yield f"{who} delivers and does not hear of it", _with(after, who, Carrier())


def _decide(
    world: World,
    carrier: Carrier,
    fresh: list[tuple[int, str]],
    known: frozenset[int],
    guards: Guards,
) -> tuple[World, frozenset[int]]:
    stored = [message for _, message in fresh if world.is_target_there]
    new = frozenset(number for number, _ in fresh if not world.is_target_there)
    oldest = carrier.letters[0][0]
    kept = frozenset(one for one in known if one >= oldest and guards.keeps_refusals)
    after = world._replace(
        target=(*world.target, *stored),
        decided=fresh[-1][0],
        refusals=kept | new if guards.remembers_refusals else frozenset(),
    )
    return after, known | new


def _complete(
    world: World, who: int, carrier: Carrier, guards: Guards
) -> Iterator[tuple[str, World]]:
    """Letters go; refused ones are messages of their queue again, by one transaction."""
    assert carrier.refused is not None
    is_changed = any(one not in world.letters for one in carrier.letters)
    if is_changed and guards.checks_source:
        yield f"{who} completes too late", _with(world, who, Carrier())
        return
    letters = tuple(one for one in world.letters if one not in carrier.letters)
    back = {message for number, message in carrier.letters if number in carrier.refused}
    source = world.source | back if guards.returns_refused else world.source
    yield f"{who} completes", _with(world._replace(letters=letters, source=source), who, Carrier())


def _with(world: World, who: int, carrier: Carrier) -> World:
    carriers = (*world.carriers[:who], carrier, *world.carriers[who + 1 :])
    return world._replace(carriers=carriers)


def judge(world: World, is_last: bool) -> str:
    waiting = [message for _, message in world.letters]
    if list(world.target) != [one for one in MESSAGES if one in world.target]:
        return "messages are at the target twice, or out of order"
    for message in MESSAGES:
        # A letter stays until the source knows what was decided: it counts until it is.
        settled = [*world.source, *world.consumed, *world.target].count(message)
        if settled > 1:
            return f"{message} is in two places"
        if not settled and message not in (*waiting, *world.between):
            return f"{message} is lost"
    if is_last and world.letters:
        return "letters are left and nobody can carry them"
    return ""
