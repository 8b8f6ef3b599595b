"""Letters between groups are held back while the states of all groups are taken; what the source
notes of those that are through.
"""

from fastnode import config, native
from fastnode.store.cut import Marks, marks_of, misfit
from fastnode.store.keyspace import OUTBOX_PREFIX
from tests.unit.queue.test_dead_letters import (
    policy,
    queues_in_different_groups,
    receive_all,
    set_policy,
)
from tests.world import World

HOLD_NS = 5_000_000_000


def failing_pair() -> tuple[World, str, str]:
    world = World(groups=4)
    source, target = queues_in_different_groups(world)
    set_policy(world, source, policy(target))
    return world, source, target


def letters(world: World) -> int:
    end = native.prefix_end(OUTBOX_PREFIX)
    return sum(len(group.scan_keys(OUTBOX_PREFIX, end, 100)) for group in world.service.groups)


def all_marks(world: World) -> list[Marks]:
    return [marks_of(group, 4) for group in world.service.groups]


def fail_one(world: World, source: str) -> None:
    world.send(source, "broken")
    receive_all(world, source, 0)
    receive_all(world, source, 0)


def test_a_held_letter_stays_in_its_group_and_arrives_when_the_hold_is_over() -> None:
    world, source, target = failing_pair()
    assert world.service.outbox.hold(HOLD_NS) == 0
    fail_one(world, source)
    assert letters(world) == 1
    assert receive_all(world, target) == []
    assert misfit(all_marks(world)) == ""
    world.advance(HOLD_NS // 1_000_000 + config.RETRY_MS)
    world.commit()
    assert [message.body for message in receive_all(world, target)] == ["broken"]
    assert letters(world) == 0


def test_a_hold_ends_when_it_is_told_to() -> None:
    world, source, target = failing_pair()
    world.service.outbox.hold(HOLD_NS)
    world.service.outbox.hold(0)
    fail_one(world, source)
    assert [message.body for message in receive_all(world, target)] == ["broken"]


def test_states_from_different_moments_of_a_letter_do_not_fit() -> None:
    world, source, _ = failing_pair()
    before = all_marks(world)
    fail_one(world, source)
    after = all_marks(world)
    assert misfit(before) == misfit(after) == ""
    moved = [number for number in range(4) if before[number] != after[number]]
    assert len(moved) == 2
    complaints = {
        misfit([after[at] if at == late else before[at] for at in range(4)]) for late in moved
    }
    # One mixture loses the message, the other has it twice.
    assert len(complaints) == 2 and "" not in complaints
