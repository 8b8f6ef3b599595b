"""Random histories on one queue: the real handlers and store against a list and a dict.

Crashes fall back to the last flush and replay the log, so leader memory is rebuilt from what is
stored; flushes may come at any time. After every step the three counters agree with the model, and
every receive returns exactly what the model says.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fastnode.queue import api
from tests.world import World


@dataclass
class ModelMessage:
    body: str
    visible_ms: int
    receives: int = 0
    handles: list[str] = field(default_factory=list)


class QueueHistory(RuleBasedStateMachine):
    """The model: messages in send order, each with the time from which it may be received."""

    @initialize()
    def start(self) -> None:
        self.world = World()
        self.url = self.world.create()
        self.messages: list[ModelMessage] = []
        self.gone: list[str] = []
        self.sent = 0

    def due(self) -> list[ModelMessage]:
        """What a receive may take: timers that ran out first, both in send order."""
        now = self.world.now_ms
        # A timer is due when the clock has passed its counter bits too: strictly later.
        timed = [m for m in self.messages if m.visible_ms and m.visible_ms < now]
        return timed + [m for m in self.messages if not m.visible_ms]

    @rule(delay=st.sampled_from([None, None, None, 1, 3]))
    def send(self, delay: int | None) -> None:
        self.sent += 1
        body = f"m{self.sent}"
        self.world.send(self.url, body, delay)
        visible_ms = self.world.now_ms + delay * 1000 if delay else 0
        self.messages.append(ModelMessage(body, visible_ms))

    @rule(count=st.integers(1, 10))
    def send_batch(self, count: int) -> None:
        entries = []
        for n in range(count):
            self.sent += 1
            entries.append(api.SendMessageBatchRequestEntry(str(n), f"m{self.sent}"))
            self.messages.append(ModelMessage(f"m{self.sent}", 0))
        request = api.SendMessageBatchRequest(self.url, entries)
        assert len(self.world.call("SendMessageBatch", request).successful) == count

    @rule(limit=st.integers(1, 10), timeout=st.integers(1, 5))
    def receive(self, limit: int, timeout: int) -> None:
        # Let the clock pass the current millisecond: what is due is then the same for both.
        self.world.advance(1)
        expected = self.due()[:limit]
        received = self.world.receive(self.url, limit, timeout)
        assert [message.body for message in received] == [m.body for m in expected]
        for model, message in zip(expected, received, strict=True):
            model.receives += 1
            model.visible_ms = self.world.now_ms + timeout * 1000
            model.handles.append(message.receipt_handle)

    @precondition(lambda self: any(m.handles for m in self.messages))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        model = data.draw(st.sampled_from([m for m in self.messages if m.handles]))
        handle = data.draw(st.sampled_from(model.handles))
        self.world.delete(self.url, handle)
        self.messages.remove(model)
        self.gone.append(handle)

    @precondition(lambda self: bool(self.gone))
    @rule(data=st.data())
    def delete_again(self, data: st.DataObject) -> None:
        self.world.delete(self.url, data.draw(st.sampled_from(self.gone)))

    @precondition(lambda self: any(m.handles for m in self.messages))
    @rule(data=st.data(), seconds=st.integers(0, 6))
    def change_visibility(self, data: st.DataObject, seconds: int) -> None:
        model = data.draw(st.sampled_from([m for m in self.messages if m.handles]))
        self.world.change(self.url, data.draw(st.sampled_from(model.handles)), seconds)
        model.visible_ms = self.world.now_ms + seconds * 1000

    @rule(milliseconds=st.sampled_from([1, 500, 1_000, 2_500]))
    def pass_time(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)

    @rule()
    def purge(self) -> None:
        self.world.call("PurgeQueue", api.PurgeQueueRequest(self.url))
        self.gone += [handle for m in self.messages for handle in m.handles]
        self.messages.clear()

    @rule()
    def let_go(self) -> None:
        self.world.let_go()

    @rule()
    def flush(self) -> None:
        self.world.engine.flush()

    @rule()
    def crash(self) -> None:
        self.world.crash()

    @invariant()
    def counters_equal_a_recount(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.advance(1)
        now = self.world.now_ms
        hidden = [m for m in self.messages if m.visible_ms >= now]
        in_flight = sum(1 for m in hidden if m.receives)
        delayed = len(hidden) - in_flight
        visible = len(self.messages) - len(hidden)
        assert self.world.counts(self.url) == (visible, in_flight, delayed)


TestQueueHistory = QueueHistory.TestCase
TestQueueHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
