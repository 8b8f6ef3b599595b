"""A FIFO queue as the contract describes it, with lists and dicts: slow, obvious, no storage.

Moments are microseconds, so that what one call causes in a millisecond can be told apart from what
it found. A call that is begun and not yet committed has its messages *busy*: nobody else gets them,
and what it does shows only when it is committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

MS = 1_000
SECOND = 1_000 * MS
WINDOW = 300 * SECOND


@dataclass(eq=False)
class Message:
    """`due` is when it is visible (again): None until its first receive."""

    body: str
    group: str
    dedup_id: str
    sent: int
    message_id: str = ""
    number: str = ""
    due: int | None = None
    receives: int = 0
    handle: str = ""
    is_gone: bool = False


@dataclass
class Attempt:
    began: int
    due: int
    handles: list[tuple[Message, str]]


@dataclass
class Chosen:
    delivered: list[Message] = field(default_factory=list)
    expired: list[Message] = field(default_factory=list)


class FifoModel:
    partition_count = 1

    def __init__(self, delay: int, retention: int, *, dedup_per_group: bool) -> None:
        self.delay = delay
        self.retention = retention
        self._dedup_per_group = dedup_per_group
        self.messages: list[Message] = []
        self._accepted: dict[tuple[str, str], Message] = {}
        self.attempts: dict[str, Attempt] = {}
        self.busy: set[Message] = set()
        self.busy_groups: set[str] = set()
        self.busy_keys: set[tuple[str, str]] = set()
        self.busy_attempts: set[str] = set()

    def settle(self) -> None:
        """Everything that was begun is through."""
        for names in (self.busy, self.busy_groups, self.busy_keys, self.busy_attempts):
            names.clear()

    def place(self, _group: str) -> int:
        """The partition of a message group."""
        return 0

    # --- what one message is ---------------------------------------------------------------------

    def available(self, message: Message) -> int:
        return message.sent + self.delay if message.due is None else message.due

    def is_visible(self, message: Message, now: int) -> bool:
        return self.available(message) <= now and message not in self.busy

    def is_expired(self, message: Message, now: int) -> bool:
        return message.sent + self.retention <= now

    def is_good(self, message: Message, handle: str, now: int) -> bool:
        """Whether the handle still holds the message."""
        return handle == message.handle and message.due is not None and message.due > now

    # --- delivery: the contract, section 6.2 -----------------------------------------------------

    def choose(self, now: int, limit: int) -> Chosen:
        return self.choose_among(self.messages, now, limit)

    def choose_among(self, messages: Sequence[Message], now: int, limit: int) -> Chosen:
        groups: dict[str, list[Message]] = {}
        for message in messages:  # 1. each group in sequence order
            groups.setdefault(message.group, []).append(message)
        prefixes = [  # 2. the longest prefix without an invisible message
            list(takewhile(lambda each: self.is_visible(each, now), members))
            for group, members in groups.items()
            if group not in self.busy_groups
        ]
        ready = [prefix for prefix in prefixes if prefix]
        # 3. by the moment their head became visible, then by sequence
        ready.sort(key=lambda prefix: (self.available(prefix[0]), prefix[0].number))
        chosen = Chosen()
        for message in (each for prefix in ready for each in prefix):  # 4. group by group
            if len(chosen.delivered) == limit:
                break
            is_expired = self.is_expired(message, now)
            (chosen.expired if is_expired else chosen.delivered).append(message)
        return chosen

    def next_due(self) -> int | None:
        """When the next group delivers something, or has been able to."""
        heads: dict[str, Message] = {}
        for message in self.messages:
            heads.setdefault(message.group, message)
        return min((self.available(head) for head in heads.values()), default=None)

    def repeated(self, attempt_id: str, now: int) -> Attempt | None:
        """What an earlier receive took, if a repetition gives it again."""
        attempt = self.attempts.get(attempt_id)
        if attempt is None or now // MS - attempt.began // MS >= WINDOW // MS or attempt.due <= now:
            return None
        is_same = all(self.is_untouched(attempt, *taken) for taken in attempt.handles)
        return attempt if is_same else None

    def is_untouched(self, attempt: Attempt, message: Message, handle: str) -> bool:
        is_same = message.handle == handle and message.due == attempt.due
        return is_same and not message.is_gone and message not in self.busy

    def forget_attempts(self, now: int) -> None:
        for attempt_id, attempt in list(self.attempts.items()):
            if now // MS - attempt.began // MS > WINDOW // MS:
                del self.attempts[attempt_id]

    # --- deduplication: the contract, section 6.1 ------------------------------------------------

    def dedup_key(self, group: str, dedup_id: str) -> tuple[str, str]:
        return (group if self._dedup_per_group else "", dedup_id)

    def original(self, group: str, dedup_id: str, now: int) -> Message | None:
        message = self._accepted.get(self.dedup_key(group, dedup_id))
        return message if message is not None and now - message.sent < WINDOW else None

    # --- changes ---------------------------------------------------------------------------------

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self._accepted[self.dedup_key(message.group, message.dedup_id)] = message

    def remove(self, message: Message) -> None:
        message.is_gone = True
        self.messages.remove(message)

    def purge(self) -> None:
        for message in self.messages:
            message.is_gone = True
        self.messages.clear()
        self._accepted.clear()
        self.attempts.clear()

    def counts(self, now: int) -> tuple[int, int, int]:
        """(visible, in flight, delayed)"""
        hidden = [message for message in self.messages if self.available(message) > now]
        in_flight = sum(1 for message in hidden if message.due is not None)
        return len(self.messages) - len(hidden), in_flight, len(hidden) - in_flight
