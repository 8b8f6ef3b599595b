"""What the attributes of a FIFO queue mean together, and what of them its creation fixes. Pure.

High throughput is a pair: `DeduplicationScope=messageGroup` and
`FifoThroughputLimit=perMessageGroupId`. A queue created with it has partitions, and
`PartitionCount`, which is ours and not AWS's, says how many. Both of the pair may be changed later
and are shown as changed, but partitions and deduplication stay what they were at creation.
"""

from collections.abc import Mapping
from typing import Final

from fastnode.config import PARTITIONS_DEFAULT, PARTITIONS_MAX
from fastnode.queue.errors import invalid_attribute_value, sqs_error

PARTITION_COUNT: Final = "PartitionCount"

# Powers of two, because a partition is chosen by a mask; zero is another way to write one.
_COUNTS: Final = ("0", *(str(1 << n) for n in range(PARTITIONS_MAX.bit_length())))


def parse_partition_count(text: str) -> str | None:
    if text not in _COUNTS:
        return None
    return "1" if text == "0" else text


def check_throughput(attributes: Mapping[str, str]) -> None:
    """At creation and after every change."""
    if _is_per_group(attributes) and not deduplicates_per_group(attributes):
        raise sqs_error(
            "InvalidAttributeValue",
            "The perMessageGroupId value is allowed only when the value for DeduplicationScope is "
            "messageGroup",
        )


def check_new_partitions(attributes: Mapping[str, str]) -> None:
    """At creation only: the pair that partitions depend on may be taken apart afterwards."""
    if attributes.get(PARTITION_COUNT, "1") != "1" and not _is_high_throughput(attributes):
        reason = (
            "More than one partition needs DeduplicationScope messageGroup and "
            "FifoThroughputLimit perMessageGroupId."
        )
        raise invalid_attribute_value(PARTITION_COUNT, reason)


def check_same_partitions(current: Mapping[str, str], changes: Mapping[str, str]) -> None:
    """Messages would be looked for in the wrong partitions if their number changed."""
    count = current[PARTITION_COUNT]
    if changes.get(PARTITION_COUNT, count) != count:
        reason = "The number of partitions cannot be changed."
        raise invalid_attribute_value(PARTITION_COUNT, reason)


def partition_count_of(attributes: Mapping[str, str]) -> int:
    """How many partitions a queue created with these attributes gets, once and for all."""
    if not _is_high_throughput(attributes):
        return 1
    return int(attributes.get(PARTITION_COUNT, PARTITIONS_DEFAULT))


def deduplicates_per_group(attributes: Mapping[str, str]) -> bool:
    """Of the attributes at creation: in force for ever. Of later ones: what is shown."""
    return attributes.get("DeduplicationScope") == "messageGroup"


def _is_per_group(attributes: Mapping[str, str]) -> bool:
    return attributes.get("FifoThroughputLimit") == "perMessageGroupId"


def _is_high_throughput(attributes: Mapping[str, str]) -> bool:
    return _is_per_group(attributes) and deduplicates_per_group(attributes)
