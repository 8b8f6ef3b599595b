"""Sections 2.1 and 3 for FIFO queues: attributes, partitions, and what never changes."""

from collections.abc import Mapping
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fastnode.config import PARTITIONS_DEFAULT
from fastnode.queue import api
from fastnode.queue.attributes import (
    differing_attribute,
    parse_create,
    parse_set,
    settings_of,
    shown_attributes,
)
from fastnode.queue.errors import SqsError
from fastnode.queue.fifo_attributes import (
    deduplicates_per_group,
    parse_partition_count,
    partition_count_of,
)
from fastnode.store.records import QUEUE_VERSION, QueueRecord, decode_queue
from tests.unit.queue.test_attributes import COMPUTED, FIFO, FRESH_FIFO, HIGH_THROUGHPUT
from tests.world import ACCOUNT, REGION, World

NAME: Final = "q.fifo"
GROUP_SCOPE: Final = FIFO | {"DeduplicationScope": "messageGroup"}
HIGH: Final = GROUP_SCOPE | {"FifoThroughputLimit": "perMessageGroupId"}
BAD_VALUE: Final = "InvalidAttributeValue"
COUNT_TEXT: Final = "Invalid value for the parameter PartitionCount."
UNMET: Final = (
    COUNT_TEXT + " Reason: More than one partition needs DeduplicationScope messageGroup and "
    "FifoThroughputLimit perMessageGroupId."
)
FIXED: Final = COUNT_TEXT + " Reason: The number of partitions cannot be changed."


def told(refusal: pytest.ExceptionInfo[SqsError]) -> tuple[str, str]:
    return refusal.value.row.shape, refusal.value.message


# --- Creating -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("supplied", "stored"),
    [
        ({"FifoQueue": "True"}, FIFO),
        (
            FIFO | {"ContentBasedDeduplication": "TRUE"},
            FIFO | {"ContentBasedDeduplication": "true"},
        ),
        (FIFO | {"DeduplicationScope": "queue"}, FIFO | {"DeduplicationScope": "queue"}),
        (GROUP_SCOPE, GROUP_SCOPE),
        (HIGH, HIGH),
        (FIFO | {"DelaySeconds": "5"}, FIFO | {"DelaySeconds": "5"}),
        (HIGH | {"PartitionCount": "32"}, HIGH | {"PartitionCount": "32"}),
        (HIGH | {"PartitionCount": "1"}, HIGH | {"PartitionCount": "1"}),
        (FIFO | {"PartitionCount": "1"}, FIFO | {"PartitionCount": "1"}),
        (FIFO | {"PartitionCount": "0"}, FIFO | {"PartitionCount": "1"}),
    ],
)
def test_fifo_queue_is_created(supplied: dict[str, str], stored: dict[str, str]) -> None:
    assert parse_create(supplied, NAME) == stored
    assert differing_attribute(stored, supplied) is None


@pytest.mark.parametrize(
    ("supplied", "name", "shape", "text"),
    [
        (HIGH | {"PartitionCount": "3"}, NAME, BAD_VALUE, COUNT_TEXT),
        (FIFO | {"PartitionCount": "2"}, NAME, BAD_VALUE, UNMET),
        (GROUP_SCOPE | {"PartitionCount": "2"}, NAME, BAD_VALUE, UNMET),
        (GROUP_SCOPE | {"FifoThroughputLimit": "perQueue", "PartitionCount": "8"}, NAME,
         BAD_VALUE, UNMET),
        (FIFO | {"FifoThroughputLimit": "perMessageGroupId", "PartitionCount": "8"}, NAME,
         BAD_VALUE, HIGH_THROUGHPUT),
        ({"PartitionCount": "1"}, "q", "InvalidAttributeName",
         "You can specify the PartitionCount only when FifoQueue is set to true."),
    ],
)  # fmt: skip
def test_partitions_are_refused(supplied: dict[str, str], name: str, shape: str, text: str) -> None:
    with pytest.raises(SqsError) as refusal:
        parse_create(supplied, name)
    assert told(refusal) == (shape, text)


def test_partition_count_is_a_power_of_two_up_to_32() -> None:
    accepted = [n for n in range(1, 1_025) if parse_partition_count(str(n)) == str(n)]
    assert accepted == [1, 2, 4, 8, 16, 32]
    assert parse_partition_count("0") == "1"


@given(st.text(max_size=4))
def test_any_other_text_is_no_partition_count(text: str) -> None:
    assert parse_partition_count(f"{text}x") is None
    assert parse_partition_count(f" {text}") is None
    assert parse_partition_count(f"-{text}") is None


@pytest.mark.parametrize(
    ("attributes", "count"),
    [
        ({}, 1),
        (FIFO, 1),
        (GROUP_SCOPE, 1),
        (GROUP_SCOPE | {"FifoThroughputLimit": "perQueue"}, 1),
        (HIGH, PARTITIONS_DEFAULT),
        (HIGH | {"PartitionCount": "1"}, 1),
        (HIGH | {"PartitionCount": "32"}, 32),
        (FIFO | {"PartitionCount": "1"}, 1),
        # Not to be created so, but a queue may come to it; its count is not asked for again.
        (GROUP_SCOPE | {"PartitionCount": "16"}, 1),
    ],
)
def test_partition_count_of(attributes: Mapping[str, str], count: int) -> None:
    assert partition_count_of(attributes) == count


