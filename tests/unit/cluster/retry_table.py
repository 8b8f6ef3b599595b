"""What may come of a call whose first attempt got no answer and which is then repeated, case by
case. Written from the contract, not from the code: only data and the rules that choose a row.

A call takes effect once: before what happens between its attempts, or after it. The answer is that
of the attempt that took effect, whatever the queue has become since.
"""

import itertools
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple


class Verb(Enum):
    SEND = "SendMessage"
    SEND_BATCH = "SendMessageBatch"
    DELETE = "DeleteMessage"
    DELETE_BATCH = "DeleteMessageBatch"
    CHANGE = "ChangeMessageVisibility"
    CHANGE_BATCH = "ChangeMessageVisibilityBatch"
    RECEIVE = "ReceiveMessage"

    @property
    def is_batch(self) -> bool:
        return self.value.endswith("Batch")

    @property
    def single(self) -> "Verb":
        return Verb(self.value.removesuffix("Batch"))


class Kind(Enum):
    STANDARD = "standard"
    FIFO = "fifo"
    PARTITIONED = "partitioned"


class Fate(Enum):
    """Of the first attempt's entries in the log."""

    LANDS = "lands"
    NEVER = "never"
    # When the second attempt has done all that it can without them.
    LATE = "late"


class Loss(Enum):
    """When the answer of the first attempt is lost."""

    BEFORE = "before the commit"
    AFTER = "after the commit"


class Event(Enum):
    """Between the attempts, by somebody else."""

    NOTHING = "nothing"
    # All that is visible.
    RECEIVE = "receive"
    # All that is visible is received and deleted; and one message that the call is about.
    DELETE = "delete"
    PURGE = "purge"
    RECREATE = "recreate"
    # Smaller messages, and a rate limit that is used up.
    TIGHTEN = "tighten"


class Leader(Enum):
    """Of the queue, when the second attempt takes effect."""

    SAME = "same"
    NEW = "new"


class Owner(Enum):
    """The node that takes the call from its client. Of a queue with partitions: the node leads the
    first partition, or none.
    """

    LEADER = "leader"
    OTHER = "other"


class Repeater(Enum):
    OWNER = "owner"
    # At another node.
    CLIENT = "client"
    # At the same node, by another connection.
    CLIENT_HERE = "client, same node"


class Case(NamedTuple):
    verb: Verb
    kind: Kind
    owner: Owner
    repeater: Repeater
    fate: Fate
    loss: Loss
    event: Event
    leader: Leader

    @property
    def is_by_owner(self) -> bool:
        return self.repeater is Repeater.OWNER

    @property
    def keeps_term(self) -> bool:
        """Whether one leadership spans both attempts. An entry that a leader has proposed lands
        unless the lead is lost, and a leader that owns the call and keeps the lead knows its end.
        """
        if self.leader is Leader.NEW or self.fate is Fate.NEVER:
            return False
        return not (self.is_by_owner and self.owner is Owner.LEADER)

    @property
    def is_given_back(self) -> bool:
        """A leader that delivers messages and knows that nobody reads the answer takes them back:
        the client has closed its connection, or the node that asked for it its link.
        """
        is_undone = self.loss is Loss.BEFORE and self.fate is Fate.LANDS and self.keeps_term
        if self.verb is not Verb.RECEIVE or not is_undone:
            return False
        # Of a queue with partitions it is the owner that takes back, and it is alive.
        return not self.is_by_owner or self.kind is not Kind.PARTITIONED


# Why a combination cannot be.
IMPOSSIBLE: Final = {
    (Fate.NEVER, Loss.AFTER): "what is committed has landed",
    (Fate.LATE, Loss.AFTER): "the second attempt begins when the answer is lost: by then it landed",
}
# Entries come later here than Raft allows. What keeps them from landing is that another attempt has
# landed in the same group, or anything else; where nothing has, it is that a leader which does not
# hold an entry when it begins never will. These are the cases of that kind.
BEYOND_RAFT: Final = "nothing lands in the partition of the late entry before it"


def why_impossible(case: Case) -> str | None:
    if (case.fate, case.loss) in IMPOSSIBLE:
        return IMPOSSIBLE[case.fate, case.loss]
    is_late = case.fate is Fate.LATE and not case.keeps_term
    if is_late and case.kind is Kind.PARTITIONED:
        is_refused = case.event is Event.TIGHTEN
        is_elsewhere = case.verb is Verb.RECEIVE and case.event is Event.NOTHING
        if is_refused or is_elsewhere:
            return BEYOND_RAFT
    return None


