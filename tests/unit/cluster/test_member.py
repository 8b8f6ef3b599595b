"""Who is a member, and what time the members agree on, without sockets."""

import logging
from pathlib import Path

import pytest

from fastnode.cluster.member import Member
from fastnode.cluster.member_records import MemberRecord, refusal_of
from fastnode.datadir import open_data_dir
from fastnode.peers.handshake import JOINING, Identity, Reason
from fastnode.settings import Settings

HOUR_NS = 3_600_000_000_000
WALL_NS = 1_700_000_000_000_000_000
INCARNATION, OTHER = b"i" * 16, b"o" * 16


class Nothing:
    def report_unreachable(self, peer: int) -> None: ...


@pytest.fixture
def member(tmp_path: Path) -> Member:
    data = open_data_dir(Settings(data_dir=str(tmp_path / "data"), groups=2))
    made = Member(data, {}, Nothing(), lambda _packet: [], lambda: WALL_NS, logging.getLogger("t"))
    made.change_members(0, [1, 2, 3], [])
    return made


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({}, 0),
        ({2: 5, 3: -5}, 0),
        ({2: HOUR_NS, 3: 4}, 4),
        ({2: -HOUR_NS, 3: -7}, -7),
        # Two clocks: the lower, unless the group's time has passed it.
        ({2: HOUR_NS}, 0),
        ({2: -HOUR_NS}, 0),
        # A node that is no voter has no say.
        ({2: 5, 3: -5, 4: HOUR_NS, 5: HOUR_NS}, 0),
    ],
)
def test_time_is_the_median_of_the_voters(
    member: Member, others: dict[int, int], expected: int
) -> None:
    member.note_clocks(others)
    reached_ns = WALL_NS - HOUR_NS // 2
    assert member.median_wall_ns(reached_ns) == WALL_NS + expected


def test_a_clock_that_was_heard_once_counts_while_its_node_is_away(member: Member) -> None:
    member.note_clocks({2: 3, 3: HOUR_NS})
    member.note_clocks({3: HOUR_NS})
    assert member.median_wall_ns(0) == WALL_NS + 3


def identity(node: int = 2, incarnation: bytes = INCARNATION, roles: int = 0) -> Identity:
    return Identity(node_id=node, incarnation=incarnation, roles=roles)


@pytest.mark.parametrize(
    ("peer", "record", "expected"),
    [
        (identity(), None, None),
        (identity(4), None, Reason.NOT_MEMBER),
        (identity(4, roles=JOINING), None, None),
        (identity(4), MemberRecord(4, "h:1"), None),
        (identity(), MemberRecord(2, "h:1", INCARNATION), None),
        (identity(), MemberRecord(2, "h:1", OTHER), Reason.OTHER_INCARNATION),
        (identity(), MemberRecord(2, "h:1", INCARNATION, is_removed=True), Reason.REMOVED),
        (identity(roles=JOINING), MemberRecord(2, "", OTHER, is_removed=True), Reason.REMOVED),
    ],
)
def test_only_members_with_the_directory_they_had_are_linked_to(
    peer: Identity, record: MemberRecord | None, expected: Reason | None
) -> None:
    assert refusal_of(peer, record, {1, 2, 3}) == expected


def test_whoever_watches_the_others_is_told_when_they_may_have_changed(member: Member) -> None:
    seen: list[dict[int, tuple[str, ...] | None]] = []
    member.on_others = lambda: seen.append(member.advertised())
    member.change_members(0, [1, 2], [4])
    member.follow_records({2: MemberRecord(2, "h:1"), 5: MemberRecord(5, "h:5")})
    member.follow_records({5: MemberRecord(5, "h:5"), 2: MemberRecord(2, "h:1")})
    member.follow_records({2: MemberRecord(2, "h:1", is_removed=True)})
    assert seen == [dict.fromkeys(nodes) for nodes in ([2, 4], [2, 4, 5], [4])]


def test_a_removed_node_is_no_member_and_may_come_back_when_it_is_added(member: Member) -> None:
    member.change_members(0, [1, 2], [])
    assert member.remember(2, INCARNATION) and not member.remember(2, OTHER)
    member.follow_records({2: MemberRecord(2, "h:1", INCARNATION, is_removed=True)})
    assert member.refusal_of(identity()) == Reason.REMOVED
    member.follow_records({2: MemberRecord(2, "h:1")})
    assert member.refusal_of(identity(incarnation=OTHER)) is None
    assert member.remember(2, OTHER)
