"""When a leader may answer a read from its own state: the lease, the rounds that renew it, and the
reads that wait for one. No clock and no I/O: the time is an argument, rounds travel elsewhere.

Theory of operation. A *round* is one ReadIndex request: a heartbeat to all voters that a quorum has
to answer. Every voter that answered has heard from this leader at or after the moment the round
*began*, and refuses its vote to others for one election timeout from there on. So nobody else can
be elected, let alone commit, before `begin + lease_ns(...)`, and until then what this leader has
applied is all that was ever acknowledged. Counting from the moment of the *answer* would be wrong
by the time that the answer travelled.

What the argument needs from elsewhere:
- A voter keeps its promise across a restart and across a change of term: no vote for one election
  timeout after a start or after hearing from a leader, unless a leader asked for the election.
- Ticks are never less than a tick apart, and clocks drift by no more than was allowed for.
- Roles are taken over before the packets of the same turn leave and before its confirmed rounds
  count: a leader that stepped down may vote for its successor in that very turn.

A transfer breaks the promise on purpose, and the packet that orders it may arrive long after the
transfer was given up. So a leader that ever began one holds no lease for the rest of its term; its
reads take a round each turn.

A read that a lease or a round admitted may look at the state any time later: what it sees can only
have grown.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from fastnode import config
from fastnode.errors import OperationError, Overloaded, Unavailable
from fastnode.raft.groups import LEADER

# Older rounds of a leader are forgotten: whoever answers the ninth confirms the first.
ROUNDS_IN_FLIGHT_MAX: Final = 8


class Waiting(Protocol):
    """A read that is told, once, that it may look."""

    def resume(self) -> None: ...
    def fail(self, error: OperationError) -> None: ...


def lease_ns(*, election_ticks: int, tick_seconds: float, drift_ppm: int) -> int:
    """How long nobody else can be elected after the begin of a round.

    A tick less than the election timeout, because a voter may count its first tick right after the
    heartbeat. `drift_ppm` is how much faster a voter's clock may run than the leader's.
    """
    assert election_ticks > 1 and 0 <= drift_ppm < 1_000_000
    promised_ns = (election_ticks - 1) * round(tick_seconds * 1_000_000_000)
    return promised_ns * (1_000_000 - drift_ppm) // 1_000_000


LEASE_NS: Final = lease_ns(
    election_ticks=config.ELECTION_TICKS,
    tick_seconds=config.TICK_SECONDS,
    drift_ppm=config.CLOCK_DRIFT_PPM,
)


class Lease:
    """The lease of one group on one node, and the rounds on their way."""

    __slots__ = ("_count", "_duration_ns", "_sent", "_term", "_transfer_term", "_until_ns", "leads")

    def __init__(self, duration_ns: int) -> None:
        assert duration_ns > 0
        self._duration_ns = duration_ns
        self.leads = False
        self._term = 0
        self._transfer_term = -1
        self._until_ns = 0
        # Counted on over terms: a round is never confirmed by the answer to another.
        self._count = 0
        self._sent: dict[int, int] = {}

    def is_valid(self, now_ns: int) -> bool:
        return now_ns < self._until_ns

    def needs_round(self, now_ns: int) -> bool:
        """Half of the lease is over, and a round could give another."""
        is_late = now_ns >= self._until_ns - self._duration_ns // 2
        return is_late and self._transfer_term != self._term and self.can_begin(now_ns)

    def can_begin(self, now_ns: int) -> bool:
        """One round at a time; another when the last one may be lost, since a leader that has not
        committed in its term drops them silently.
        """
        sent_ns = self._sent.get(self._count)
        return self.leads and (sent_ns is None or now_ns - sent_ns >= self._duration_ns // 4)

    def begin_round(self, now_ns: int) -> bytes:
        """The context to ask with. `now_ns` is read before the question is sent."""
        assert self.leads, "only a leader asks"
        self._count += 1
        self._sent[self._count] = now_ns
        if len(self._sent) > ROUNDS_IN_FLIGHT_MAX:
            del self._sent[next(iter(self._sent))]
        return self._count.to_bytes(8, "big")

    def confirm(self, context: bytes) -> int | None:
        """A quorum answered: the number of the round, or None if it does not count any more."""
        number = int.from_bytes(context, "big")
        sent_ns = self._sent.pop(number, None)
        if sent_ns is None:
            return None
        # Who answers a round has answered all before it.
        self._sent = {later: ns for later, ns in self._sent.items() if later > number}
        if self._transfer_term != self._term:
            self._until_ns = max(self._until_ns, sent_ns + self._duration_ns)
        return number

    def drop(self) -> None:
        """Any doubt: no lease and no round that could give one back."""
        self._until_ns = 0
        self._sent.clear()

    def begin_transfer(self) -> None:
        """Before the transfer is asked for."""
        self.drop()
        self._transfer_term = self._term

    def change_role(self, role: str, term: int) -> bool:
        """True when a leadership began or ended, and with it everything that hung on it."""
        leads = role == LEADER
        if (leads, term) == (self.leads, self._term):
            return False
        self.drop()
        self.leads, self._term = leads, term
        return True


class ReadQueue:
    """Reads that wait, in order of arrival: for a round, then for the state to reach its index."""

    __slots__ = ("_asked", "_confirmed", "_gathered", "_reads_max", "count")

    def __init__(self, reads_max: int) -> None:
        self._reads_max = reads_max
        self._gathered: list[Waiting] = []
        self._asked: deque[tuple[int, list[Waiting]]] = deque()
        self._confirmed: deque[tuple[int, list[Waiting]]] = deque()
        self.count = 0

    @property
    def wants_round(self) -> bool:
        return bool(self._gathered or self._asked)

    def add(self, read: Waiting) -> None:
        if self.count >= self._reads_max:
            raise Overloaded("too many reads wait for the group's leader to be confirmed")
        self.count += 1
        self._gathered.append(read)

    def ask(self, number: int) -> None:
        """All reads gathered so far wait for this round. A round that is on its way already would
        not do: its index is from before they began.
        """
        if self._gathered:
            self._asked.append((number, self._gathered))
            self._gathered = []

    def confirm(self, number: int, index: int) -> None:
        """A round serves its own reads and those of all rounds before it."""
        while self._asked and self._asked[0][0] <= number:
            self._confirmed.append((index, self._asked.popleft()[1]))

    def take(self, applied_index: int) -> list[Waiting]:
        """Reads that may look now."""
        ready: list[Waiting] = []
        while self._confirmed and self._confirmed[0][0] <= applied_index:
            ready += self._confirmed.popleft()[1]
        self.count -= len(ready)
        return ready

    def take_all(self) -> list[Waiting]:
        """Reads that nobody will answer any more."""
        reads = [*_joined(self._confirmed), *_joined(self._asked), *self._gathered]
        self._confirmed.clear()
        self._asked.clear()
        self._gathered = []
        self.count = 0
        return reads


class Reads:
    """All reads of one group on one node: by lease when there is one, by a shared round otherwise.

    Reads are resumed after the books are closed: what they do may come back here.
    """

    __slots__ = ("_first_index", "_is_used", "_lease", "_queue")

    def __init__(self, duration_ns: int, reads_max: int) -> None:
        self._lease = Lease(duration_ns)
        self._queue = ReadQueue(reads_max)
        # A read in the time of a lease is a reason to renew it; an idle group sends nothing.
        self._is_used = False
        # Below it the state lacks what earlier leaders acknowledged.
        self._first_index: int | None = None

    @property
    def lease(self) -> Lease:
        return self._lease

    def admit(self, now_ns: int, applied_index: int) -> bool:
        """True: look at once. False: `wait`."""
        self._is_used = True
        first = self._first_index
        return first is not None and first <= applied_index and self._lease.is_valid(now_ns)

    def wait(self, read: Waiting) -> None:
        """Resumed when a round that begins from now on is confirmed and applied."""
        if not self._lease.leads:
            raise Unavailable("the group has no leader here")
        self._queue.add(read)

    @property
    def is_active(self) -> bool:
        """Reads wait, or there were some since the last round."""
        return self._is_used or self._queue.count > 0

    def is_round_due(self, now_ns: int) -> bool:
        """Reads wait for a round that can begin, or a lease in use grows old."""
        if self._queue.wants_round:
            return self._lease.can_begin(now_ns)
        return self._is_used and self._lease.needs_round(now_ns)

    def take_round(self, now_ns: int) -> bytes | None:
        """The context of a round to ask for in this turn, or None."""
        if not self.is_round_due(now_ns):
            return None
        self._is_used = False
        context = self._lease.begin_round(now_ns)
        self._queue.ask(int.from_bytes(context, "big"))
        return context

    def confirm(self, context: bytes, index: int) -> None:
        number = self._lease.confirm(context)
        if number is None:
            return
        if self._first_index is None:
            self._first_index = index
        self._queue.confirm(number, index)

    @property
    def are_waiting(self) -> bool:
        return self._queue.count > 0

    def release(self, applied_index: int) -> None:
        """The state is at this index: resume who waited for no more."""
        for read in self._queue.take(applied_index):
            read.resume()

    def refuse(self, error: OperationError) -> None:
        """The consensus takes no question: it does not lead, though nobody was told so yet."""
        self._lease.drop()
        self.fail_all(error)

    def begin_transfer(self) -> None:
        """Before the transfer is asked for. Waiting reads are served by a new round, or fail with
        the leadership.
        """
        self._lease.begin_transfer()

    def change_role(self, role: str, term: int) -> None:
        if self._lease.change_role(role, term):
            self._first_index = None
            self.fail_all(Unavailable("the group lost its leader"))

    def fail_all(self, error: OperationError) -> None:
        for read in self._queue.take_all():
            read.fail(error)


def _joined(batches: Iterable[tuple[int, list[Waiting]]]) -> list[Waiting]:
    return [read for _, reads in batches for read in reads]
