"""What the tests of letters between FIFO queues share: three queues, in one group or in several."""

from fastnode import native
from fastnode.queue import api
from fastnode.queue.live import LiveQueue
from tests.unit.queue.fifo_world import FifoWorld
from tests.unit.queue.test_dead_letters import policy, set_policy
from tests.world import ACCOUNT, REGION, World


def live(world: World, name: str) -> LiveQueue:
    queue = world.service.find(ACCOUNT, REGION, name)
    assert queue is not None
    return queue


def fifos_in_different_groups(world: FifoWorld, count: int) -> list[str]:
    """Names whose queues live in as many groups."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < count:
        name = f"q{number}.fifo"
        number += 1
        world.create_fifo(name)
        found.setdefault(live(world, name).group.number, name)
    return list(found.values())


class Letters:
    """A source that gives up after one receive, its dead-letter queue, and a third queue."""

    def __init__(self, groups: int) -> None:
        self.world = FifoWorld(groups=groups)
        if groups == 1:
            self.source, self.target, self.other = "source.fifo", "target.fifo", "other.fifo"
            for name in (self.source, self.target, self.other):
                self.world.create_fifo(name)
        else:
            self.source, self.target, self.other = fifos_in_different_groups(self.world, 3)
        set_policy(self.world, self.source, policy(self.target))

    def send(self, group: str, *sent: str) -> list[api.SendMessageResponse]:
        return self.world.put(group, *sent, url=self.source)

    def receive(self, name: str | None = None, timeout: int = 0) -> list[api.Message]:
        return self.world.get(timeout=timeout, url=name or self.source)

    def bury(self, count: int) -> list[str]:
        """So many messages of two groups, in turn, go the way of all dead letters; their ids."""
        sent = [self.send(f"g{number % 2}", str(number))[0].message_id for number in range(count)]
        while self.world.counts(self.source) != (0, 0, 0):
            self.receive()
            self.receive()
        return sent

    def drain(self, name: str) -> dict[str, list[str]]:
        """What the queue delivers of each group, in order."""
        groups: dict[str, list[str]] = {}
        while messages := self.receive(name, timeout=600):
            for message in messages:
                groups.setdefault(message.attributes["MessageGroupId"], []).append(message.body)
                self.world.delete(name, message.receipt_handle)
        return groups


def message_rows(world: World, name: str) -> list[bytes]:
    """What is left of messages when there are none."""
    queue = live(world, name)
    keys = queue.messages
    kept = (keys.counters, keys.mark, keys.dedup)
    return [
        row
        for prefix in keys.prefixes()
        if prefix not in kept
        for row in queue.group.scan_keys(prefix, native.prefix_end(prefix), 100)
    ]


def ring(world: World, milliseconds: int = 1_000) -> None:
    """Time passes, and whoever waited for that goes on; what they submit is not committed yet."""
    world.clock.ns += milliseconds * 1_000_000
    due = [alarm for alarm, (at_ms, _) in world.alarms.items() if at_ms <= world.now_ms]
    for alarm in due:
        _, go_on = world.alarms.pop(alarm)
        go_on()
