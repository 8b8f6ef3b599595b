"""Who the members are, as group 0 keeps it: a record for each number that was ever given. Pure.

Consensus knows members by their numbers, per group. Where a member is reached, and which data
directory it has, stands here. A record outlives its member: whoever comes later under the same
number with another directory is somebody else, and has lost what that one promised.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from fastnode import native
from fastnode.peers.handshake import JOINING, Identity, Reason
from fastnode.store.group import Group

MEMBERS_PREFIX: Final = b"!cluster|member|"
_NUMBER_BYTES: Final = 8
_MEMBERS_MAX: Final = 1_024


class MemberRecord(msgspec.Struct, frozen=True):
    """`incarnation` is empty until the member has shown itself; `raft` is HOST:PORT."""

    node: int
    raft: str
    incarnation: bytes = b""
    is_removed: bool = False


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(MemberRecord).decode


def record_key(node: int) -> bytes:
    return MEMBERS_PREFIX + node.to_bytes(_NUMBER_BYTES, "big")


def encode_record(record: MemberRecord) -> bytes:
    return _encode(record)


def decode_record(stored: bytes) -> MemberRecord:
    return _decode(stored)


def load_records(group: Group) -> dict[int, MemberRecord]:
    rows = group.scan(MEMBERS_PREFIX, native.prefix_end(MEMBERS_PREFIX), _MEMBERS_MAX)
    records = (decode_record(stored) for _, stored in rows)
    return {record.node: record for record in records}


def refusal_of(
    peer: Identity, record: MemberRecord | None, members: Iterable[int]
) -> Reason | None:
    """Why a node that knows the cluster's secret may not be linked to, or None."""
    if record is not None and record.is_removed:
        return Reason.REMOVED
    if peer.roles & JOINING:
        return None
    if record is not None and record.incarnation not in (b"", peer.incarnation):
        return Reason.OTHER_INCARNATION
    return None if record is not None or peer.node_id in members else Reason.NOT_MEMBER
