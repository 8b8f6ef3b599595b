"""A random history of FIFO calls at all nodes while leads change between any two steps, and what
must be true of it.

Calls are begun and go on a step at a time. Whoever is told of a failure learns nothing: the call
may have taken effect. Messages stay invisible for longer than a history lasts.
"""

from typing import Any, NamedTuple

from fastnode.errors import OperationError
from fastnode.queue import api
from tests.unit.cluster.cluster_world import ClusterWorld
from tests.world import Pending

URL = "p.fifo"
HIDDEN_SECONDS = 3_600


class Sent(NamedTuple):
    group: str
    body: str
    number: int


class FifoLeads:
    def __init__(self, partitions: int) -> None:
        self.world = ClusterWorld(groups=3)
        self.world.create_partitioned(1, URL, partitions)
        self.sent: dict[str, Sent] = {}
        self.unknown: set[str] = set()
        # Deliveries in the order of their answers, each a list of messages; and what somebody has
        # tried to delete, and what is deleted for certain.
        self.received: list[tuple[list[api.Message], set[str]]] = []
        self.doubtful: set[str] = set()
        self.deleted: set[str] = set()
        self._open: list[tuple[str, Any, Pending]] = []
        self._count = 0

    # --- what may happen ---------------------------------------------------------------------

    def send(self, node: int, group: int) -> None:
        self._count += 1
        body = f"m{self._count}"
        request = api.SendMessageRequest(URL, body, message_group_id=f"g{group}")
        self._begin(node, "SendMessage", request, (f"g{group}", body))

    def receive(self, node: int, limit: int) -> None:
        request = api.ReceiveMessageRequest(
            URL,
            attribute_names=["All"],
            max_number_of_messages=limit,
            visibility_timeout=HIDDEN_SECONDS,
        )
        self._begin(node, "ReceiveMessage", request, None)

    def delete(self, node: int, which: int) -> None:
        known = [one for some, _ in self.received for one in some if one.body not in self.doubtful]
        if known:
            message = known[which % len(known)]
            self.doubtful.add(message.body)
            request = api.DeleteMessageRequest(URL, message.receipt_handle)
            self._begin(node, "DeleteMessage", request, message.body)

    def lead(self, group: int, node: int, survives: bool) -> None:
        self.world.lead(group, node, survives=survives)
        self.look()

    def depose(self, group: int) -> None:
        self.world.depose(group)
        self.look()

    def cut(self, node: int, is_written: bool) -> None:
        self.world.cut(node, node % 3 + 1, is_written=is_written)
        self.look()

    def mend(self, node: int) -> None:
        other = node % 3 + 1
        if self.world.link(node, other).is_lost:
            self.world.mend(node, other)
            self.look()

    def step(self, count: int) -> None:
        for _ in range(count):
            self.world.step()
            self.look()

    def stick(self, group: int) -> None:
        self.world.stuck ^= {group}

    def advance(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)
        self.look()

    def _begin(self, node: int, action: str, request: Any, about: Any) -> None:
        self._open.append((action, about, self.world.begin(node, action, request)))
        self.look()

    def look(self) -> None:
        """Take note of what was answered."""
        answered = [one for one in self._open if one[2].is_done]
        self._open = [one for one in self._open if not one[2].is_done]
        for action, about, pending in answered:
            if pending.error is not None:
                assert isinstance(pending.error, OperationError), pending.error
            self._note(action, about, pending)

    def _note(self, action: str, about: Any, pending: Pending) -> None:
        if action == "ReceiveMessage":
            if pending.error is None and pending.result.messages:
                self.received.append((pending.result.messages, set(self.doubtful)))
        elif action == "DeleteMessage":
            if pending.error is None:
                self.deleted.add(about)
        elif pending.error is None:
            group, body = about
            self.sent[body] = Sent(group, body, int(pending.result.sequence_number))
        else:
            self.unknown.add(about[1])

    # --- what must be true -------------------------------------------------------------------

    def finish(self) -> None:
        """All is well again; everything is received that is left."""
        self.world.stuck.clear()
        for node in (1, 2, 3):
            self.mend(node)
        for group in range(3):
            self.lead(group, group + 1, True)
        self.advance(30_000)
        assert not self._open
        self.check_order()
        self.check_rest()

    def check_order(self) -> None:
        """Nothing is delivered twice, and nothing before what was sent before it in its group."""
        seen: list[str] = []
        for messages, doubtful in self.received:
            for at, message in enumerate(messages):
                number = int(message.attributes["SequenceNumber"])
                group = message.attributes["MessageGroupId"]
                before = {one.body for one in messages[:at]}
                earlier = {
                    one.body
                    for one in self.sent.values()
                    if one.group == group and one.number < number
                }
                assert earlier <= before | doubtful, (message.body, earlier - before - doubtful)
                seen.append(message.body)
        assert len(seen) == len(set(seen))

    def check_rest(self) -> None:
        self.world.advance(HIDDEN_SECONDS * 1_000)
        rest = self.world.drain(2, URL)
        known = set(self.sent) | self.unknown
        assert len(rest) == len(set(rest)) and set(rest) <= known
        assert set(self.sent) - self.doubtful <= set(rest)
        assert not self.deleted & set(rest)
        for group in {one.group for one in self.sent.values()}:
            order = [body for body in rest if body in self.sent and self.sent[body].group == group]
            assert order == sorted(order, key=lambda body: self.sent[body].number)
        for node in (1, 2, 3):
            assert self.world.counts(node, URL) == (0, 0, 0)
