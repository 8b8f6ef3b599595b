"""A node's queue layer without sockets, disk or time: real handlers, real store, a list for a log.

The log keeps every committed entry, so that a crash can be replayed: the engine falls back to its
last flush and the entries above its applied index are applied again, as at a node's start.
"""

from collections.abc import Callable
from typing import Any

from fastnode.clock import GroupClock
from fastnode.errors import DiskFull
from fastnode.flow import start
from fastnode.queue import api
from fastnode.queue.caller import Call, Caller
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.service import Service
from fastnode.raft.groups import LEADER
from fastnode.store.group import Group
from fastnode.store.held_engine import HeldEngine
from tests.stored import StoredRows

ACCOUNT = "000000000000"
REGION = "us-east-1"
ENDPOINT = "http://localhost:9324"
START_MS = 1_700_000_000_000


class FakeClock:
    def __init__(self) -> None:
        self.ns = START_MS * 1_000_000

    def boottime_ns(self) -> int:
        return self.ns

    def wall_ns(self) -> int:
        return self.ns


class CountingIds:
    """Identities that differ, without chance."""

    def __init__(self) -> None:
        self._count = 0

    def take(self, count: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(count, "big")


class FakeAlarm:
    def __init__(self, world: "World") -> None:
        self._world = world

    def set(self, at_ms: int, now_ms: int, ring: Callable[[], None]) -> None:
        # By whatever clock they are: so long from now.
        self._world.alarms[self] = self._world.now_ms + at_ms - now_ms, ring

    def clear(self) -> None:
        self._world.alarms.pop(self, None)


class Pending:
    """A call in progress; `result` or `error` once it is answered."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def finish(self, result: Any, error: BaseException | None) -> None:
        assert not self.is_done
        self.is_done, self.result, self.error = True, result, error


class World:
    """Groups led by this node in term 1; most tests need only one, `group`."""

    def __init__(self, *, groups: int = 1, is_strict: bool = False) -> None:
        self.clock = FakeClock()
        self.alarms: dict[FakeAlarm, tuple[int, Callable[[], None]]] = {}
        self._stored = [StoredRows() for _ in range(groups)]
        self.logs: list[list[bytes]] = [[] for _ in range(groups)]
        self._is_strict = is_strict
        self._ids = CountingIds()
        self._start()

    def _start(self) -> None:
        self.alarms.clear()
        clock = self.clock
        self.engines = [HeldEngine(stored) for stored in self._stored]
        self.groups = [
            Group(number, engine, GroupClock(clock)) for number, engine in enumerate(self.engines)
        ]
        self.service = Service(
            self.groups, self._ids, lambda: FakeAlarm(self), is_strict=self._is_strict
        )
        for group, log in zip(self.groups, self.logs, strict=True):
            replayed = log[max(group.applied_index - 1, 0) :]
            group.change_role(LEADER, 1)
            group.commit(1 + len(log), 1, replayed)
            assert group.apply()

    @property
    def group(self) -> Group:
        return self.groups[0]

    @property
    def engine(self) -> HeldEngine:
        return self.engines[0]

    def crash(self) -> None:
        """Memory is gone; what was flushed and what is in the log stays."""
        for stored in self._stored:
            stored.crash()
        self._start()

    def let_go(self) -> None:
        """Other queues need the room that these have taken for messages to come."""
        for queue in self.service.live_queues():
            for keeper in queue.keepers:
                keeper.let_go()

    # --- calls ---------------------------------------------------------------------------------

    def begin(self, action: str, request: Any, account: str = ACCOUNT) -> Pending:
        """Start a call; it goes on when `commit` or `advance` brings what it waits for."""
        call = Call(Caller(account, REGION, ENDPOINT, "AIDA"), action, "request")
        pending = Pending(call)
        start(OPERATIONS[action].handler(self.service, call, request), pending.finish)
        return pending

    def call(self, action: str, request: Any, account: str = ACCOUNT) -> Any:
        """A call that is answered as soon as its transactions are committed."""
        pending = self.begin(action, request, account)
        self.commit()
        assert pending.is_done, f"{action} still waits"
        if pending.error is not None:
            raise pending.error
        return pending.result

    def commit(self) -> None:
        """Everything gathered becomes durable and is applied, until nothing is left to do."""
        while self.step():
            pass

    def step(self) -> bool:
        """One entry of each group that gathered something; False when there was none."""
        gathered = [(group, group.take_entry()) for group in self.groups]
        for group, entry in gathered:
            if entry is not None:
                group.look_ahead()
                log = self.logs[group.number]
                log.append(entry)
                group.commit(1 + len(log), 1, [entry])
                assert group.apply()
        return any(entry is not None for _, entry in gathered)

    def refuse(self) -> None:
        """The logs take nothing of what was gathered."""
        for group in self.groups:
            while group.take_entry() is not None:
                group.refuse_entry(DiskFull("the log is full"))

    # --- time ----------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.clock.ns // 1_000_000

    def advance(self, milliseconds: int) -> None:
        """Time passes; alarms ring in order, at their time."""
        end = self.now_ms + milliseconds
        while due := [(at, ring, alarm) for alarm, (at, ring) in self.alarms.items() if at <= end]:
            at, ring, alarm = min(due, key=lambda item: item[0])
            self.clock.ns = max(self.clock.ns, at * 1_000_000)
            del self.alarms[alarm]
            ring()
            self.commit()
        self.clock.ns = end * 1_000_000

    # --- the usual requests --------------------------------------------------------------------

    def create(self, name: str = "q", **attributes: str) -> str:
        url: str = self.call("CreateQueue", api.CreateQueueRequest(name, attributes)).queue_url
        return url

    def send(self, url: str, body: str, delay_seconds: int | None = None) -> str:
        request = api.SendMessageRequest(url, body, delay_seconds)
        message_id: str = self.call("SendMessage", request).message_id
        return message_id

    def receive(self, url: str, limit: int = 10, timeout: int | None = None) -> list[api.Message]:
        request = api.ReceiveMessageRequest(
            url, max_number_of_messages=limit, visibility_timeout=timeout
        )
        messages: list[api.Message] = self.call("ReceiveMessage", request).messages
        return messages

    def delete(self, url: str, handle: str) -> None:
        self.call("DeleteMessage", api.DeleteMessageRequest(url, handle))

    def change(self, url: str, handle: str, seconds: int) -> None:
        self.call(
            "ChangeMessageVisibility", api.ChangeMessageVisibilityRequest(url, handle, seconds)
        )

    def counts(self, url: str) -> tuple[int, int, int]:
        """(visible, in flight, delayed)"""
        names = ["", "NotVisible", "Delayed"]
        asked = [f"ApproximateNumberOfMessages{name}" for name in names]
        request = api.GetQueueAttributesRequest(url, asked)
        shown = self.call("GetQueueAttributes", request).attributes
        visible, in_flight, delayed = (int(shown[name]) for name in asked)
        return visible, in_flight, delayed
