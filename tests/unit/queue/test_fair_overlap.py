"""Calls, sweeps, crashes and a full log that overlap on a fair queue: nothing is lost or doubled,
and what is expired goes once. The steps and the check are those of retention.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import config, native
from fastnode.queue import api
from tests.unit.queue.retention_world import live
from tests.unit.queue.test_retention_overlap import STEP, Clients, check_outcome

TENANTS = ("a", "a", "b", None, "c", "a", "d")


class Tenants(Clients):
    def tenant(self) -> str | None:
        return TENANTS[len(self.sent_ms) % len(TENANTS)]

    def do_send(self, delay: int) -> None:
        tenant = self.tenant()
        request = api.SendMessageRequest(self.url, self.next_body(), delay, message_group_id=tenant)
        self.begin("SendMessage", request)

    def do_send_batch(self, count: int) -> None:
        entries = [
            api.SendMessageBatchRequestEntry(
                str(n), message_group_id=self.tenant(), message_body=self.next_body()
            )
            for n in range(count)
        ]
        self.begin("SendMessageBatch", api.SendMessageBatchRequest(self.url, entries))

    def do_arrive(self, age_seconds: int) -> None:
        """Nothing arrives: see the tests of dead letters."""


@pytest.mark.parametrize("page", [2, 1_024])
@given(steps=st.lists(STEP, min_size=10, max_size=80))
def test_everything_overlaps_on_a_fair_queue(page: int, steps: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "SWEEP_MESSAGES", 3)
        patch.setattr(config, "READ_AHEAD_MESSAGES", 4)
        patch.setattr(config, "TENANT_PAGE", page)
        patch.setattr(config, "NOISY_IN_FLIGHT_MIN", 2)
        patch.setattr(config, "NOISY_SHARE", 3)
        clients = Tenants()
        for kind, number in steps:
            getattr(clients, f"do_{kind}")(number)
        check_outcome(clients)
        keys = live(clients.world).messages
        scan = clients.world.group.scan_keys
        for prefix in (keys.group, keys.head, keys.ready):
            assert not scan(prefix, native.prefix_end(prefix), 1), "everything was received"
