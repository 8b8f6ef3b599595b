"""What committed entries do, judged in the order of the log; an entry that is still on its way to
the disk is judged ahead.

To judge ahead is a guess, and never more: nobody is told, nothing is written, and what comes of it
counts only if that very entry is the next one that is committed. After a wrong guess, and whenever
somebody else may lead, the resolver is read again from the applied state.
"""

from collections.abc import Sequence
from typing import NamedTuple

from fastnode.native import Resolver
from fastnode.store.apply import Decided, Position, decide, fill_rows, load_resolver
from fastnode.store.engine import Batch, Engine
from fastnode.store.heads import HeadRows


class Ruling(NamedTuple):
    """What entries do, where they lead to, and the batch that does it, if it is filled."""

    decided: list[Decided]
    position: Position
    batch: Batch | None = None


class _Guess(NamedTuple):
    entry: bytes
    decided: list[Decided]
    batch: Batch | None
    head_rows: HeadRows


class Judge:
    __slots__ = ("_engine", "_flying", "_guess", "_last", "resolver")

    def __init__(self, engine: Engine, position: Position) -> None:
        self._engine = engine
        # Entries that were proposed and are not committed yet, and the last of them.
        self._flying = 0
        self._last = b""
        self._guess: _Guess | None = None
        self.resolver: Resolver = load_resolver(engine, position)

    def proposed(self, entry: bytes) -> None:
        self._flying += 1
        self._last = entry

    def refused(self) -> None:
        """The last one did not enter the log."""
        self._flying -= 1
        self._last = b""

    def look_ahead(self, head_rows: HeadRows) -> Sequence[Decided]:
        """Everything that was committed is applied; of what comes, only the next one can be judged
        by that. What was judged, if anything was.
        """
        if self._flying != 1 or not self._last or self._guess is not None:
            return ()
        decided, batch = decide(self.resolver, (self._last,)), self._engine.batch()
        has_dropped = fill_rows(self._engine, batch, decided, head_rows)
        # Whoever drops a range makes memory forget, and it may remember again until then.
        filled = None if has_dropped else batch
        self._guess = _Guess(self._last, decided, filled, head_rows)
        return decided

    def rule(self, before: Position, index: int, term: int, entries: Sequence[bytes]) -> Ruling:
        """Entries up to `index` are committed; what was before them is applied."""
        if not entries:
            return Ruling([], Position(index, term, before.commit_ts))
        self._flying = max(self._flying - len(entries), 0)
        if not self._flying:
            # It may be large.
            self._last = b""
        guess = self._guess
        if guess is not None and guess.entry != entries[0]:
            self._take_back(guess, before)
            guess = None
        self._guess = None
        if guess is None:
            decided, batch = decide(self.resolver, entries), None
        elif len(entries) == 1:
            decided, batch = guess.decided, guess.batch
        else:
            decided, batch = guess.decided + decide(self.resolver, entries[1:]), None
        return Ruling(decided, Position(index, term, self.resolver.last_commit_ts), batch)

    def doubt(self, applied: Position) -> None:
        """Whoever leads now, other entries may come."""
        self._flying, self._last = 0, b""
        guess, self._guess = self._guess, None
        if guess is not None:
            self._take_back(guess, applied)

    def _take_back(self, guess: _Guess, applied: Position) -> None:
        guess.head_rows.unplan()
        self.resolver = load_resolver(self._engine, applied)
