"""Random histories on one FIFO queue: the real handlers and store against a dumb model.

A crash falls back to the last flush and replays the log; a full log fails what was begun. Model and
queue agree on every delivery and its order, every handle, every refusal, every duplicate, when a
long poll wakes, and on the counts.
"""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from fastnode.flow import gather, start
from fastnode.queue import api
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.fifo_sweep import sweep_stale_rows
from fastnode.queue.fifo_walk import Walk
from fastnode.queue.retention import sweep
from tests.unit.queue.fifo_history import ATTRIBUTE_NAMES, Check, FifoRun, refusals
from tests.unit.queue.fifo_model import SECOND, Attempt, Message
from tests.unit.queue.fifo_world import URL
from tests.world import Pending

GROUPS = st.sampled_from("abcdef")
KINDS = ["send", "receive", "receive", "delete", "change"]
# Few enough to repeat; None stands for one that nobody has used.
DEDUP_IDS = st.sampled_from([None, None, None, "x", "y"])


class FifoHistory(FifoRun):
    # --- sends -----------------------------------------------------------------------------------

    @rule(group=GROUPS, dedup_id=DEDUP_IDS, alone=st.booleans())
    def send(self, group: str, dedup_id: str | None, alone: bool) -> None:
        (entry,) = self.entries([(group, dedup_id)])
        request = api.SendMessageRequest(
            URL,
            entry.message_body,
            message_group_id=group,
            message_deduplication_id=entry.message_deduplication_id,
        )
        self.do_send("SendMessage", request, [entry], alone)

    @rule(
        names=st.lists(st.tuples(GROUPS, DEDUP_IDS), min_size=2, max_size=10), alone=st.booleans()
    )
    def send_batch(self, names: list[tuple[str, str | None]], alone: bool) -> None:
        entries = self.entries(names)
        request = api.SendMessageBatchRequest(URL, entries)
        self.do_send("SendMessageBatch", request, entries, alone)

    def entries(
        self, names: Sequence[tuple[str, str | None]]
    ) -> list[api.SendMessageBatchRequestEntry]:
        made: list[api.SendMessageBatchRequestEntry] = []
        for group, dedup_id in names:
            self.sent += 1
            made.append(
                api.SendMessageBatchRequestEntry(
                    str(len(made)),
                    f"m{self.sent}",
                    message_group_id=group,
                    message_deduplication_id=dedup_id or f"d{self.sent}",
                )
            )
        return made

    def do_send(
        self,
        action: str,
        request: Any,
        entries: Sequence[api.SendMessageBatchRequestEntry],
        alone: bool,
    ) -> None:
        model = self.model
        names = [
            (entry.message_group_id or "", entry.message_deduplication_id or "", entry.message_body)
            for entry in entries
        ]
        keys = {model.dedup_key(group, dedup_id) for group, dedup_id, _ in names}

        def plan(now: int) -> Check:
            new: dict[tuple[str, str], Message] = {}
            originals: list[Message] = []
            for group, dedup_id, body in names:
                key = model.dedup_key(group, dedup_id)
                known = new.get(key) or model.original(group, dedup_id, now)
                originals.append(
                    known or new.setdefault(key, Message(body or "", group, dedup_id, now))
                )
            model.busy_keys.update(new)
            return lambda pending: self.accepted(pending, originals, list(new.values()))

        pending = self.world.begin(action, request)
        self.do(pending, plan, waits=not keys.isdisjoint(model.busy_keys), alone=alone)

    def accepted(
        self, pending: Pending, originals: Sequence[Message], new: Sequence[Message]
    ) -> None:
        assert pending.error is None
        answers = (
            [pending.result]
            if isinstance(pending.result, api.SendMessageResponse)
            else pending.result.successful
        )
        for answer, message in zip(answers, originals, strict=True):
            if not message.number:
                message.message_id, message.number = answer.message_id, answer.sequence_number
            assert (answer.message_id, answer.sequence_number) == (
                message.message_id,
                message.number,
            )
        for message in new:
            place = self.model.place(message.group)
            assert message.number > self.last_numbers.get(place, "") and len(message.number) == 20
            self.last_numbers[place] = message.number
            self.model.add(message)

    # --- receives --------------------------------------------------------------------------------

    @rule(
        limit=st.integers(1, 10),
        timeout=st.sampled_from([0, 1, 2, 5, 30, 400]),
        attempt=st.sampled_from([None, None, "first", "second"]),
        alone=st.booleans(),
    )
    def receive(self, limit: int, timeout: int, attempt: str | None, alone: bool) -> None:
        request = api.ReceiveMessageRequest(
            URL,
            attribute_names=ATTRIBUTE_NAMES,
            max_number_of_messages=limit,
            visibility_timeout=timeout,
            receive_request_attempt_id=attempt,
        )

        def plan(now: int) -> Check:
            repeated = self.model.repeated(attempt, now) if attempt else None
            if repeated is not None:
                return self.plan_repetition(attempt or "", repeated, now + timeout * SECOND)
            # Who looks for an earlier attempt in vain looks again, a moment later.
            begins = now + 1 if attempt in self.model.attempts else now
            return self.plan_receive(begins, limit, attempt, begins + timeout * SECOND)

        waits = attempt in self.model.busy_attempts
        self.do(self.world.begin("ReceiveMessage", request), plan, waits=waits, alone=alone)

    def plan_receive(self, now: int, limit: int, attempt: str | None, due: int) -> Check:
        model = self.model
        chosen = model.choose(now, limit)
        taken = chosen.delivered + chosen.expired
        model.busy.update(taken)
        model.busy_groups.update(message.group for message in taken)
        if attempt and chosen.delivered:
            model.busy_attempts.add(attempt)

        def check(pending: Pending) -> None:
            self.delivered(pending, chosen, due)
            for message in chosen.expired:
                model.remove(message)
            if attempt and chosen.delivered:
                handles = [(message, message.handle) for message in chosen.delivered]
                model.attempts[attempt] = Attempt(now, due, handles)

        return check

    def plan_repetition(self, attempt_id: str, attempt: Attempt, due: int) -> Check:
        self.model.busy.update(message for message, _ in attempt.handles)
        self.model.busy_attempts.add(attempt_id)

        def check(pending: Pending) -> None:
            assert pending.error is None
            got = [(message.body, message.receipt_handle) for message in pending.result.messages]
            assert got == [(message.body, handle) for message, handle in attempt.handles]
            counts = [m.attributes["ApproximateReceiveCount"] for m in pending.result.messages]
            assert counts == [str(message.receives) for message, _ in attempt.handles]
            for message, _ in attempt.handles:
                message.due = due
            self.model.attempts[attempt_id] = Attempt(attempt.began, due, attempt.handles)

        return check

    @rule(data=st.data(), kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=6))
    def several_at_once(self, data: st.DataObject, kinds: list[str]) -> None:
        """Calls that one entry commits: the more meet, the better."""
        for kind in kinds:
            if kind == "send":
                self.send(data.draw(GROUPS), data.draw(DEDUP_IDS), alone=False)
            elif kind == "receive":
                timeout = data.draw(st.sampled_from([0, 5]))
                self.receive(data.draw(st.integers(1, 10)), timeout, None, alone=False)
            elif self.handles and kind == "delete":
                self.delete(data, alone=False)
            elif self.handles:
                self.change(data, data.draw(st.sampled_from([0, 5])), alone=False)
        self.commit()

    # --- deletes, changes, removals --------------------------------------------------------------

    def drawn(self, data: st.DataObject, count: int) -> list[tuple[Message, str]]:
        """Handles old and new, of messages that are there and that are gone."""
        some = st.sampled_from(self.handles[-10:])
        return data.draw(st.lists(some, min_size=1, max_size=count, unique=True))

    @precondition(lambda self: bool(self.handles))
    @rule(data=st.data(), alone=st.booleans())
    def delete(self, data: st.DataObject, alone: bool) -> None:
        drawn = self.drawn(data, 4)
        entries = [
            api.DeleteMessageBatchRequestEntry(str(n), handle)
            for n, (_, handle) in enumerate(drawn)
        ]
        if len(drawn) == 1:
            pending = self.world.begin("DeleteMessage", api.DeleteMessageRequest(URL, drawn[0][1]))
        else:
            request = api.DeleteMessageBatchRequest(URL, entries)
            pending = self.world.begin("DeleteMessageBatch", request)

        def plan(now: int) -> Check:
            model = self.model
            stale = [
                str(n)
                for n, (message, handle) in enumerate(drawn)
                if not message.is_gone
                and not model.is_expired(message, now)
                and not model.is_good(message, handle, now)
            ]
            removed = {
                message: None
                for n, (message, _) in enumerate(drawn)
                if not message.is_gone and str(n) not in stale
            }
            model.busy.update(removed)

            def check(pending: Pending) -> None:
                assert refusals(pending) == stale
                for message in removed:
                    model.remove(message)

            return check

        waits = any(message in self.model.busy for message, _ in drawn)
        self.do(pending, plan, waits=waits, alone=alone)

    @precondition(lambda self: bool(self.handles))
    @rule(data=st.data(), seconds=st.sampled_from([0, 0, 1, 5, 30]), alone=st.booleans())
    def change(self, data: st.DataObject, seconds: int, alone: bool) -> None:
        drawn = self.drawn(data, 3)
        entries = [
            api.ChangeMessageVisibilityBatchRequestEntry(str(n), handle, seconds)
            for n, (_, handle) in enumerate(drawn)
        ]
        if len(drawn) == 1:
            single = api.ChangeMessageVisibilityRequest(URL, drawn[0][1], seconds)
            pending = self.world.begin("ChangeMessageVisibility", single)
        else:
            request = api.ChangeMessageVisibilityBatchRequest(URL, entries)
            pending = self.world.begin("ChangeMessageVisibilityBatch", request)

        def plan(now: int) -> Check:
            model = self.model
            good = {
                n: message
                for n, (message, handle) in enumerate(drawn)
                if not message.is_gone
                and not model.is_expired(message, now)
                and model.is_good(message, handle, now)
            }
            model.busy.update(good.values())

            def check(pending: Pending) -> None:
                assert refusals(pending) == [str(n) for n in range(len(drawn)) if n not in good]
                for message in good.values():
                    message.due = now + seconds * SECOND

            return check

        waits = any(message in self.model.busy for message, _ in drawn)
        self.do(pending, plan, waits=waits, alone=alone)

    def sweep(self, alone: bool) -> None:
        pending = Pending(None)  # type: ignore[arg-type]  # a sweep has no caller
        sweeps = (sweep(self.world.service, shard) for shard in self.queue.shards)
        start(gather(sweeps), pending.finish)

        def plan(now: int) -> Check:
            model = self.model
            expired = [
                message
                for message in model.messages
                if model.is_expired(message, now) and message not in model.busy
            ]
            model.busy.update(expired)

            def check(pending: Pending) -> None:
                assert pending.error is None
                for message in expired:
                    model.remove(message)

            return check

        self.do(pending, plan, alone=alone)

    def sweep_what_is_remembered(self) -> None:
        """Nobody can tell, except by what is stored. The walk begins anew, as after a restart."""
        self.commit()
        shards = [shard for shard in self.queue.shards if isinstance(shard, FifoQueue)]
        for shard in shards:
            shard.walk = Walk()
        has_more = True
        while has_more:
            pending = Pending(None)  # type: ignore[arg-type]  # a sweep has no caller
            sweeps = (sweep_stale_rows(self.world.service, shard) for shard in shards)
            start(gather(sweeps), pending.finish)
            self.world.commit()
            has_more = any(pending.result)
        self.model.forget_attempts(self.now)
        self.advance(1)

    def purge(self) -> None:
        pending = self.world.begin("PurgeQueue", api.PurgeQueueRequest(URL))
        self.do(pending, lambda _now: lambda _pending: self.model.purge())

    def change_delay(self, seconds: int) -> None:
        request = api.SetQueueAttributesRequest(URL, {"DelaySeconds": str(seconds)})

        def check(pending: Pending) -> None:
            assert pending.error is None
            self.model.delay = seconds * SECOND

        self.do(self.world.begin("SetQueueAttributes", request), lambda _now: check)

    # One rule for all that is rare: hypothesis chooses among rules alike.
    @rule(data=st.data())
    def disturb(self, data: st.DataObject) -> None:
        disturbances: list[Callable[[], None]] = [
            self.crash,
            data.draw(st.sampled_from(self.world.engines)).flush,
            self.log_is_full,
            lambda: self.sweep(alone=data.draw(st.booleans())),
            self.sweep_what_is_remembered,
            self.purge,
            lambda: self.change_delay(data.draw(st.sampled_from([0, 1, 5]))),
        ]
        data.draw(st.sampled_from(disturbances))()


class FifoHistoryInSmallPages(FifoHistory):
    """As if there were thousands of groups: most of what is ready is in the engine only."""

    ready_page = 1
    # Two or three records.
    read_ahead = 400


TestFifoHistory = FifoHistory.TestCase
TestFifoHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestFifoHistoryInSmallPages = FifoHistoryInSmallPages.TestCase
TestFifoHistoryInSmallPages.settings = settings(TestFifoHistory.settings, max_examples=40)
