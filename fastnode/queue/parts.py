"""Parts of calls that are done where a group is led, as they travel between nodes. Pure.

Whoever needs something of a group that another node leads sends one of these; what is done there is
in `part_handlers.py`. Positions have more bits than a number on the wire and travel as bytes.
"""

from typing import Any, Final, get_args

from msgspec import Struct

from fastnode.queue.api import Message, ReceiveMessageRequest
from fastnode.queue.errors import ERRORS, SqsError
from fastnode.queue.outbox import Letter
from fastnode.queue.validate import ValidReceive, ValidSend


class Part(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of all: which class it is travels first."""


class Barrier(Part, frozen=True):
    """→ the index at which the group's state holds all that was acknowledged before; or all that
    was committed, which others may have applied while the leader has not. Members of an older
    version take both for the first.
    """

    group: int
    is_of_commits: bool = False


class Deliver(Part, frozen=True):
    """Letters with their numbers, in ascending order → the numbers of those that are refused."""

    group: int
    source: int
    letters: list[tuple[bytes, Letter]]


class Find(Part, frozen=True):
    """→ where in the group a call has landed, whatever queue it was about: partition, timestamp and
    mask of each.
    """

    group: int
    request: bytes


class OfQueue(Part, frozen=True):
    """Base of parts about a queue with partitions: the queue's name as a segment, and which of the
    queues that ever had the name.
    """

    segment: bytes
    incarnation: int


class OfCall(OfQueue, frozen=True):
    """Base of parts that carry a client's answer: the identity of the call, and how long it is
    remembered. What a part says has a number is numbered as in the call.
    """

    request: bytes
    retention: int
    partition: int


class Send(OfCall, frozen=True):
    """Messages for one partition, with their numbers → what became of each; None for one that an
    earlier attempt has refused.
    """

    sender: str
    messages: list[tuple[int, ValidSend]]


class Sent(Struct, frozen=True, array_like=True, gc=False):
    """What the answer says; of a duplicate, the id and number of the original."""

    message_id: str
    body_md5: str
    sequence_number: str | None = None


class Delete(OfCall, frozen=True):
    """Handles of one partition, with their numbers → the refusals, by handle."""

    handles: list[tuple[int, str]]


class Change(OfCall, frozen=True):
    """Numbers, handles of one partition and seconds → for each a refusal or None."""

    changes: list[tuple[int, str, int]]


class Refusal(Struct, frozen=True, array_like=True, gc=False):
    """A client's error as it travels."""

    shape: str
    message: str

    @property
    def error(self) -> SqsError:
        return SqsError(ERRORS[self.shape], self.message)


class Count(OfQueue, frozen=True):
    """→ visible, in flight and delayed messages of each partition that the node leads."""


class Renew(OfQueue, frozen=True):
    """Everything in a partition goes. Refused when it is later than `until_ms` there."""

    partition: int
    is_deleted: bool
    until_ms: int


class Open(Part, frozen=True):
    segment: bytes
    partition: int
    group: int


class Follow(Part, frozen=True):
    """Of a node: its replica of the group has reached an index."""

    group: int
    index: int


class Claim(OfQueue, frozen=True):
    """Set messages aside for a receive, of all partitions that the node leads; wait so long for the
    first of them.
    """

    valid: ValidReceive
    wait_ms: int


class Claimed(Struct, frozen=True, array_like=True, gc=False):
    """`claim` is 0 if there was nothing."""

    claim: int
    count: int
    partitions: int
    rows: int
    nanoseconds: int


class Take(OfQueue, frozen=True):
    """Deliver the first `count` messages of a claim and give back the rest, for a call of that
    identity.
    """

    request: bytes
    claim: int
    count: int
    valid: ValidReceive


class GiveBack(Part, frozen=True):
    """What a claim has delivered could not be answered."""

    claim: int


class Return(Part, frozen=True):
    """The answer of a receive crossed the news that its client has gone: of a queue without
    partitions, by the leader that was asked, in the term in which it was.
    """

    group: int
    term: int
    segment: bytes
    request: bytes
    receive: ReceiveMessageRequest


class Redeliver(OfQueue, frozen=True):
    """What a receive of that identity, or without one of the same attempt id, took from the
    partitions that the node leads. None: nothing has landed; empty: it is not as it was any more.
    """

    request: bytes
    valid: ValidReceive


# What each of them gives back.
ANSWERS: Final[dict[type[Part], Any]] = {
    Barrier: int,
    Deliver: list[bytes],
    Find: list[tuple[int, int, int]],
    Send: list[Sent | None],
    Delete: dict[str, Refusal],
    Change: list[Refusal | None],
    Count: dict[int, tuple[int, int, int]],
    Renew: None,
    Open: None,
    Follow: None,
    Claim: Claimed,
    Take: list[Message],
    GiveBack: None,
    Return: None,
    Redeliver: list[Message] | None,
}
ANY_PART: Final = (
    Barrier
    | Deliver
    | Find
    | Send
    | Delete
    | Change
    | Count
    | Renew
    | Open
    | Follow
    | Claim
    | Take
    | GiveBack
    | Return
    | Redeliver
)
assert frozenset(ANSWERS) == frozenset(get_args(ANY_PART)), "a part without its answer"
