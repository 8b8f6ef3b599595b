"""Random histories on a fair queue: the real handlers and store against lists.

The model judges tenants by the rule (the contract, section 11) with small numbers, and every
receive returns exactly what it says. A second machine keeps so few tenants in memory that most are
in the engine only; there any available message is right, because a tenant beyond the horizon may
count as noisy for longer. After every step of both: the index holds exactly what waits, the stored
mark is not beyond it, and the counters are right; at the end nothing is lost.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fastnode import config
from fastnode.queue import api
from tests.unit.queue.fair_world import FairWorld, position_of

TENANTS = ["a", "b", "c", "d", ""]
IDLE_MS = 4_000
PERIOD_MS = 3_000
PAGE = 2


@pytest.fixture(autouse=True)
def _small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "NOISY_SHARE", 3)
    monkeypatch.setattr(config, "NOISY_IN_FLIGHT_MIN", 3)
    monkeypatch.setattr(config, "NOISY_IDLE_MS", IDLE_MS)
    monkeypatch.setattr(config, "PROCESSING_PERIOD_MS", PERIOD_MS)


@dataclass(eq=False)
class Sent:
    """`visible_ms` is 0 while nobody has received it. `held_ms` is when a receive took it, as far
    as memory knows; `aside` says that it is due and known to be a noisy tenant's.
    """

    body: str
    tenant: str
    position: int
    is_filed: bool
    visible_ms: int
    receives: int = 0
    held_ms: int = 0
    aside: bool = False
    handles: list[str] = field(default_factory=list)


class FairHistory(RuleBasedStateMachine):
    is_exact = True

    @initialize()
    def start(self) -> None:
        self.world = FairWorld()
        self.url = self.world.create()
        self.sent: list[Sent] = []
        self.count = 0
        self.forget_everything(is_fair=False)

    def forget_everything(self, *, is_fair: bool) -> None:
        """Leader memory begins anew."""
        self.is_fair = is_fair
        self.noisy: dict[str, int] = {}
        self.spent: list[tuple[int, str, int]] = []
        for one in self.sent:
            one.held_ms, one.aside = 0, False

    # --- the rule ------------------------------------------------------------------------------

    def waiting(self) -> list[Sent]:
        return [one for one in self.sent if not one.visible_ms]

    def due(self) -> list[Sent]:
        return [one for one in self.sent if one.visible_ms and one.visible_ms < self.world.now_ms]

    def in_flight(self, tenant: str) -> int:
        return sum(1 for one in self.sent if one.held_ms and one.tenant == tenant)

    def takes_too_much(self, tenant: str) -> bool:
        held = sum(1 for one in self.sent if one.held_ms)
        own = self.in_flight(tenant)
        period = self.world.now_ms // PERIOD_MS
        recent = [(name, ms) for at, name, ms in self.spent if at >= period - 1]
        own_ms = sum(ms for name, ms in recent if name == tenant)
        is_over = (own >= 3 and own * 3 > held) or own_ms * 3 > sum(ms for _, ms in recent)
        return is_over and tenant != ""

    def is_noisy(self, tenant: str) -> bool:
        if tenant not in self.noisy and self.takes_too_much(tenant):
            self.noisy[tenant] = self.world.now_ms
        return tenant in self.noisy

    def observe(self) -> None:
        """Timeouts ran out."""
        for one in self.due():
            if one.held_ms:
                one.held_ms, one.aside = 0, one.tenant in self.noisy

    def quieten(self) -> None:
        for tenant, sent_ms in list(self.noisy.items()):
            own = [one for one in self.sent if one.tenant == tenant]
            has_backlog = any(not one.visible_ms or one.aside for one in own)
            is_idle = self.world.now_ms - sent_ms >= IDLE_MS
            if not has_backlog or (is_idle and not self.takes_too_much(tenant)):
                del self.noisy[tenant]
                for one in own:
                    one.aside = False

    def choose(self, limit: int) -> list[Sent]:
        self.observe()
        if not self.is_fair:
            return (self.due() + self.waiting())[:limit]
        self.quieten()
        chosen: list[Sent] = []
        for one in islice(self.in_order(), limit):
            one.held_ms, one.aside = self.world.now_ms, False
            chosen.append(one)
        return chosen

    def in_order(self) -> Iterator[Sent]:
        """What a receive may take, one by one, as long as it takes each."""
        due = self.due()
        for one in due:
            if not one.aside:
                one.aside = self.is_noisy(one.tenant)
                if not one.aside:
                    yield one
        for one in self.waiting():
            if not self.is_noisy(one.tenant):
                yield one
        left = [one for one in due if one.aside] + [
            one for one in self.waiting() if not one.held_ms
        ]
        while left:
            backlogged = [t for t in self.noisy if any(one.tenant == t for one in left)]
            fewest = min(backlogged, key=self.in_flight)
            one = next(one for one in left if one.tenant == fewest)
            left.remove(one)
            yield one

    # --- what clients do -------------------------------------------------------------------------

    @rule(tenant=st.sampled_from(TENANTS), delay=st.sampled_from([None] * 6 + [2]))
    def send(self, tenant: str, delay: int | None) -> None:
        self.count += 1
        body = f"m{self.count}"
        message_id = self.world.send_as(self.url, tenant or None, body, delay)
        self.is_fair |= bool(tenant)
        self.note(tenant, body, message_id, delay)

    @rule(tenant=st.sampled_from(TENANTS), count=st.integers(2, 10))
    def send_batch(self, tenant: str, count: int) -> None:
        bodies = [f"m{self.count + n}" for n in range(1, count + 1)]
        self.count += count
        entries = [
            api.SendMessageBatchRequestEntry(str(n), body, message_group_id=tenant or None)
            for n, body in enumerate(bodies)
        ]
        request = api.SendMessageBatchRequest(self.url, entries)
        answer = self.world.call("SendMessageBatch", request)
        self.is_fair |= bool(tenant)
        for body, result in zip(bodies, answer.successful, strict=True):
            self.note(tenant, body, result.message_id, None)

    def note(self, tenant: str, body: str, message_id: str, delay: int | None) -> None:
        visible_ms = self.world.now_ms + delay * 1000 if delay else 0
        is_filed = self.is_fair and not delay
        self.sent.append(Sent(body, tenant, position_of(message_id), is_filed, visible_ms))
        if tenant in self.noisy and not delay:
            self.noisy[tenant] = self.world.now_ms

    @rule(limit=st.integers(1, 10), timeout=st.integers(1, 5))
    def receive(self, limit: int, timeout: int) -> None:
        self.world.advance(1)
        available = {one.body: one for one in self.due() + self.waiting()}
        chosen = self.choose(limit)
        received = self.world.receive(self.url, limit, timeout)
        if not self.is_exact:
            assert len(received) == min(limit, len(available))
            chosen = [available[message.body] for message in received]
        assert [message.body for message in received] == [one.body for one in chosen]
        for one, message in zip(chosen, received, strict=True):
            one.receives += 1
            one.visible_ms = self.world.now_ms + timeout * 1000
            one.handles.append(message.receipt_handle)

    @rule(limits=st.lists(st.integers(1, 10), min_size=1, max_size=3))
    def fail_to_receive(self, limits: list[int]) -> None:
        """Receives under way at the same time, none of which the log takes."""
        self.world.advance(1)
        chosen = [one for limit in limits for one in self.choose_more(limit)]
        requests = [api.ReceiveMessageRequest(self.url, max_number_of_messages=n) for n in limits]
        calls = [self.world.begin("ReceiveMessage", request) for request in requests]
        self.world.refuse()
        assert all(call.is_done for call in calls)
        for one in chosen:
            one.held_ms = 0
            one.aside = bool(one.visible_ms) and one.tenant in self.noisy

    def choose_more(self, limit: int) -> list[Sent]:
        """As a receive that cannot have what another one holds."""
        hidden = [one for one in self.sent if one.held_ms]
        places = [one.visible_ms for one in hidden]
        for one in hidden:
            one.visible_ms = one.visible_ms or self.world.now_ms + 1
            if one.visible_ms < self.world.now_ms:
                one.visible_ms = self.world.now_ms + 1
        chosen = self.choose(limit)
        for one, visible_ms in zip(hidden, places, strict=True):
            one.visible_ms = visible_ms
        return chosen

    @precondition(lambda self: any(one.handles for one in self.sent))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from([one for one in self.sent if one.handles]))
        self.world.delete(self.url, data.draw(st.sampled_from(one.handles)))
        self.sent.remove(one)
        if one.held_ms:
            now_ms = self.world.now_ms
            self.spent.append((now_ms // PERIOD_MS, one.tenant, now_ms - one.held_ms))

    def hidden(self) -> list[Sent]:
        return [one for one in self.sent if one.handles and one.visible_ms >= self.world.now_ms]

    @precondition(lambda self: self.hidden())
    @rule(data=st.data(), seconds=st.integers(0, 6))
    def change_visibility(self, data: st.DataObject, seconds: int) -> None:
        one = data.draw(st.sampled_from(self.hidden()))
        self.world.change(self.url, one.handles[-1], seconds)
        one.visible_ms = self.world.now_ms + seconds * 1000

    @rule(milliseconds=st.sampled_from([1, 500, 1_000, 2_500, 5_000]))
    def pass_time(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)

    @rule()
    def purge(self) -> None:
        self.world.call("PurgeQueue", api.PurgeQueueRequest(self.url))
        self.sent.clear()
        self.forget_everything(is_fair=False)

    @rule()
    def flush(self) -> None:
        self.world.engine.flush()

    @rule()
    def crash(self) -> None:
        self.world.crash()
        self.forget_everything(is_fair=any(one.is_filed for one in self.waiting()))

    # --- what always holds -----------------------------------------------------------------------

    @invariant()
    def stored_rows_follow_what_waits(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.advance(1)
        now = self.world.now_ms
        hidden = [one for one in self.sent if one.visible_ms >= now]
        in_flight = sum(1 for one in hidden if one.receives)
        visible = len(self.sent) - len(hidden)
        assert self.world.counts(self.url) == (visible, in_flight, len(hidden) - in_flight)
        self.observe()
        filed = [(one.tenant, one.position) for one in self.waiting() if one.is_filed]
        assert self.world.filed() == set(filed)
        assert self.world.heads() == dict(reversed(filed))
        assert all(self.world.mark() <= one.position for one in self.waiting())

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.advance(10_000)
        received = []
        while bodies := self.world.bodies(self.url, 10, 3_600):
            received += bodies
        assert sorted(received) == sorted(one.body for one in self.sent)


class ManyTenantsHistory(FairHistory):
    is_exact = False

    @initialize()
    def start(self) -> None:
        super().start()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(config, "TENANT_PAGE", PAGE)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "patch"):
            self.patch.undo()


TestFairHistory = FairHistory.TestCase
TestFairHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestManyTenantsHistory = ManyTenantsHistory.TestCase
TestManyTenantsHistory.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
