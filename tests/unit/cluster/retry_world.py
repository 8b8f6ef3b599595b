"""A cluster whose clients speak HTTP, in one process: each node has its router and its server, and
the test says which entries of the log come when, which answers are lost and who leads.

What calls do is decided by the real code alone. Nothing here knows what is right: see
`retry_table.py`.
"""

import itertools
import json
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from xxhash import xxh3_128_digest

from fastnode import native
from fastnode.cluster.dispatch import Handling
from fastnode.http.identity import IdentitySettings
from fastnode.http.router import Router
from fastnode.queue.caller import Call
from fastnode.queue.operations import OPERATIONS
from fastnode.store.keyspace import QueueKeys
from tests.unit.cluster.cluster_world import ClusterWorld, WorldNode
from tests.unit.http.http_fakes import Node
from tests.world import ACCOUNT, ENDPOINT, REGION

_AUTHORIZATION = (
    f"AWS4-HMAC-SHA256 Credential=AKID/20250101/{REGION}/sqs/aws4_request, "
    "SignedHeaders=host, Signature=00"
)
# The entries of each group's log that are kept from it.
Held = dict[int, list[bytes]]


def posted(
    action: str, members: Mapping[str, Any], invocation: str = "", attempt: int = 1
) -> bytes:
    """A request as an SDK writes it; one that repeats calls names the call and the attempt."""
    body = json.dumps(members).encode()
    lines = [
        "POST / HTTP/1.1",
        "Host: localhost:9324",
        f"Authorization: {_AUTHORIZATION}",
        "Content-Type: application/x-amz-json-1.0",
        f"X-Amz-Target: AmazonSQS.{action}",
        f"Content-Length: {len(body)}",
    ]
    if invocation:
        lines.append(f"amz-sdk-invocation-id: {invocation}")
        lines.append(f"amz-sdk-request: attempt={attempt}; max=5")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Client:
    """One connection with one request."""

    def __init__(self, server: Node, request: bytes) -> None:
        self._connection, self._transport = server.connect()
        self._connection.data_received(request)

    def close(self) -> None:
        """It does not wait for the answer."""
        self._connection.connection_lost(None)

    @property
    def is_answered(self) -> bool:
        return bool(self._transport.written)

    @property
    def status(self) -> int:
        return int(self._transport.written.split(b" ", 2)[1])

    @property
    def answer(self) -> dict[str, Any]:
        written = self._transport.written
        assert written.count(b"HTTP/1.1 ") == 1, "a request is answered once"
        decoded: dict[str, Any] = json.loads(written.partition(b"\r\n\r\n")[2] or b"{}")
        return decoded


def _forgetful(node: WorldNode, operation: Any, call: Call, request: Any) -> Handling:
    call.request = b""
    return node.dispatcher.handle(operation, call, request)


class SpreadIds:
    """Identities in which every byte differs, without chance."""

    def __init__(self, node: int) -> None:
        self._node = node
        self._count = 0

    def take(self, count: int) -> bytes:
        self._count += 1
        return xxh3_128_digest(self._count.to_bytes(8, "big"), self._node)[:count]


class RetryWorld(ClusterWorld):
    """Three nodes. Nodes in `blind` apply nothing, not even what they lead. `mints_anew`: every
    attempt is a call of its own, as if there were no identities.
    """

    def __init__(self, groups: int, *, mints_anew: bool = False) -> None:
        self.blind: set[int] = set()
        super().__init__(3, groups)
        numbers = itertools.count(1)
        self._fronts: dict[int, Node] = {}
        for number, node in self.nodes.items():
            node.service._ids = SpreadIds(number)
            router = Router(
                OPERATIONS,
                node.service,
                IdentitySettings(REGION, ENDPOINT),
                lambda: f"request-{next(numbers)}",
                logging.getLogger("fastnode.test"),
                handle=partial(_forgetful, node) if mints_anew else node.dispatcher.handle,
            )
            node.service.gates.recognises_retries = not mints_anew
            self._fronts[number] = front = Node()
            front.server.respond = router.respond

    def ask(self, node: int, request: bytes) -> Client:
        """A request that arrives at the node; what can happen, happens."""
        client = Client(self._fronts[node], request)
        self.settle()
        return client

    @property
    def groups(self) -> range:
        return range(len(self.logs))

    # --- who leads -----------------------------------------------------------------------------

    def lead_as(self, leaders: Iterable[int], *, survives: bool = True) -> None:
        """Node by group. The leads go from their nodes even if the same are to have them."""
        for group, node in enumerate(leaders):
            self.lead(group, node, survives=survives)

    def _apply(self, number: int, at: int) -> bool:
        if self.nodes[number].groups[at].applied_index == len(self.logs[at]):
            return False
        return number not in self.blind and super()._apply(number, at)

    # --- the log -------------------------------------------------------------------------------

    def hold_back(self) -> None:
        """What is proposed is not committed."""
        self.stuck.update(self.groups)

    def commit(self) -> None:
        """What was held back is committed, and so is what follows."""
        self.stuck.clear()
        self.settle()

    def take_away(self) -> Held:
        """What was proposed and not committed will come late, or never."""
        held = {group: [entry for _, entry in taken] for group, taken in enumerate(self.taken)}
        self.taken = [[] for _ in self.groups]
        self.stuck.clear()
        return held

    def deliver_late(self, held: Held) -> None:
        """Later than Raft allows it: behind what a later leader has committed."""
        for group, entries in held.items():
            self.logs[group] += [(self.terms[group], entry) for entry in entries]
        self.settle()

    def hurry(self, node: int, milliseconds: int) -> None:
        """The node's clock is ahead: what it leads is stamped later than others would do it."""
        for group in self.nodes[node].groups:
            group._clock.observe(group.now() + (milliseconds << 16))

    # --- links ---------------------------------------------------------------------------------

    def hold_answers(self, node: int) -> None:
        """What others answer to the node stays on its way."""
        for link in self.nodes[node].links.values():
            link.are_answers_held = True

    def cut_off(self, node: int) -> None:
        """It hears of the log, and nobody answers its calls."""
        for other in self.nodes:
            if other != node:
                self.cut(node, other)

    def reconnect(self, node: int) -> None:
        for other in self.nodes:
            if other != node:
                self.mend(node, other)

    def mute(self, node: int) -> None:
        """What waits there for a leader is not told who leads."""
        for group in self.nodes[node].groups:
            group.on_leader = lambda: None

    def unmute(self, node: int) -> None:
        for group in self.nodes[node].groups:
            group.on_leader = self.nodes[node].courier.look_again

    # --- what is left --------------------------------------------------------------------------

    def is_at_rest(self) -> bool:
        """Nothing is on its way, and nobody waits for anything."""
        groups = [group for node in self.nodes.values() for group in node.groups]
        is_quiet = not any(self.taken) and not self.stuck and not self.blind
        return is_quiet and not any(
            group.gathered_count or len(group.latches) or group.is_waiting for group in groups
        )

    def are_replicas_equal(self) -> bool:
        for group in self.groups:
            rows = [node.engines[group]._rows for node in self.nodes.values()]
            if any(some != rows[0] for some in rows):
                return False
        return True


def is_home(name: str, group: int, groups: int) -> bool:
    return native.home_group(QueueKeys(ACCOUNT, REGION, name).segment, groups) == group
