"""ListQueues with 1,000 and with 100,000 queues: a page must cost the same.

    python -m bench.list_queues [--queues N] [--data-under DIR]

The queues are written straight into RocksDB, as their metadata rows; the pages are asked of the
real handler, without HTTP. A page at the beginning, one in the middle and one with a prefix; the
medians are compared within one run. Exit codes as in `node_load`.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.server_process import ROOT
from fastnode import native
from fastnode.clock import GroupClock, SystemClock, SystemIdSource
from fastnode.config import GROUPS_DEFAULT, LIST_PAGE_MAX
from fastnode.flow import start
from fastnode.queue.api import ListQueuesRequest, ListQueuesResponse
from fastnode.queue.caller import Call, Caller
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.service import Service
from fastnode.raft.groups import LEADER
from fastnode.store.engine import RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.group import Group
from fastnode.store.keyspace import QueueKeys
from fastnode.store.records import QueueRecord, encode_queue

ACCOUNT, REGION = "000000000000", "us-east-1"
FEW, MANY = 1_000, 100_000
PAGE = 100
ROUNDS = 50
RATIO_MAX = 2.0
WRITE_BATCH = 1_000


class Figure(Struct, frozen=True):
    page: str
    few_us: float
    many_us: float

    @property
    def ratio(self) -> float:
        return self.many_us / self.few_us


class Queues:
    """A service over engines that hold so many queues; `close` it."""

    def __init__(self, directory: Path, count: int) -> None:
        shared = EngineShared()
        self._engines = [
            RocksEngine(directory / str(number), shared) for number in range(GROUPS_DEFAULT)
        ]
        write_queues(self._engines, count)
        clock = SystemClock()
        groups = [Group(n, engine, GroupClock(clock)) for n, engine in enumerate(self._engines)]
        for group in groups:
            # An entry of the leader's own term: only then does it answer.
            group.change_role(LEADER, 1)
            group.commit(1, 1, [])
            assert group.apply()
        self._service = Service(groups, SystemIdSource(), no_alarm, is_strict=False)
        self._call = Call(Caller(ACCOUNT, REGION, "http://localhost", "bench"), "ListQueues", "id")

    def list(self, request: ListQueuesRequest) -> ListQueuesResponse:
        answers: list[Any] = []
        handler = OPERATIONS["ListQueues"].handler(self._service, self._call, request)
        start(handler, lambda result, error: answers.append(error or result))
        (answer,) = answers
        assert isinstance(answer, ListQueuesResponse), answer
        return answer

    def close(self) -> None:
        for engine in self._engines:
            engine.close()


def no_alarm() -> Any:
    raise AssertionError("a list wakes nobody")


def name_of(number: int) -> str:
    return f"queue-{number:06d}"


def write_queues(engines: Sequence[RocksEngine], count: int) -> None:
    record = encode_queue(QueueRecord(1, 1, 1, 0, b"s" * 16, 1, 1, {}, {}))
    for begin in range(0, count, WRITE_BATCH):
        batches = [engine.batch() for engine in engines]
        for number in range(begin, min(begin + WRITE_BATCH, count)):
            keys = QueueKeys(ACCOUNT, REGION, name_of(number))
            batches[native.home_group(keys.segment, len(engines))].put(keys.meta, record)
        for engine, batch in zip(engines, batches, strict=True):
            engine.write(batch)
    for engine in engines:
        engine.flush()


def pages(queues: Queues, count: int) -> dict[str, ListQueuesRequest]:
    """What is asked for, by name: the same shape for every number of queues."""
    step, cursor = min(LIST_PAGE_MAX, count // 2), None
    for _ in range(count // 2 // step):
        cursor = queues.list(ListQueuesRequest(max_results=step, next_token=cursor)).next_token
    assert cursor is not None
    return {
        "first": ListQueuesRequest(max_results=PAGE),
        "middle": ListQueuesRequest(max_results=PAGE, next_token=cursor),
        "prefix": ListQueuesRequest(queue_name_prefix="queue-0005", max_results=PAGE),
    }


def medians_us(directory: Path, count: int, rounds: int) -> dict[str, float]:
    queues = Queues(directory, count)
    try:
        asked = pages(queues, count)
        return {name: median_us(queues, request, rounds) for name, request in asked.items()}
    finally:
        queues.close()


def median_us(queues: Queues, request: ListQueuesRequest, rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        begun = time.perf_counter()
        found = queues.list(request)
        seconds.append(time.perf_counter() - begun)
        assert len(found.queue_urls) == PAGE
    return statistics.median(seconds) * 1e6


def measure(directory: Path, few: int, many: int, rounds: int = ROUNDS) -> list[Figure]:
    at_few = medians_us(directory / "few", few, rounds)
    at_many = medians_us(directory / "many", many, rounds)
    return [Figure(page, at_few[page], at_many[page]) for page in at_few]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queues", type=int, default=MANY)
    parser.add_argument("--data-under", type=Path, default=ROOT / "build")
    arguments = parser.parse_args()
    arguments.data_under.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.data_under) as directory:
        figures = measure(Path(directory), FEW, arguments.queues)
    print(f"ListQueues, pages of {PAGE}, {FEW} against {arguments.queues} queues")
    print(f"{'page':>8} {'few us':>9} {'many us':>9} {'ratio':>7}")
    for each in figures:
        print(f"{each.page:>8} {each.few_us:>9.0f} {each.many_us:>9.0f} {each.ratio:>7.2f}")
    missed = [each.page for each in figures if each.ratio > RATIO_MAX]
    print(f"MISSED the ratio of {RATIO_MAX}: {', '.join(missed)}" if missed else "all targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
