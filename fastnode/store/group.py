"""One Raft group as the node sees it: state to read, transactions to plan and submit, entries to
apply.

The leader's side (latches, gathering, who waits for which outcome) and the replica's side (apply)
meet here. What a transaction does to the engine is decided in `apply.py` alone.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Final

from fastnode import config
from fastnode.clock import GroupClock, milliseconds_of
from fastnode.config import BACKLOG_PLACES_MAX
from fastnode.errors import DiskFull, NotLed, OperationError, Overloaded, PlanAgain, Unsettled
from fastnode.flow import Resumable, Suspension
from fastnode.native import APPLIED, Outcome, encode_entry
from fastnode.raft.groups import LEADER
from fastnode.raft.lease import LEASE_NS, Reads
from fastnode.store.afterwards import Afterwards
from fastnode.store.apply import Position, fill_rows, load_position, put_position
from fastnode.store.backlog import PLACE_BITS, Backlog
from fastnode.store.engine import Engine, WriteStalled
from fastnode.store.heads import HeadRows
from fastnode.store.judge import Judge, Ruling
from fastnode.store.latches import Latches
from fastnode.store.reaching import Reaching
from fastnode.store.sums import decode_counter
from fastnode.store.txn import Txn

# Who waits for the outcome, keys that are latched until then, places in the backlog, commit stamp.
_Submitted = tuple[Resumable, tuple[bytes, ...], int, int]

_REQUEST_BYTES: Final = 16
# A lead that was not handed on by then stays: raft-rs gives up after an election timeout.
_HANDING_ON_NS: Final = round((config.ELECTION_TICKS + 1) * config.TICK_SECONDS * 1e9)


def _request_of(encoded: bytes) -> bytes:
    """A transaction begins with the identity of its call."""
    return encoded[:_REQUEST_BYTES]


class Group:
    def __init__(
        self, number: int, engine: Engine, clock: GroupClock, *, is_sole_voter: bool = True
    ) -> None:
        self.number = number
        self.backlog = Backlog()  # all groups of a node are given the same one
        self.leader = 0  # as far as this node knows; 0 means nobody
        # Told when a first transaction is gathered; the shell that proposes puts itself here.
        self.on_gathered: Callable[[int], None] = lambda _group: None
        # The same shell asks for the round that a read waits for.
        self.on_read_waiting: Callable[[int], None] = lambda _group: None
        # Told within a turn, when this node may plan and when it may not any more.
        self.on_ready: Callable[[Group], None] = lambda _group: None
        self.on_lost: Callable[[Group], None] = lambda _group: None
        # Told when another node leads than before, or nobody, or when the leader here is ready.
        self.on_leader: Callable[[], None] = lambda: None
        self._leading_observers: list[Callable[[], None]] = []
        self.latches = Latches()
        self.reads = Reads(LEASE_NS, config.WAITING_READS_MAX)
        self.accepts_messages = True
        self.get = engine.get
        self.get_many = engine.get_many
        self.scan = engine.scan
        self.scan_keys = engine.scan_keys
        self.flush = engine.flush
        self.compact = engine.compact
        self.engine_metrics = engine.metrics
        self.now = clock.now
        self.boottime_ns = clock.boottime_ns
        self._engine = engine
        self._clock = clock
        self.is_sole_voter = is_sole_voter
        self._reaching = Reaching()
        self.afterwards = Afterwards()
        self.head_rows = HeadRows(engine)
        self._term = 0
        self._leads = False
        # The leader's barrier: nothing is planned before an entry of its term is applied.
        self.is_ready = False
        self._reach(load_position(engine))
        self._judge = Judge(engine, self._position)
        self._was_ready = False
        self._refused_until_ns = 0
        # Encoded transactions that no entry has taken yet, and those that the last one took.
        self._gathered: list[bytes] = []
        self._taken: list[bytes] = []
        self._submitted: dict[bytes, _Submitted] = {}
        self.unapplied: Sized = self._submitted
        self.refused: Counter[int] = Counter()  # transactions that did not land, by outcome
        self._freed = self._stamped = 0
        self._is_disk_full = False
        self._undecided: deque[tuple[int, int, Sequence[bytes]]] = deque()
        self._decided: Ruling | None = None
        clock.observe(self._position.commit_ts)

    # --- reading ---------------------------------------------------------------------------

    @property
    def applied_index(self) -> int:
        return self._position.applied_index

    @property
    def leads(self) -> bool:
        """It may still have to apply what earlier leaders committed."""
        return self._leads

    @property
    def term(self) -> int:
        return self._term

    @property
    def request_count(self) -> int:
        """Of calls that landed and are remembered."""
        return self._judge.resolver.request_count

    @property
    def class_floors(self) -> list[int]:
        """Of each class of requests, the commit up to which they are forgotten."""
        return self._judge.resolver.class_floors

    @property
    def takes_calls(self) -> bool:
        """Ready, and as far as is known not just handing the lead on: nothing is proposed then."""
        return self.is_ready and self.boottime_ns() >= self._refused_until_ns

    @property
    def is_readable(self) -> bool:
        """Whether an answer that only looks may look now; if not, it awaits `readable()` first.

        Nobody can take the lead from a sole voter, so it needs no lease.
        """
        if self.is_sole_voter:
            return self.is_ready
        return self.reads.admit(self.boottime_ns(), self._position.applied_index)

    def readable(self) -> Suspension:
        """Await the result: from then on the state holds all that was acknowledged before now."""
        read = Suspension()
        self.reads.wait(read)
        self.on_read_waiting(self.number)
        return read

    def reached(self, index: int) -> Suspension:
        """Await the result: from then on the state holds the entries up to `index`."""
        return self._reaching.wait(index, self._position.applied_index)

    def counter(self, key: bytes) -> int:
        return decode_counter(self.head_rows.sums.read(self._engine, key))

    # --- planning --------------------------------------------------------------------------

    def landed(self, request: bytes) -> tuple[int, int] | None:
        """Commit timestamp and mask of a remembered call that took effect, and not only will."""
        return None if request in self._submitted else self._judge.resolver.find(request)

    def has_seen(self, request: bytes) -> bool:
        """Whether the call has landed, or an attempt of it is on its way."""
        return request in self._submitted or self._judge.resolver.find(request) is not None

    def attempted(self, request: bytes) -> Suspension | None:
        """None unless an attempt of the call is on its way; then await it, and look again."""
        return self.latches.wait(request) if request in self._submitted else None

    def begin(self, request: bytes, retention: int = 0) -> Txn:
        return Txn(request, *self.stamp(request), retention)

    def stamp(self, request: bytes) -> tuple[int, int]:
        """Start and commit timestamp of a transaction that is planned and submitted at once."""
        if request in self._submitted or self._judge.resolver.find(request) is not None:
            raise PlanAgain("the call was here before")
        if not self.is_ready:
            raise NotLed("the group has no leader here")
        if self._is_disk_full:
            raise DiskFull("the engine has no space to apply what is committed")
        if self.backlog.room <= -BACKLOG_PLACES_MAX:
            raise Overloaded("too many transactions wait to be applied")
        self._stamped = stamped = self._clock.stamp()
        return self._applied_ts, stamped

    def require_room(self) -> None:
        """New messages are refused first; deletes and changes go on inside the reserve."""
        if not self.accepts_messages:
            raise DiskFull("free disk space is below the reserve")

    def submit(self, txn: Txn) -> Suspension:
        """Await the result for the transaction's `Outcome`. Between `begin` and here nothing may be
        awaited.
        """
        latched = txn.latched_keys()
        if latched:
            self.latches.hold(latched)
        outcome = Suspension()
        self.submit_encoded(txn.request, txn.commit_ts, txn.encode(), outcome, latched)
        return outcome

    def submit_encoded(
        self,
        request: bytes,
        commit_ts: int,
        encoded: bytes,
        waiting: Resumable,
        latched: tuple[bytes, ...] = (),
    ) -> None:
        """As `submit`, for a transaction that compiled code has planned and encoded."""
        assert commit_ts == self._stamped, "a transaction is planned and submitted in one step"
        gathered, places = self._gathered, 1 + (len(encoded) >> PLACE_BITS)
        self._submitted[request] = waiting, latched, places, commit_ts
        self.backlog.room -= places
        gathered.append(encoded)
        if len(gathered) == 1:
            self.on_gathered(self.number)

    # --- the machine that Raft drives ------------------------------------------------------

    @property
    def gathered_count(self) -> int:
        return len(self._gathered)

    def take_entry(self) -> bytes | None:
        gathered = self._gathered
        if not gathered:
            # Who proposes asks until there is none, so nothing refuses the last one any more.
            self._taken = []
            return None
        count, size = len(gathered), sum(map(len, gathered))
        while count > 1 and size > config.ENTRY_BYTES_MAX:
            count -= 1
            size -= len(gathered[count])
        self._taken, self._gathered = gathered[:count], gathered[count:]
        entry = encode_entry(self._taken)
        self._judge.proposed(entry)
        return entry

    def refuse_entry(self, error: OperationError) -> None:
        if isinstance(error, NotLed):
            self._refused_until_ns = self.boottime_ns() + _HANDING_ON_NS
        self._judge.refused()
        self._fail(map(_request_of, self._taken), error)

    def look_ahead(self) -> None:
        """An entry is on its way to the disk: what can be done before it is committed."""
        if self.is_ready and not self._undecided and self._decided is None:
            for entry, resolved in self._judge.look_ahead(self.head_rows):
                self._prepare(entry.requests(), resolved.outcomes)

    def _prepare(self, requests: list[bytes], outcomes: list[Outcome]) -> None:
        for at, request in enumerate(requests):
            submitted = self._submitted.get(request)
            if submitted is not None and outcomes[at][0] == APPLIED:
                submitted[0].prepare()

    def commit(self, index: int, term: int, entries: Sequence[bytes]) -> None:
        self._undecided.append((index, term, entries))

    def apply(self) -> bool:
        with self.afterwards:
            return self._apply()

    def _apply(self) -> bool:
        while self._undecided or self._decided is not None:
            ruling = self._decided or self._judge.rule(self._position, *self._undecided.popleft())
            decided, position, batch = ruling
            if batch is None:
                batch = self._engine.batch()
                if decided:  # else there may be a plan of what comes next
                    fill_rows(self._engine, batch, decided, self.head_rows)
            put_position(batch, position)
            try:
                self._engine.write(batch)
            except (WriteStalled, DiskFull) as refusal:
                # Nothing was written, and what was decided gives the same batch again.
                self._decided = Ruling(decided, position)
                self._is_disk_full = isinstance(refusal, DiskFull)
                return False
            self._decided = None
            if decided:
                self.head_rows.written()
            self._is_disk_full = False
            self._reach(position)
            self._clock.observe(position.commit_ts)
            for entry, resolved in decided:
                if self._submitted:
                    self._finish(entry.requests(), resolved.outcomes)
        if not self._was_ready and self.is_ready:
            self._was_ready = True
            # Before anybody goes on who waited for the state: he may plan now, by what memory says.
            self.on_ready(self)
            self.on_leader()
        if self._reaching:
            self._reaching.release(self._position.applied_index)
        return True

    def _reach(self, position: Position) -> None:
        self._position = position
        _, term, self._applied_ts = position
        self.is_ready = self._leads and term == self._term

    def change_role(self, role: str, term: int, leader: int = 0) -> None:
        self.leader = leader
        leads = role == LEADER
        if (leads, term) != (self._leads, self._term):
            had_lead, self._leads, self._term = self._leads, False, term
            self.is_ready = False
            self._judge.doubt(self._position)
            self._refused_until_ns = 0
            # A read changes nothing: whoever leads now may answer it.
            self.reads.fail_all(NotLed("the group has another leader"))
            self.reads.change_role(role, term)
            if had_lead:
                self._lose()
            if leads:
                self._lead()
        self.on_leader()

    def _lead(self) -> None:
        self._leads = True
        self.is_ready = self._position.term == self._term
        self._clock.lead(self._position.commit_ts)
        for observer in tuple(self._leading_observers):
            observer()

    def _lose(self) -> None:
        """What no entry has taken will never be in the log; of the rest nobody knows."""
        self._was_ready = False
        self.on_lost(self)
        untaken, self._gathered = self._gathered, []
        self._fail(map(_request_of, untaken), NotLed("the group has another leader"))
        self._fail(list(self._submitted), Unsettled("the group lost its leader"))

    def replaced(self) -> None:
        """The engine holds another state, which is a snapshot of the group's leader."""
        assert not self._leads, "a leader needs no snapshot"
        self._undecided.clear()
        self._decided = None
        self._is_disk_full = False
        self.head_rows = HeadRows(self._engine)
        self._reach(load_position(self._engine))
        self._judge = Judge(self._engine, self._position)
        self._clock.observe(self._position.commit_ts)
        self.on_lost(self)
        self._reaching.release(self._position.applied_index)

    def observe_leading(self, observer: Callable[[], None]) -> Callable[[], None]:
        """Called whenever this node takes the lead, within a turn; the result ends that."""
        self._leading_observers.append(observer)
        return lambda: self._leading_observers.remove(observer)

    def take_burden(self) -> tuple[int, int]:
        """Places freed since the last call, and the milliseconds that the oldest holder waits."""
        freed, self._freed = self._freed, 0
        now = self.now() if self._submitted else 0
        oldest = next((commit_ts for *_, commit_ts in self._submitted.values()), now)
        return freed, milliseconds_of(now) - milliseconds_of(oldest)

    @property
    def is_waiting(self) -> bool:
        return self.latches.has_waiters

    def tick(self) -> None:
        for suspension in self.latches.tick():
            suspension.fail(Overloaded("another call was not applied in time"))

    def _finish(self, requests: list[bytes], outcomes: list[Outcome]) -> None:
        """Handlers go on in the order of the log, so leader memory follows the applied state."""
        waiting: list[Suspension] = []
        unfinished, latches, backlog = self._submitted, self.latches, self.backlog
        waited_for, held = latches.waiting, latches.held
        assert len(requests) == len(outcomes), "an outcome for each transaction"
        for at, request in enumerate(requests):
            outcome, submitted = outcomes[at], unfinished.pop(request, None)
            if submitted is None:
                continue
            owner, latched, places, _ = submitted
            backlog.room += places
            self._freed += places
            if waited_for:
                waiting += latches.release((*latched, request))
            elif latched:
                held.difference_update(latched)
            if outcome[0] == APPLIED:
                owner.resume(outcome)
            else:
                self.refused[outcome[0]] += 1
                # Of a duplicate the next plan finds what has landed.
                owner.fail(PlanAgain("the state changed under the plan"))
        for suspension in waiting:
            suspension.resume()

    def _fail(self, requests: Iterable[bytes], error: OperationError) -> None:
        waiting: list[Suspension] = []
        for request in requests:
            owner, latched, places, _ = self._submitted.pop(request)
            self.backlog.room += places
            waiting += self.latches.release((*latched, request))
            owner.fail(error)
        for suspension in waiting:
            suspension.resume()
