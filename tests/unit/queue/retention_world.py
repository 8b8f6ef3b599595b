"""What the tests of retention share: short-lived queues, sweeps, a recount of what is stored."""

from fastnode import native
from fastnode.flow import start
from fastnode.native import MESSAGE_MOVED
from fastnode.queue import api
from fastnode.queue.live import LiveQueue
from fastnode.queue.plans import plan_index_rows
from fastnode.queue.retention import Sweeper, sweep
from tests.world import ACCOUNT, REGION, FakeAlarm, Pending, World

MINUTE = 60_000


def start_sweeper(world: World) -> Sweeper:
    sweeper = Sweeper(world.service, FakeAlarm(world))
    sweeper.start()
    return sweeper


def create(world: World, name: str = "q", retention_seconds: int = 60) -> str:
    return world.create(name, MessageRetentionPeriod=str(retention_seconds))


def live(world: World, name: str = "q") -> LiveQueue:
    queue = world.service.find(ACCOUNT, REGION, name)
    assert queue is not None
    return queue


def rows(world: World, queue: LiveQueue) -> int:
    """Rows of messages of the queue's present life, counters and mark left out."""
    prefixes = set(queue.messages.prefixes()) - {queue.messages.counters, queue.messages.mark}
    scan = world.group.scan_keys
    return sum(len(scan(prefix, native.prefix_end(prefix), 10_000)) for prefix in prefixes)


def set_retention(world: World, url: str, seconds: int) -> None:
    attributes = {"MessageRetentionPeriod": str(seconds)}
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest(url, attributes))


def arrive(world: World, sent_ms: int, body: str) -> None:
    """A message as a move from another queue leaves it, with its age row."""
    queue = live(world)
    txn = world.group.begin(world.service.new_request())
    message_id = native.message_id(sent_ms << 16, 0, txn.request)
    position = txn.commit_ts << 16
    stored = native.encode_message(
        MESSAGE_MOVED, message_id, sent_ms, bytes(16), "AIDA", b"", body.encode()
    )
    txn.check(queue.keys.generation)
    txn.put_fresh(queue.messages.data_key(position), stored)
    txn.add(queue.messages.total, 1)
    txn.add(queue.messages.arrived, 1)
    plan_index_rows(queue, txn, position, native.decode_message(stored))
    world.group.submit(txn)
    world.commit()
    queue.arrived([native.PlannedSend("", "", position, stored)])


def begin_sweep(world: World) -> Pending:
    pending = Pending(None)  # type: ignore[arg-type]  # a sweep has no caller
    start(sweep(world.service, live(world)), pending.finish)
    return pending


def recount(world: World) -> tuple[int, int, int]:
    """(messages, received, delayed), from the records themselves."""
    keys = live(world).messages
    states = [
        native.decode_state(value)
        for _, value in world.group.scan(keys.state, native.prefix_end(keys.state), 10_000)
    ]
    received = sum(1 for state in states if state.nonce)
    total = len(world.group.scan_keys(keys.data, native.prefix_end(keys.data), 10_000))
    timers = len(world.group.scan_keys(keys.timer, native.prefix_end(keys.timer), 10_000))
    assert timers == len(states), "every state has exactly one timer"
    return total, received, len(states) - received


def counters(world: World) -> tuple[int, int, int]:
    keys = live(world).messages
    total, in_flight, delayed = (
        world.group.counter(key) for key in (keys.total, keys.in_flight, keys.delayed)
    )
    return total, in_flight, delayed


def positions(world: World) -> list[int]:
    keys = live(world).messages
    found = world.group.scan_keys(keys.data, native.prefix_end(keys.data), 10_000)
    return [keys.position_of(key) for key in found]
