"""All interleavings of a call's two attempts with what others do, none sampled, each compared with
the table that was written from the contract. And gaps on purpose, which the comparison has to see.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence

import pytest

from fastnode import native
from fastnode.errors import OperationError
from fastnode.native import Resolver
from fastnode.queue.errors import SqsError
from fastnode.store.group import Group
from tests.unit.cluster import retry_table
from tests.unit.cluster.retry_runs import groups_of, leaders_at_first, run_case
from tests.unit.cluster.retry_table import (
    Case,
    Event,
    Fate,
    Kind,
    Leader,
    Loss,
    Owner,
    Repeater,
    Verb,
    cases,
)
from tests.unit.cluster.retry_world import RetryWorld

NewWorld = Callable[[Kind], RetryWorld]
# So many cases share a world, each with a queue of its own.
USES = 48


def world_for(kind: Kind, *, mints_anew: bool = False) -> RetryWorld:
    world = RetryWorld(groups_of(kind), mints_anew=mints_anew)
    world.lead_as(leaders_at_first(kind))
    return world


def all_of(
    verb: Verb, kind: Kind, repeaters: Sequence[Repeater] = (Repeater.OWNER, Repeater.CLIENT)
) -> list[Case]:
    columns = itertools.product(Owner, repeaters)
    return [case for column in columns for case in cases(verb, kind, *column)]


def shown(case: Case) -> str:
    return ", ".join(part.name for part in case)


def failures(
    some: Iterable[Case], new_world: NewWorld = world_for, *, is_ahead: bool = False
) -> dict[str, list[str]]:
    """What is not as the table says. A world in which a case came to no end is not used again."""
    world: RetryWorld | None = None
    found: dict[str, list[str]] = {}
    for number, case in enumerate(some):
        world = world or new_world(case.kind)
        try:
            complaints = run_case(world, case, number, is_ahead=is_ahead)
        except (AssertionError, OperationError, SqsError) as error:
            complaints, world = [repr(error)], None
        if complaints:
            found[shown(case)] = complaints
        if number % USES == USES - 1:
            world = None
    return found


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("verb", Verb)
def test_every_case_ends_as_the_table_says(verb: Verb, kind: Kind) -> None:
    assert failures(all_of(verb, kind)) == {}


@pytest.mark.parametrize("verb", Verb)
def test_a_client_may_repeat_at_the_same_node_too(verb: Verb) -> None:
    assert failures(all_of(verb, Kind.STANDARD, [Repeater.CLIENT_HERE])) == {}


def test_no_case_is_missing() -> None:
    """And what is dropped is dropped for a reason."""
    repeaters = Repeater.OWNER, Repeater.CLIENT
    product = itertools.product(Verb, Kind, Owner, repeaters, Fate, Loss, Event, Leader)
    everything = [Case(*parts) for parts in product]
    reasons = [retry_table.why_impossible(case) for case in everything]
    kept = [case for pair in itertools.product(Verb, Kind) for case in all_of(*pair)]
    assert len(everything) == 7 * 3 * 2 * 2 * 3 * 2 * 6 * 2 == 6048
    assert len(kept) == len(set(kept)) == reasons.count(None)
    assert {reason: reasons.count(reason) for reason in set(reasons)} == COUNTS


COUNTS = {
    None: 3992,
    retry_table.IMPOSSIBLE[Fate.NEVER, Loss.AFTER]: 1008,
    retry_table.IMPOSSIBLE[Fate.LATE, Loss.AFTER]: 1008,
    retry_table.BEYOND_RAFT: 40,
}


# --- a first leader whose clock is ahead ---------------------------------------------------------


def late_cases(verb: Verb, kind: Kind) -> list[Case]:
    """In which the first attempt comes behind a second one that has landed, and is no older."""
    return [
        case
        for case in all_of(verb, kind)
        if case.fate is Fate.LATE and not case.keeps_term and case.event is not Event.TIGHTEN
    ]


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("verb", Verb)
def test_a_late_attempt_is_told_by_its_identity_not_by_its_time(verb: Verb, kind: Kind) -> None:
    assert failures(late_cases(verb, kind), is_ahead=True) == {}


# --- gaps ----------------------------------------------------------------------------------------


class ForgetfulResolver:
    """Apply rules that do not ask whether a call was here before."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._names: dict[bytes, bytes] = {}
        self._count = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._resolver, name)

    def find(self, request: bytes) -> tuple[int, int] | None:
        return self._resolver.find(self._names.get(request, request))

    def resolve(self, entry: native.Entry) -> object:
        renamed = []
        for transaction in entry.transactions():
            self._count += 1
            self._names[transaction[0]] = name = self._count.to_bytes(16, "big")
            renamed.append(native.encode_transaction(*transaction._replace(request=name)))
        return self._resolver.resolve(native.Entry(native.encode_entry(renamed)))


def without_apply_check(kind: Kind) -> RetryWorld:
    world = world_for(kind)
    for node in world.nodes.values():
        for group in node.groups:
            forgetful = ForgetfulResolver(group._judge.resolver)
            group._judge.resolver = forgetful  # type: ignore[assignment] # the gap
    return world


def _lookup_nothing(group: Group) -> None:
    vars(group)["landed"] = lambda _request: None
    vars(group)["has_seen"] = group._submitted.__contains__


def without_lookup(kind: Kind) -> RetryWorld:
    world = world_for(kind)
    for node in world.nodes.values():
        for group in node.groups:
            _lookup_nothing(group)
    return world


def without_identity(kind: Kind) -> RetryWorld:
    return world_for(kind, mints_anew=True)


def by_owner(verb: Verb, kind: Kind = Kind.STANDARD) -> list[Case]:
    return list(cases(verb, kind, Owner.OTHER, Repeater.OWNER))


@pytest.mark.parametrize("verb", [Verb.SEND, Verb.SEND_BATCH])
def test_without_the_check_of_apply_late_attempts_are_stored_again(verb: Verb) -> None:
    found = failures(late_cases(verb, Kind.STANDARD), without_apply_check, is_ahead=True)
    assert found
    twice = "a message has another id than its sender was told"
    assert any(twice in texts for texts in found.values())


@pytest.mark.parametrize("verb", Verb)
def test_without_the_look_up_what_landed_is_not_answered(verb: Verb) -> None:
    found = failures(by_owner(verb), without_lookup)
    assert found
    assert all(Fate.NEVER.name not in name for name in found), "nothing to be found there"


@pytest.mark.parametrize("verb", Verb)
def test_without_one_identity_for_all_attempts_they_take_effect_twice(verb: Verb) -> None:
    found = failures(by_owner(verb), without_identity)
    assert any(Fate.LANDS.name in name for name in found)
    assert all(Fate.NEVER.name not in name for name in found), "there only one takes effect"
