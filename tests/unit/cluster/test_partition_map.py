"""The operator's map of partitions, and the spread of all other queues."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.cluster.partition_map import PartitionMap, parse_partition_map
from fastnode.errors import UsageError

SPEC = "orders.fifo:4=1,2,1,2;other.fifo:2=1,1"


def refusal(text: str, groups: int = 8) -> str:
    with pytest.raises(UsageError) as caught:
        parse_partition_map(text, groups)
    message = str(caught.value)
    assert message.startswith("--partition-map: ")
    return message.removeprefix("--partition-map: ")


def test_placed_queues_live_where_the_operator_says() -> None:
    placement = parse_partition_map(SPEC, 8)
    assert placement.groups_of("orders.fifo", 4, home=5) == (1, 2, 1, 2)
    assert placement.groups_of("other.fifo", 2, home=5) == (1, 1)


def test_other_queues_are_spread_from_their_home_on() -> None:
    placement = parse_partition_map(SPEC, 8)
    assert placement.groups_of("third.fifo", 4, home=6) == (6, 7, 0, 1)
    assert parse_partition_map("", 2).groups_of("orders.fifo", 4, home=1) == (1, 0, 1, 0)


def test_one_partition_is_at_home_whatever_the_map_says() -> None:
    assert parse_partition_map(SPEC, 8).groups_of("orders.fifo", 1, home=5) == (5,)


def test_fewer_partitions_than_placed_take_the_first_places() -> None:
    placement = parse_partition_map(SPEC, 8)
    assert placement.covers("orders.fifo", 2)
    assert placement.groups_of("orders.fifo", 2, home=5) == (1, 2)


def test_a_queue_that_is_placed_for_fewer_partitions_is_not_covered() -> None:
    placement = parse_partition_map(SPEC, 8)
    assert placement.covers("orders.fifo", 4)
    assert not placement.covers("orders.fifo", 8)
    assert placement.covers("third.fifo", 32)


def test_a_queue_that_outgrew_a_newer_map_still_has_a_place_for_each_partition() -> None:
    """It was created before the map named it; its metadata say where it really lives."""
    assert parse_partition_map(SPEC, 8).groups_of("other.fifo", 4, home=7) == (7, 0, 1, 2)


def test_group_zero_is_ordinary_and_numbers_have_one_form() -> None:
    placement = parse_partition_map(" a.fifo : 02 = 00 , 007 ", 8)
    assert placement.groups_of("a.fifo", 2, home=3) == (0, 7)


def test_an_empty_map_places_nothing() -> None:
    for text in ("", "  "):
        assert parse_partition_map(text, 8).named_groups == frozenset()


def test_the_groups_of_the_map_are_known() -> None:
    assert parse_partition_map(SPEC, 8).named_groups == {1, 2}


def test_what_the_map_was_made_of_cannot_change_it() -> None:
    row = [1, 2]
    placed = {"a.fifo": row}
    placement = PartitionMap(8, placed)
    row[0] = 5
    placed["b.fifo"] = [3, 3]
    assert placement.groups_of("a.fifo", 2, home=0) == (1, 2)
    assert placement.groups_of("b.fifo", 2, home=0) == (0, 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orders.fifo", "'orders.fifo' is no entry: write NAME.fifo:COUNT=GROUP,GROUP,… and ; "),
        ("orders.fifo:2", "'orders.fifo:2' is no entry"),
        ("orders.fifo=1,2", "'orders.fifo=1,2' is no entry"),
        ("a.fifo:2=1,1;", "'' is no entry"),
        (";", "'' is no entry"),
        ("a.fifo:2=1,1,b.fifo:2=1,1", "is no entry"),
        ("orders:2=1,1", "'orders' is no name of a FIFO queue, and no other queue has partitions"),
        (":2=1,1", "'' is no name of a FIFO queue"),
        ("a/b.fifo:2=1,1", "'a/b.fifo' is no name of a FIFO queue"),
        (".fifo:2=1,1", "'.fifo' is no name of a FIFO queue"),
        ("a.fifo:3=1,1,1", "a.fifo has '3' partitions: write one of 2, 4, 8, 16, 32"),
        ("a.fifo:0=", "a.fifo has '0' partitions"),
        ("a.fifo:1=1", "a.fifo has '1' partitions"),
        ("a.fifo:64=" + ",".join("1" * 64), "a.fifo has '64' partitions"),
        ("a.fifo:-2=1,1", "a.fifo has '-2' partitions"),
        ("a.fifo:٢=1,1", "a.fifo has '٢' partitions"),
        ("a.fifo:=1,1", "a.fifo has '' partitions"),
        ("a.fifo:4=1,2,1", "a.fifo has 4 partitions and 3 groups: name one for each"),
        ("a.fifo:2=1,2,1", "a.fifo has 2 partitions and 3 groups: name one for each"),
        ("a.fifo:2=1,8", "a.fifo is in group '8': write numbers from 0 to 7"),
        ("a.fifo:2=1,x", "a.fifo is in group 'x': write numbers from 0 to 7"),
        ("a.fifo:2=1,", "a.fifo is in group '': write numbers from 0 to 7"),
        ("a.fifo:2=1,-1", "a.fifo is in group '-1': write numbers from 0 to 7"),
        ("a.fifo:2=1," + "9" * 5_000, "write numbers from 0 to 7"),
        ("a.fifo:2=1,1;a.fifo:2=1,1", "a.fifo is placed twice: keep one of the two entries"),
    ],
)
def test_a_wrong_entry_is_refused_with_what_to_do(text: str, reason: str) -> None:
    assert reason in refusal(text)


def test_groups_are_those_of_the_node() -> None:
    parse_partition_map("a.fifo:2=0,2", 3)
    assert refusal("a.fifo:2=0,2", 2) == "a.fifo is in group '2': write numbers from 0 to 1"


@given(st.text(alphabet="a.fio:=,;012 x", max_size=30))
def test_any_text_is_a_map_or_refused(text: str) -> None:
    try:
        placement = parse_partition_map(text, 3)
    except UsageError:
        return
    assert placement.named_groups <= {0, 1, 2}