def cases(verb: Verb, kind: Kind, owner: Owner, repeater: Repeater) -> Iterator[Case]:
    for fate, loss, event, leader in itertools.product(Fate, Loss, Event, Leader):
        case = Case(verb, kind, owner, repeater, fate, loss, event, leader)
        if why_impossible(case) is None:
            yield case


# --- what may come of it -------------------------------------------------------------------------


class Answer(Enum):
    """Which entries the client is told to have succeeded. Nobody is told 503: someone leads."""

    ALL = "all"
    # All but the one whose message is gone; of a single call, none.
    OTHERS = "others"
    NONE = "none"


class Outcome(NamedTuple):
    """The answer, None if it says that nobody knows; how many messages the event received; how many
    are visible and in flight when all is over.
    """

    answer: Answer | None
    got: int
    visible: int
    in_flight: int


class Row(NamedTuple):
    """An outcome that grows with the number of good entries of a call."""

    answer: Answer
    got: tuple[int, int] = (0, 0)
    visible: tuple[int, int] = (0, 0)
    in_flight: tuple[int, int] = (0, 0)

    def of(self, entries: int) -> Outcome:
        sums = [base + each * entries for base, each in (self.got, self.visible, self.in_flight)]
        return Outcome(self.answer, *sums)


ALL, OTHERS, NONE = Answer.ALL, Answer.OTHERS, Answer.NONE
N: Final = (0, 1)


class Order(Enum):
    """When the call takes effect: before the event, or after it."""

    BEFORE = "before"
    AFTER = "after"


Rows = dict[tuple[Event, Order], Row]

