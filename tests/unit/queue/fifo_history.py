"""A real FIFO queue beside its model: how calls are begun, committed and lost, how time passes, and
what must hold after every step. What the calls are is in `test_fifo_model.py`.

Each call has a millisecond of its own. Several may be begun before one entry commits them all; a
call that has to wait for another is the last of its entry.
"""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fastnode import config, native
from fastnode.errors import OperationError
from fastnode.queue import api
from fastnode.queue.errors import SqsError
from fastnode.queue.live import LiveQueue
from tests.unit.queue.fifo_model import MS, SECOND, Chosen, FifoModel, Message
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.world import ACCOUNT, REGION, Pending

Check = Callable[[Pending], None]
RETENTION_SECONDS = 60
ATTRIBUTE_NAMES = ["All"]


class Poll:
    def __init__(self, pending: Pending, deadline_ms: int) -> None:
        self.pending = pending
        self.deadline_ms = deadline_ms


class FifoRun(RuleBasedStateMachine):
    """What the rules of a history stand on: calls begun and committed, time, a long poll."""

    ready_page = config.READY_PAGE
    read_ahead = config.READ_AHEAD_BYTES

    @initialize(scope=st.sampled_from(["queue", "messageGroup"]), delay=st.sampled_from([0, 0, 2]))
    def start(self, scope: str, delay: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(config, "READY_PAGE", self.ready_page)
        self.patch.setattr(config, "READ_AHEAD_BYTES", self.read_ahead)
        self.world = FifoWorld(
            DeduplicationScope=scope,
            DelaySeconds=str(delay),
            MessageRetentionPeriod=str(RETENTION_SECONDS),
        )
        self.model = FifoModel(
            delay * SECOND, RETENTION_SECONDS * SECOND, dedup_per_group=scope == "messageGroup"
        )
        self.begun: list[tuple[Pending, Check]] = []
        self.poll: Poll | None = None
        self.handles: list[tuple[Message, str]] = []
        self.sent = 0
        self.last_numbers: dict[int, str] = {}
        self.world.advance(1)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    @property
    def now(self) -> int:
        return self.world.now_ms * MS

    @property
    def queue(self) -> LiveQueue:
        queue = self.world.service.find(ACCOUNT, REGION, URL)
        assert queue is not None
        return queue

    # --- beginning and ending calls --------------------------------------------------------------

    def do(
        self,
        pending: Pending,
        plan: Callable[[int], Check],
        *,
        waits: bool = False,
        alone: bool = True,
    ) -> None:
        """`plan` says at a moment what has to come out and gives the check of it."""
        if waits:
            self.commit()
            plan(self.now)(pending)
            self.after()
        else:
            self.begun.append((pending, plan(self.now)))
            if alone or self.poll is not None:
                self.commit()
                self.after()
        self.advance(1)

    def commit(self) -> None:
        self.world.commit()
        for pending, check in self.begun:
            assert pending.is_done
            check(pending)
        self.begun.clear()
        self.model.settle()

    def after(self) -> None:
        """Whatever was done may have given the poll something, after itself."""
        self.model.settle()
        self.check_poll(self.now + 1)

    @precondition(lambda self: bool(self.begun))
    @rule()
    def commit_all(self) -> None:
        self.commit()

    @rule()
    def let_go(self) -> None:
        self.world.let_go()

    def log_is_full(self) -> None:
        """What needs the log fails and leaves no trace; the rest has its answer."""
        answered = [(pending, check) for pending, check in self.begun if pending.is_done]
        for pending, check in answered:
            check(pending)
        self.world.refuse()
        for pending, _ in self.begun:
            assert pending.is_done
        failed = [pending for pending, _ in self.begun if isinstance(pending.error, OperationError)]
        assert len(failed) + len(answered) == len(self.begun)
        self.begun.clear()
        self.model.settle()

    def crash(self) -> None:
        self.begun.clear()
        self.model.settle()
        self.poll = None
        self.world.crash()

    # --- time and the long poll ------------------------------------------------------------------

    @rule(
        milliseconds=st.sampled_from(
            [1, 500, 1_000, 1_000, 2_500, 2_500, 5_000, 20_000, 60_000, 300_000]
        )
    )
    def pass_time(self, milliseconds: int) -> None:
        self.advance(milliseconds)

    @rule(data=st.data())
    def pass_time_until_something_is_due(self, data: st.DataObject) -> None:
        """To the millisecond, where mistakes are."""
        dues = sorted({self.model.available(message) for message in self.model.messages})
        ahead = [due for due in dues if due > self.now]
        if ahead:
            self.advance(data.draw(st.sampled_from(ahead)) // MS - self.world.now_ms)

    def advance(self, milliseconds: int) -> None:
        end = self.world.now_ms + milliseconds
        while self.poll is not None:
            due = self.model.next_due()
            # A poll looks in the millisecond after something became due.
            wakes = self.poll.deadline_ms if due is None else due // MS + 1
            at = max(min(wakes, self.poll.deadline_ms), self.world.now_ms + 1)
            # Whether a call in the very millisecond wakes it is nobody's business.
            if at > end + 1:
                break
            self.world.advance(at - self.world.now_ms)
            self.check_poll(self.now)
        # The next call has a millisecond of its own, even if the poll has looked in the last one.
        self.world.advance(max(end - self.world.now_ms, int(self.poll is None)))

    def check_poll(self, now: int) -> None:
        poll = self.poll
        if poll is None:
            return
        chosen = self.model.choose(now, 10)
        if self.world.now_ms >= poll.deadline_ms and not chosen.delivered:
            assert poll.pending.is_done and poll.pending.result.messages == []
            self.poll = None
            return
        # What comes in the moment that ends the wait is what it was for.
        for message in chosen.expired:
            self.model.remove(message)
        assert poll.pending.is_done == bool(chosen.delivered), (poll.pending.result, chosen)
        if chosen.delivered:
            self.poll = None
            self.delivered(poll.pending, chosen, now + 2 * SECOND)

    @precondition(lambda self: self.poll is None)
    @rule(wait=st.sampled_from([1, 5, 20]))
    def begin_poll(self, wait: int) -> None:
        self.commit()
        request = api.ReceiveMessageRequest(
            URL,
            attribute_names=ATTRIBUTE_NAMES,
            max_number_of_messages=10,
            visibility_timeout=2,
            wait_time_seconds=wait,
        )
        deadline_ms = self.world.now_ms + wait * 1_000
        self.poll = Poll(self.world.begin("ReceiveMessage", request), deadline_ms)
        self.world.commit()
        self.check_poll(self.now)
        self.advance(1)

    # --- deliveries ------------------------------------------------------------------------------

    def delivered(self, pending: Pending, chosen: Chosen, due: int) -> None:
        assert pending.error is None
        got: list[api.Message] = pending.result.messages
        assert [message.body for message in got] == [message.body for message in chosen.delivered]
        for message, real in zip(chosen.delivered, got, strict=True):
            message.receives += 1
            message.due = due
            message.handle = real.receipt_handle
            self.handles.append((message, real.receipt_handle))
            assert real.message_id == message.message_id
            shown = real.attributes
            assert shown["SequenceNumber"] == message.number
            assert shown["MessageGroupId"] == message.group
            assert shown["MessageDeduplicationId"] == message.dedup_id
            assert shown["ApproximateReceiveCount"] == str(message.receives)
            assert shown["SentTimestamp"] == str(message.sent // MS)

    # --- always ----------------------------------------------------------------------------------

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "world") and not self.begun:
            assert self.world.counts(URL) == self.model.counts(self.now)

    @invariant()
    def one_row_per_message_and_one_head_per_group(self) -> None:
        if not hasattr(self, "world") or self.begun:
            return
        for at, shard in enumerate(self.queue.shards):
            own = [one for one in self.model.messages if self.model.place(one.group) == at]
            self.check_rows(shard, own)

    def check_rows(self, shard: LiveQueue, messages: Sequence[Message]) -> None:
        keys, groups = shard.messages, {message.group for message in messages}
        received = [message for message in messages if message.due is not None]
        expected = [
            (keys.data, len(messages)),
            (keys.group, len(messages)),
            (keys.head, len(groups)),
            (keys.ready, len(groups)),
            (keys.state, len(received)),
            (keys.timer, len(received)),
        ]
        for prefix, count in expected:
            rows = shard.group.scan_keys(prefix, native.prefix_end(prefix), 10_000)
            assert len(rows) == count, prefix


def refusals(pending: Pending) -> list[str]:
    """Which entries were refused; a single call is an entry like any other."""
    if pending.error is not None:
        assert isinstance(pending.error, SqsError)
        assert pending.error.row.batch_code == "InvalidParameterValue"
        return ["0"]
    if pending.result is None:
        return []
    assert all(entry.code == "InvalidParameterValue" for entry in pending.result.failed)
    return [entry.id for entry in pending.result.failed]
