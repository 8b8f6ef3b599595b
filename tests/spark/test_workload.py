"""Workload files: what they mean, and the one line for each mistake in them."""

import copy
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from spark_load.errors import LoadError
from spark_load.plan import make_plan
from spark_load.schema import Consumers
from spark_load.workload import READY_MADE, find_workload, load_workload, parse_workload

GOOD = tomllib.loads("""
duration = "10s"
[queues.plain]
consumers = {count = 3, wait = "2s", visibility = "7s", think = "5ms", failures = 0.1}
[queues.orders]
kind = "fifo"
partitions = 8
[streams.one]
queue = "plain"
arrivals = {kind = "constant", rate = 10}
[streams.two]
queue = "orders"
arrivals = {kind = "bursts", rate = 100, on = "1s", off = "1s"}
groups = {count = 5, skew = 1.0}
""")


def parse(document: dict[str, Any]) -> Any:
    return parse_workload(document, "w", Path())


def changed(path: str, value: object) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    *folders, name = path.split(".")
    table = document
    for folder in folders:
        table = table.setdefault(folder, {})
    table[name] = value
    return document


def test_queues_and_consumers_are_read() -> None:
    workload = parse(GOOD)
    plain, orders = workload.queues
    assert plain.consumers == Consumers(3, 10, 2, 7, 5.0, 0.1, 0.0, "batch")
    assert orders.name == "orders.fifo" and orders.is_fifo
    assert orders.attributes == {
        "FifoQueue": "true",
        "FifoThroughputLimit": "perMessageGroupId",
        "DeduplicationScope": "messageGroup",
        "PartitionCount": "8",
    }


def test_the_trace_id_follows_from_content_and_seed() -> None:
    assert parse(GOOD).trace_id == parse(copy.deepcopy(GOOD)).trace_id
    assert parse(GOOD).trace_id != parse(changed("duration", "11s")).trace_id
    assert parse(GOOD).trace_id != parse_workload(GOOD, "w", Path(), seed=2).trace_id


MISTAKES: Final[tuple[tuple[str, object, str], ...]] = (
    ("dration", "1s", "workload w: unknown key 'dration'; did you mean 'duration'?"),
    ("duration", "soon", "workload w: duration must be a duration as"),
    ("duration", 0, "workload w: duration must not be zero"),
    ("queues.plain.kind", "fifi", "queues.plain: kind cannot be 'fifi'; did you mean 'fifo'?"),
    ("queues.plain.partitions", 2, "queues.plain: partitions must be a power of two"),
    ("queues.orders.partitions", 3, "queues.orders: partitions must be a power of two"),
    (
        "queues.plain.attributes.VisibilityTimeOut",
        5,
        "unknown key 'VisibilityTimeOut'; did you mean 'VisibilityTimeout'?",
    ),
    ("queues.plain.consumers.fail", 1, "queues.plain.consumers: unknown key 'fail'"),
    ("queues.plain.consumers.failures", 1.5, "failures must be a number from 0 to 1, not 1.5"),
    ("queues.plain.consumers.wait", "21s", "wait must be whole seconds, at most 20"),
    ("queues.plain.dead_letter", "orders", "dead_letter is no queue of this file"),
    ("queues.plain.dead_letter", "orders.fifo", "dead_letter must be of the same kind"),
    ("streams.one.queue", "plane", "streams.one: queue cannot be 'plane'; did you mean 'plain'?"),
    ("streams.one.arrivals.kind", "poison", "kind cannot be 'poison'; did you mean 'poisson'?"),
    ("streams.one.arrivals.rate", -1, "streams.one.arrivals: rate must be a number"),
    ("streams.one.arrivals.rate", True, "streams.one.arrivals: rate must be a number"),
    ("streams.two.arrivals.on", "0s", "streams.two.arrivals: on, off are too short"),
    ("streams.one.groups", {"count": 2}, "are for FIFO queues only"),
    ("streams.two.delay", {"share": 0.5}, "is not for FIFO queues"),
    ("streams.one.mix", {"SendMesage": 1}, "unknown key 'SendMesage'; did you mean 'SendMessage'?"),
    ("streams.one.mix", {"SendMessage": 0}, "mix has no operation"),
    ("streams.one.size", 0, "size must be an integer from 1 to 1048576, not 0"),
    ("streams.one.size", {"kind": "histogram", "buckets": [[5, 1], [4, 1]]}, "buckets must be as"),
    ("streams.one.end", "11s", "start, end must be in order and within the duration"),
    ("streams.one.batch", [3, 2], "batch must be a number or [from, to]"),
    ("streams", {}, "needs from 1 to 64 streams"),
)


@pytest.mark.parametrize(("path", "value", "complaint"), MISTAKES)
def test_a_mistake_is_named(path: str, value: object, complaint: str) -> None:
    with pytest.raises(LoadError) as error:
        parse(changed(path, value))
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_batches_that_sqs_would_refuse_are_refused() -> None:
    document = changed("streams.one.mix", {"SendMessageBatch": 1})
    document["streams"]["one"]["size"] = 200_000
    with pytest.raises(LoadError, match="size times batch"):
        parse(document)
    document["streams"]["one"]["batch"] = 5
    parse(document)


@pytest.mark.parametrize("path", sorted(READY_MADE.glob("*.toml")), ids=lambda path: path.stem)
def test_ready_made_workloads_are_valid(path: Path) -> None:
    assert make_plan(load_workload(path)).operations > 0


def test_there_is_a_ready_made_workload_for_each_promise() -> None:
    names = {path.stem for path in READY_MADE.glob("*.toml")}
    assert names == {
        "smoke",
        "orders",
        "high-throughput-fifo",
        "noisy-neighbour",
        "burst-then-drain",
        "failover",
        "failover-hour",
    }


def test_an_unknown_workload_is_hinted_at() -> None:
    with pytest.raises(LoadError, match="no workload 'smok'; did you mean 'smoke'"):
        find_workload("smok")
    with pytest.raises(LoadError, match="cannot read the workload"):
        load_workload(find_workload("absent.toml"))