# The queue is empty at first.
_SENDS: Final[Rows] = {
    (Event.NOTHING, Order.BEFORE): Row(ALL, visible=N),
    (Event.NOTHING, Order.AFTER): Row(ALL, visible=N),
    (Event.RECEIVE, Order.BEFORE): Row(ALL, got=N, in_flight=N),
    (Event.RECEIVE, Order.AFTER): Row(ALL, visible=N),
    (Event.DELETE, Order.BEFORE): Row(ALL, got=N),
    (Event.DELETE, Order.AFTER): Row(ALL, visible=N),
    (Event.PURGE, Order.BEFORE): Row(ALL),
    (Event.PURGE, Order.AFTER): Row(ALL, visible=N),
    (Event.RECREATE, Order.BEFORE): Row(ALL),
    (Event.RECREATE, Order.AFTER): Row(ALL, visible=N),
    (Event.TIGHTEN, Order.BEFORE): Row(ALL, visible=N),
    (Event.TIGHTEN, Order.AFTER): Row(NONE),
}
# Three messages are in flight, the first of them are those of the call; one is visible.
_REST: Final = (3, -1)
_DELETES: Final[Rows] = {
    (Event.NOTHING, Order.BEFORE): Row(ALL, visible=(1, 0), in_flight=_REST),
    (Event.NOTHING, Order.AFTER): Row(ALL, visible=(1, 0), in_flight=_REST),
    (Event.RECEIVE, Order.BEFORE): Row(ALL, got=(1, 0), in_flight=(4, -1)),
    (Event.RECEIVE, Order.AFTER): Row(ALL, got=(1, 0), in_flight=(4, -1)),
    # What is gone counts as deleted.
    (Event.DELETE, Order.BEFORE): Row(ALL, got=(1, 0), in_flight=_REST),
    (Event.DELETE, Order.AFTER): Row(ALL, got=(1, 0), in_flight=_REST),
    # And so does what a purge has removed.
    (Event.PURGE, Order.BEFORE): Row(ALL),
    (Event.PURGE, Order.AFTER): Row(ALL),
    # Another queue of that name knows nothing of the handle.
    (Event.RECREATE, Order.BEFORE): Row(ALL),
    (Event.RECREATE, Order.AFTER): Row(NONE),
    (Event.TIGHTEN, Order.BEFORE): Row(ALL, visible=(1, 0), in_flight=_REST),
    (Event.TIGHTEN, Order.AFTER): Row(NONE, visible=(1, 0), in_flight=(3, 0)),
}
# The same messages; those of the call become visible at once.
_CHANGES: Final[Rows] = {
    (Event.NOTHING, Order.BEFORE): Row(ALL, visible=(1, 1), in_flight=_REST),
    (Event.NOTHING, Order.AFTER): Row(ALL, visible=(1, 1), in_flight=_REST),
    # Whoever received them meanwhile keeps them.
    (Event.RECEIVE, Order.BEFORE): Row(ALL, got=(1, 1), in_flight=(4, 0)),
    (Event.RECEIVE, Order.AFTER): Row(ALL, got=(1, 0), visible=N, in_flight=(4, -1)),
    (Event.DELETE, Order.BEFORE): Row(ALL, got=(1, 1), in_flight=_REST),
    (Event.DELETE, Order.AFTER): Row(OTHERS, got=(1, 0), visible=(-1, 1), in_flight=_REST),
    (Event.PURGE, Order.BEFORE): Row(ALL),
    (Event.PURGE, Order.AFTER): Row(NONE),
    (Event.RECREATE, Order.BEFORE): Row(ALL),
    (Event.RECREATE, Order.AFTER): Row(NONE),
    (Event.TIGHTEN, Order.BEFORE): Row(ALL, visible=(1, 1), in_flight=_REST),
    (Event.TIGHTEN, Order.AFTER): Row(NONE, visible=(1, 0), in_flight=(3, 0)),
}
# Four messages are visible, and the call takes two: with `ALL`, it is told two, otherwise none.
_TAKEN: Final = (2, 0)
_RECEIVES: Final[Rows] = {
    (Event.NOTHING, Order.BEFORE): Row(ALL, visible=_TAKEN, in_flight=_TAKEN),
    (Event.NOTHING, Order.AFTER): Row(ALL, visible=_TAKEN, in_flight=_TAKEN),
    (Event.RECEIVE, Order.BEFORE): Row(ALL, got=_TAKEN, in_flight=(4, 0)),
    (Event.RECEIVE, Order.AFTER): Row(NONE, got=(4, 0), in_flight=(4, 0)),
    (Event.DELETE, Order.BEFORE): Row(ALL, got=_TAKEN, in_flight=_TAKEN),
    (Event.DELETE, Order.AFTER): Row(NONE, got=(4, 0)),
    (Event.PURGE, Order.BEFORE): Row(NONE),
    (Event.PURGE, Order.AFTER): Row(NONE),
    (Event.RECREATE, Order.BEFORE): Row(NONE),
    (Event.RECREATE, Order.AFTER): Row(NONE),
    (Event.TIGHTEN, Order.BEFORE): Row(ALL, visible=_TAKEN, in_flight=_TAKEN),
    (Event.TIGHTEN, Order.AFTER): Row(NONE, visible=(4, 0)),
}
_TABLE: Final = {
    Verb.SEND: _SENDS,
    Verb.DELETE: _DELETES,
    Verb.CHANGE: _CHANGES,
    Verb.RECEIVE: _RECEIVES,
}
# On a standard queue a handle is good for ever, so one of the two messages is deleted by an older
# one. Then they are not as they were, and nothing else is visible.
_TOUCHED: Final = Row(NONE, got=_TAKEN, in_flight=(1, 0))
# One leader has both attempts and the event at once: the first lands before whatever waits for it.
# But a receive takes what it sees before that.
_SEES_NOTHING: Final = frozenset({(Verb.SEND, Event.RECEIVE), (Verb.SEND, Event.DELETE)})


def order_of(case: Case) -> Order:
    is_first = case.fate is Fate.LANDS and not case.is_given_back
    if case.fate is Fate.LATE and case.keeps_term:
        is_first = (case.verb.single, case.event) not in _SEES_NOTHING
    return Order.BEFORE if is_first else Order.AFTER


def allowed(case: Case) -> set[Outcome]:
    """Several where two things happen at once."""
    found = {_outcome(case, order_of(case))}
    if case.fate is Fate.LATE and case.keeps_term and case.verb is Verb.RECEIVE:
        # The messages of the first attempt are the answer of the second, if only when they have
        # been given back, and then whatever comes upon them comes after that.
        found |= {each._replace(answer=ALL) for each in found}
        # Or somebody else was faster.
        found.add(_outcome(case, Order.AFTER))
    return found


def _outcome(case: Case, order: Order) -> Outcome:
    verb = case.verb.single
    row = _TABLE[verb][case.event, order]
    is_touched = (verb, case.event, order) == (Verb.RECEIVE, Event.DELETE, Order.BEFORE)
    if is_touched and case.kind is Kind.STANDARD:
        row = _TOUCHED
    outcome = row.of(2 if case.verb.is_batch else 1)
    if outcome.answer is OTHERS and not case.verb.is_batch:
        return outcome._replace(answer=NONE)
    return outcome
