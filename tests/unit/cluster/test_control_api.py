"""What a cluster's state means, and that it travels without loss."""

import msgspec
import pytest

from fastnode.cluster.control_api import (
    Addresses,
    ClusterStatus,
    GroupStatus,
    Joined,
    Member,
    NodeStatus,
    merge_groups,
    verdict,
)
from fastnode.cluster.control_messages import (
    BadMessage,
    checked_address,
    checked_node,
    decode_joined,
    decode_member,
    decode_status,
    encode_joined,
    encode_member,
    encode_status,
)
from fastnode.cluster.control_pb2 import JoinReply, StatusReply
from tests.unit.cluster.control_gencode import FOLDER, ROOT, generate

ADDRESSES = Addresses("10.0.0.1:9326", "10.0.0.1:9327", "http://10.0.0.1:9324", "")
VOTERS = (1, 2, 3)


def group(number: int, leader: int = 1, term: int = 5, **more: object) -> GroupStatus:
    row = GroupStatus(number, leader, term, 100, 99, VOTERS)
    return msgspec.structs.replace(row, **more)


def status(*groups: GroupStatus, node: int = 1, silent: tuple[int, ...] = ()) -> ClusterStatus:
    nodes = tuple(NodeStatus(number, ADDRESSES, number not in silent) for number in VOTERS)
    return ClusterStatus(b"c" * 16, node, nodes, groups)


def test_verdicts() -> None:
    assert verdict(status(group(0))) == "healthy"
    assert verdict(status(group(0), silent=(3,))) == "degraded: node 3 unreachable"
    down = status(group(0), group(1, leader=0), group(2, leader=0), silent=(2, 3))
    assert verdict(down) == "down: groups 1, 2 without a leader; nodes 2, 3 unreachable"
    learning = status(group(0, learners=(4,)), group(1, learners=(4,)))
    assert verdict(learning) == "degraded: node 4 still catching up"


@pytest.mark.parametrize(("offset_ms", "is_wrong"), [(500, False), (501, True), (-3_600_000, True)])
def test_a_wrong_clock_is_named(offset_ms: int, is_wrong: bool) -> None:
    sound = status(group(0))
    node = msgspec.structs.replace(sound.nodes[1], clock_offset_ms=offset_ms)
    given = msgspec.structs.replace(sound, nodes=(node,))
    expected = f"degraded: the clock of node 2 is {offset_ms:+} ms off" if is_wrong else "healthy"
    assert verdict(given) == expected


def test_of_each_group_the_leader_is_believed() -> None:
    led = group(1, leader=2, lag={1: 7})
    own = status(group(0), group(1, leader=2, applied=44))
    merged = merge_groups(own, [status(group(0, leader=1, applied=3), led, node=2)])
    assert merged.groups == (own.groups[0], group(1, leader=2, lag={1: 7}, applied=44))
    assert merged.nodes == own.nodes


def test_a_newer_term_is_believed_and_an_older_leader_is_not() -> None:
    own = status(group(0, leader=3, term=6))
    stale = status(group(0, leader=2, term=5), node=2)
    assert merge_groups(own, [stale]) == own
    newer = group(0, leader=0, term=7)
    assert merge_groups(own, [status(newer, node=2)]).groups == (newer,)


def test_groups_that_this_node_does_not_know_stay_out() -> None:
    own = status(group(0))
    assert merge_groups(own, [status(group(9, term=9), node=2)]) == own


def test_status_and_members_travel_without_loss() -> None:
    given = status(group(0, learners=(4,), lag={2: 3, 3: 0}), group(1), silent=(2,))
    clock = msgspec.structs.replace(
        given.nodes[0], clock_offset_ms=-3, version="1.2", capabilities=("a", "b")
    )
    zero = msgspec.structs.replace(given.nodes[1], clock_offset_ms=0)
    given = msgspec.structs.replace(given, nodes=(clock, zero, given.nodes[2]))
    wire = encode_status(given).SerializeToString()
    assert decode_status(StatusReply.FromString(wire)) == given
    joined = Joined(b"c" * 16, 8, (Member(1, b"i" * 16, ADDRESSES),))
    assert decode_joined(JoinReply.FromString(encode_joined(joined).SerializeToString())) == joined


@pytest.mark.parametrize("node", [0, 65_537, 1 << 63])
def test_impossible_node_ids_are_refused(node: int) -> None:
    with pytest.raises(BadMessage):
        checked_node(node)


@pytest.mark.parametrize(
    "address",
    ["", "host", "host:", ":1", "host:0", "host:65536", "a b:1", "a\n:1", "x" * 400 + ":1"],
)
def test_impossible_addresses_are_refused(address: str) -> None:
    with pytest.raises(BadMessage):
        checked_address(address)


def test_impossible_members_are_refused() -> None:
    for member in (
        Member(1, b"short", ADDRESSES),
        Member(0, b"i" * 16, ADDRESSES),
        Member(1, b"i" * 16, Addresses("")),
        Member(1, b"i" * 16, Addresses("h:1", sqs="x" * 400)),
    ):
        with pytest.raises(BadMessage):
            decode_member(encode_member(member))


def test_generated_code_is_that_of_the_definition() -> None:
    for name, text in generate().items():
        committed = (ROOT / FOLDER / name).read_text(encoding="utf-8")
        assert committed == text, "run: python -m tests.unit.cluster.control_gencode"
