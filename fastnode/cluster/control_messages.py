"""Our values ↔ the messages of `control.proto`. Pure. What a peer sent is checked here, so that
nothing impossible goes further: `BadMessage`.
"""

from collections.abc import Iterable
from typing import Final

from fastnode.cluster.control_api import (
    Addresses,
    ClusterStatus,
    GroupStatus,
    Joined,
    Member,
    NodeStatus,
)
from fastnode.cluster.control_pb2 import Addresses as AddressesMessage
from fastnode.cluster.control_pb2 import GroupStatus as GroupMessage
from fastnode.cluster.control_pb2 import JoinReply, StatusReply
from fastnode.cluster.control_pb2 import Member as MemberMessage
from fastnode.cluster.control_pb2 import NodeStatus as NodeMessage
from fastnode.errors import OperationError

NODE_MAX: Final = 1 << 16
INCARNATION_BYTES: Final = 16
ADDRESS_CHARACTERS_MAX: Final = 300


class BadMessage(OperationError):
    """A peer said something that no peer says."""


def checked_node(node: int) -> int:
    if not 1 <= node <= NODE_MAX:
        raise BadMessage(f"a node id is a number from 1 to {NODE_MAX}, not {node}")
    return node


def checked_address(address: str) -> str:
    host, _, port = address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 1 << 16
    if not host or not is_port or not _is_plain(address):
        raise BadMessage(f"an address is HOST:PORT, not {address[:ADDRESS_CHARACTERS_MAX]!r}")
    return address


def _is_plain(text: str) -> bool:
    return len(text) <= ADDRESS_CHARACTERS_MAX and text.isprintable() and " " not in text


def encode_member(member: Member) -> MemberMessage:
    return MemberMessage(
        node=member.node,
        incarnation=member.incarnation,
        addresses=_encode_addresses(member.addresses),
    )


def decode_member(message: MemberMessage) -> Member:
    checked_address(message.addresses.raft)
    if len(message.incarnation) != INCARNATION_BYTES:
        raise BadMessage(f"an incarnation of {len(message.incarnation)} bytes")
    addresses = _decode_addresses(message.addresses)
    return Member(checked_node(message.node), message.incarnation, addresses)


def encode_joined(joined: Joined) -> JoinReply:
    return JoinReply(
        cluster_id=joined.cluster_id,
        groups=joined.groups,
        members=[encode_member(member) for member in joined.members],
    )


def decode_joined(message: JoinReply) -> Joined:
    members = tuple(decode_member(member) for member in message.members)
    return Joined(message.cluster_id, message.groups, members)


def encode_status(status: ClusterStatus) -> StatusReply:
    return StatusReply(
        cluster_id=status.cluster_id,
        node=status.node,
        nodes=[_encode_node(node) for node in status.nodes],
        groups=[_encode_group(group) for group in status.groups],
    )


def decode_status(message: StatusReply) -> ClusterStatus:
    return ClusterStatus(
        message.cluster_id,
        checked_node(message.node),
        tuple(_decode_node(node) for node in message.nodes),
        tuple(_decode_group(group) for group in message.groups),
    )


def _encode_addresses(addresses: Addresses) -> AddressesMessage:
    return AddressesMessage(
        raft=addresses.raft,
        control=addresses.control,
        sqs=addresses.sqs,
        admin=addresses.admin,
    )


def _decode_addresses(message: AddressesMessage) -> Addresses:
    texts = message.raft, message.control, message.sqs, message.admin
    if not all(not text or _is_plain(text) for text in texts):
        raise BadMessage("an address that none can be")
    return Addresses(*texts)


def _encode_node(node: NodeStatus) -> NodeMessage:
    return NodeMessage(
        node=node.id,
        addresses=_encode_addresses(node.addresses),
        is_reachable=node.reachable,
        version=node.version,
        capabilities=node.capabilities,
        clock_offset_ms=node.clock_offset_ms,
    )


def _decode_node(message: NodeMessage) -> NodeStatus:
    offset = message.clock_offset_ms if message.HasField("clock_offset_ms") else None
    return NodeStatus(
        checked_node(message.node),
        _decode_addresses(message.addresses),
        message.is_reachable,
        message.version,
        tuple(message.capabilities),
        offset,
    )


def _encode_group(group: GroupStatus) -> GroupMessage:
    return GroupMessage(
        group=group.group,
        leader=group.leader,
        term=group.term,
        commit=group.commit,
        applied=group.applied,
        voters=group.voters,
        learners=group.learners,
        lag=group.lag,
    )


def _decode_group(message: GroupMessage) -> GroupStatus:
    return GroupStatus(
        message.group,
        message.leader,
        message.term,
        message.commit,
        message.applied,
        _numbers(message.voters),
        _numbers(message.learners),
        dict(message.lag),
    )


def _numbers(nodes: Iterable[int]) -> tuple[int, ...]:
    return tuple(checked_node(node) for node in nodes)