@pytest.mark.parametrize(
    ("attributes", "is_per_group"),
    [({}, False), (FIFO, False), (FIFO | {"DeduplicationScope": "queue"}, False),
     (GROUP_SCOPE, True), (HIGH, True)],
)  # fmt: skip
def test_scope_of_deduplication(attributes: Mapping[str, str], is_per_group: bool) -> None:
    assert deduplicates_per_group(attributes) is is_per_group


def test_settings_say_that_a_queue_is_fifo() -> None:
    settings = settings_of(parse_create(HIGH, NAME))
    assert (settings.is_fifo, settings.has_content_based_deduplication) == (True, False)


# --- Changing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("current", "changes", "after"),
    [
        (HIGH | {"PartitionCount": "4"}, {"FifoThroughputLimit": "perQueue"},
         HIGH | {"PartitionCount": "4", "FifoThroughputLimit": "perQueue"}),
        (HIGH | {"PartitionCount": "4"},
         {"FifoThroughputLimit": "perQueue", "DeduplicationScope": "queue"},
         FIFO | {"PartitionCount": "4", "FifoThroughputLimit": "perQueue",
                 "DeduplicationScope": "queue"}),
        (HIGH | {"PartitionCount": "4"}, {"PartitionCount": "4", "DelaySeconds": "1"},
         HIGH | {"PartitionCount": "4", "DelaySeconds": "1"}),
        (FIFO, {"ContentBasedDeduplication": "True", "FifoQueue": "TRUE"},
         FIFO | {"ContentBasedDeduplication": "true"}),
    ],
)  # fmt: skip
def test_pair_of_high_throughput_may_be_taken_apart(
    current: dict[str, str], changes: dict[str, str], after: dict[str, str]
) -> None:
    assert parse_set(current, changes) == after


@pytest.mark.parametrize(
    ("current", "partition_count", "text"),
    [(HIGH | {"PartitionCount": "4"}, 4, "8"), (HIGH, 8, "4"), (FIFO, 1, "2")],
)
def test_partition_count_cannot_be_changed(
    current: dict[str, str], partition_count: int, text: str
) -> None:
    with pytest.raises(SqsError) as refusal:
        parse_set(current, {"DelaySeconds": "1", "PartitionCount": text}, partition_count)
    assert told(refusal) == (BAD_VALUE, FIXED)


def test_count_that_nobody_named_may_be_named_later_but_not_changed() -> None:
    assert parse_set(HIGH, {"PartitionCount": "8"}, 8) == HIGH | {"PartitionCount": "8"}
    assert differing_attribute(HIGH, {"PartitionCount": "8"}, 8) is None
    assert differing_attribute(HIGH, {"PartitionCount": "4"}, 8) == "PartitionCount"
    assert differing_attribute(FIFO, {"PartitionCount": "0"}) is None


# --- Showing ------------------------------------------------------------------------------------

EIGHT: Final = replace(COMPUTED, partition_count=8)


@pytest.mark.parametrize("stored", [FIFO, GROUP_SCOPE, HIGH])
def test_all_has_sixteen_entries_however_many_partitions(stored: dict[str, str]) -> None:
    shown = shown_attributes(["All"], stored, EIGHT)
    assert shown == FRESH_FIFO | stored
    assert len(shown) == 16


def test_partition_count_is_shown_when_named_or_set() -> None:
    assert shown_attributes(["PartitionCount"], HIGH, EIGHT) == {"PartitionCount": "8"}
    assert shown_attributes(["PartitionCount"], FIFO, COMPUTED) == {"PartitionCount": "1"}
    assert shown_attributes(["PartitionCount"], {}, COMPUTED) == {}
    stored = HIGH | {"PartitionCount": "8"}
    assert shown_attributes(["All"], stored, EIGHT) == FRESH_FIFO | stored


# --- The record of a queue ----------------------------------------------------------------------


def set_attributes(world: World, url: str, **attributes: str) -> None:
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest(url, attributes))


def record_of(world: World) -> QueueRecord:
    queue = world.service.find(ACCOUNT, REGION, NAME)
    assert queue is not None
    return queue.record


@pytest.mark.parametrize(
    ("first", "second"), [("queue", "messageGroup"), ("messageGroup", "queue")]
)
def test_scope_of_deduplication_is_frozen_at_creation(first: str, second: str) -> None:
    # Section 3.3: a change is stored and reported, and has no effect.
    world = World()
    url = world.create(NAME, FifoQueue="true", DeduplicationScope=first)
    set_attributes(world, url, DeduplicationScope=second)
    record = record_of(world)
    assert record.attributes["DeduplicationScope"] == second
    assert record.dedup_per_group is (first == "messageGroup")


def test_record_without_the_scope_deduplicates_per_queue() -> None:
    world = World()
    world.create(NAME, FifoQueue="true")
    record = record_of(world)
    members = msgspec.structs.asdict(record)
    del members["dedup_per_group"]
    assert decode_queue(bytes((QUEUE_VERSION,)) + msgspec.msgpack.encode(members)) == record
