"""What the metrics tell of repeated calls: pure, and of a real store."""

import pytest

from fastnode import native
from fastnode.clock import timestamp_from_ms
from fastnode.queue.api import CreateQueueRequest, SendMessageRequest
from fastnode.queue.retry import Gates
from fastnode.queue.retry_metrics import retry_metrics
from tests.world import World

NOW_MS = 1_700_000_000_000
SERVER = 'fastnode_retry_window_seconds{class="server_attempts"}'
CLIENT = 'fastnode_retry_window_seconds{class="client_retries"}'


class Remembering:
    def __init__(self, *floors_ms: int, count: int = 0) -> None:
        self.class_floors = [*map(timestamp_from_ms, floors_ms), 0, 0]
        self.request_count = count

    def now(self) -> int:
        return timestamp_from_ms(NOW_MS) + 7


def windows(*groups: Remembering) -> tuple[float, float]:
    found = retry_metrics(Gates(), groups)
    return found[SERVER], found[CLIENT]


def test_what_was_never_full_is_known_as_long_as_its_class_says() -> None:
    assert windows(Remembering(0, 0)) == (60, 300)
    assert windows(Remembering(NOW_MS - 60_001, NOW_MS - 300_001)) == (60, 300)


def test_what_had_to_make_room_shortens_the_window_of_its_class() -> None:
    assert windows(Remembering(NOW_MS - 1_500, 0)) == (1.5, 300)
    assert windows(Remembering(0, NOW_MS - 299_999)) == (60, 299.999)


def test_a_floor_ahead_of_the_clock_is_no_window() -> None:
    assert windows(Remembering(NOW_MS + 5, 0)) == (0, 300)


def test_the_group_that_knows_the_least_counts() -> None:
    groups = Remembering(NOW_MS - 9_000, 0), Remembering(NOW_MS - 3_000, 0), Remembering(0, 0)
    assert windows(*groups) == (3, 300)


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("recognises", [False, True])
def test_gates_and_counters_are_shown(repeats: bool, recognises: bool) -> None:
    gates = Gates()
    gates.repeats_calls, gates.recognises_retries = repeats, recognises
    gates.repeated, gates.recognised = 3, 5
    found = retry_metrics(gates, [Remembering(0, 0, count=4), Remembering(0, 0, count=6)])
    assert found == {
        'fastnode_retry_gate{gate="dedup_batch_send"}': int(repeats),
        'fastnode_retry_gate{gate="dedup_sdk_retries"}': int(recognises),
        "fastnode_calls_repeated_total": 3,
        "fastnode_calls_recognised_total": 5,
        "fastnode_requests_remembered": 10,
        SERVER: 60,
        CLIENT: 300,
    }


def test_calls_that_land_in_a_real_store_are_counted() -> None:
    world = World(groups=2)
    before = retry_metrics(world.service.gates, world.service.groups)
    url = world.call("CreateQueue", CreateQueueRequest("jobs", {})).queue_url
    world.call("SendMessage", SendMessageRequest(url, "hello"))
    after = retry_metrics(world.service.gates, world.service.groups)
    assert before["fastnode_requests_remembered"] == 0
    assert after["fastnode_requests_remembered"] >= 2
    assert after[SERVER] == native.CLASSES[0].retention_ms / 1_000
