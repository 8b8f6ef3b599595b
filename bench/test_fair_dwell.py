"""How long messages of quiet tenants wait behind a noisy one: real handlers on a real engine.

Two queues of one store take turns. In each turn ten quiet tenants send a message each, and the next
receive must return them; that is their dwell time. One queue has nothing else, the other one a
noisy tenant that goes on sending in front of them, with a backlog of a million. What is gathered is
applied at once: there is no log and no network, which would be the same for both and hide the
difference. With timing off the backlog is short, to see that everything still works.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fastnode.clock import GroupClock, SystemClock, SystemIdSource
from fastnode.flow import start
from fastnode.queue import api
from fastnode.queue.caller import Call, Caller
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.service import Service
from fastnode.raft.groups import LEADER
from fastnode.store.engine import EngineShared, RocksEngine
from fastnode.store.group import Group

BACKLOG: Final = 1_000_000
SHORT_BACKLOG: Final = 2_000
TURNS: Final = 3_000
SHORT_TURNS: Final = 20
IN_FLIGHT: Final = 500
BATCH: Final = 10
# Batches that share an entry while the backlog is made.
GATHERED: Final = 32
BODY: Final = "x" * 200
RATIO_MAX: Final = 1.5
LONG_SECONDS: Final = 43_200


class NoAlarm:
    """Nobody waits here."""

    def set(self, at_ms: int, now_ms: int, ring: Callable[[], None]) -> None: ...
    def clear(self) -> None: ...


class Store:
    """One group, led here; committed is what was gathered."""

    def __init__(self, path: Path) -> None:
        self.engine = RocksEngine(path, EngineShared())
        self.group = Group(0, self.engine, GroupClock(SystemClock()))
        self.service = Service([self.group], SystemIdSource(), NoAlarm, is_strict=False)
        self._caller = Caller("000000000000", "us-east-1", "http://localhost:9324", "AIDA")
        self.group.change_role(LEADER, 1)
        self._index = self.group.applied_index + 1
        self.group.commit(self._index, 1, [])
        assert self.group.apply()

    def begin(self, action: str, request: Any) -> list[Any]:
        results: list[Any] = []

        def finish(result: Any, error: BaseException | None) -> None:
            if error is not None:
                raise error
            results.append(result)

        call = Call(self._caller, action, "request")
        start(OPERATIONS[action].handler(self.service, call, request), finish)
        return results

    def commit(self) -> None:
        while (entry := self.group.take_entry()) is not None:
            self._index += 1
            self.group.commit(self._index, 1, [entry])
            assert self.group.apply()

    def call(self, action: str, request: Any) -> Any:
        results = self.begin(action, request)
        self.commit()
        return results[0]

    # --- the usual requests --------------------------------------------------------------------

    def create(self, name: str) -> None:
        self.call("CreateQueue", api.CreateQueueRequest(name))

    def begin_batch(self, name: str, tenants: Sequence[str], body: str) -> None:
        entries = [
            api.SendMessageBatchRequestEntry(str(number), body, message_group_id=tenant)
            for number, tenant in enumerate(tenants)
        ]
        self.begin("SendMessageBatch", api.SendMessageBatchRequest(name, entries))

    def flood(self, name: str, messages: int) -> None:
        for number in range(messages // BATCH):
            self.begin_batch(name, ["noisy"] * BATCH, BODY)
            if number % GATHERED == 0:
                self.commit()
        self.commit()

    def receive(self, name: str) -> list[api.Message]:
        request = api.ReceiveMessageRequest(
            name, max_number_of_messages=BATCH, visibility_timeout=LONG_SECONDS
        )
        messages: list[api.Message] = self.call("ReceiveMessage", request).messages
        return messages

    def delete(self, name: str, messages: list[api.Message]) -> None:
        entries = [
            api.DeleteMessageBatchRequestEntry(str(number), message.receipt_handle)
            for number, message in enumerate(messages)
        ]
        self.call("DeleteMessageBatch", api.DeleteMessageBatchRequest(name, entries))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path)


def dwell_us(store: Store, name: str, turn: int) -> float:
    """From the answer of the send to the answer of the receive."""
    tenants = [f"quiet-{(turn * BATCH + number) % 1_000}" for number in range(BATCH)]
    body = f"turn {turn}"
    store.begin_batch(name, tenants, body)
    store.commit()
    begun = perf_counter_ns()
    messages = store.receive(name)
    ended = perf_counter_ns()
    assert [message.body for message in messages] == [body] * BATCH
    store.delete(name, messages)
    return (ended - begun) / 1_000


def flooded(store: Store, backlog: int) -> None:
    """Two fair queues; in one of them a noisy tenant holds much and has more."""
    for name in ("calm", "flooded"):
        store.create(name)
        dwell_us(store, name, 0)
    store.flood("flooded", backlog + IN_FLIGHT)
    find_out(store)


def find_out(store: Store) -> None:
    for _ in range(IN_FLIGHT // BATCH):
        assert len(store.receive("flooded")) == BATCH


def measure(store: Store, turns: int) -> tuple[list[float], list[float]]:
    calm: list[float] = []
    behind: list[float] = []
    for turn in range(turns):
        store.begin_batch("flooded", ["noisy"] * BATCH, BODY)
        store.commit()
        calm.append(dwell_us(store, "calm", turn))
        behind.append(dwell_us(store, "flooded", turn))
    return sorted(calm), sorted(behind)


def test_a_noisy_tenant_does_not_make_quiet_ones_wait(
    directory: Path, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(directory / "g")
    flooded(store, SHORT_BACKLOG if benchmark.disabled else BACKLOG)
    turns = SHORT_TURNS if benchmark.disabled else TURNS
    calm, behind = benchmark.pedantic(measure, args=(store, turns), rounds=1)  # type: ignore[no-untyped-call] # so pytest-benchmark has it
    store.engine.close()
    if not benchmark.disabled:
        report(benchmark, capsys, "quiet tenants behind a million messages", calm, behind)


def test_a_restart_does_not_make_quiet_ones_wait(
    directory: Path, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(directory / "g")
    flooded(store, SHORT_BACKLOG if benchmark.disabled else BACKLOG)
    store.engine.close()
    store = Store(directory / "g")
    begun = perf_counter_ns()
    find_out(store)
    first_ms = (perf_counter_ns() - begun) / 1e6
    turns = SHORT_TURNS if benchmark.disabled else TURNS
    calm, behind = benchmark.pedantic(measure, args=(store, turns), rounds=1)  # type: ignore[no-untyped-call] # so pytest-benchmark has it
    store.engine.close()
    if not benchmark.disabled:
        name = f"the same after a restart (found out in {first_ms:.0f} ms)"
        report(benchmark, capsys, name, calm, behind)


def report(
    benchmark: BenchmarkFixture,
    capsys: pytest.CaptureFixture[str],
    name: str,
    calm: list[float],
    behind: list[float],
) -> None:
    def p99(times: list[float]) -> float:
        return times[len(times) * 99 // 100]

    ratio = p99(behind) / p99(calm)
    medians = behind[len(behind) // 2] / calm[len(calm) // 2]
    benchmark.extra_info["p99_ratio"] = round(ratio, 2)
    with capsys.disabled():
        print(
            f"\n{name}: dwell p99 {p99(calm):.0f} → {p99(behind):.0f} µs,"
            f" {ratio:.2f}x, median {medians:.2f}x",
            end="",
        )
    assert ratio <= RATIO_MAX, f"{name}: p99 {ratio:.2f} times as long, {RATIO_MAX} allowed"
