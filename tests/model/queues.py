"""A queue as a dictionary: what a client may see of it, whatever goes wrong.

Small on purpose. A message is what its sends, deliveries and deletes leave possible; every answer
is judged when it arrives by all that was begun before. An answer that a correct queue could give
passes, any other one is a `Violation`.

Times are those of the client, so the model knows of each effect only between which two moments it
lies (`spans.py`). `slack_ns` is how far the queue's clock may be off.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.model.registers import Register
from tests.model.spans import NEVER, Span, Violation

NS_PER_SECOND = 1_000_000_000


class Kind(NamedTuple):
    """What the model has to know of a queue's attributes."""

    is_fifo: bool = False
    partitions: int = 1
    visibility_seconds: int = 30
    delay_seconds: int = 0
    # 0: it has no dead-letter queue.
    receives_max: int = 0
    # The queue whose dead letters come here.
    source: str = ""


class Delivery:
    """A message in the answer of a receive, and until when nobody else may have it."""

    __slots__ = ("changes", "handle", "hidden_ns", "queue", "span")

    def __init__(self, queue: "QueueModel", span: Span, handle: str, hidden_ns: int) -> None:
        self.queue = queue
        self.span = span
        self.handle = handle
        self.hidden_ns = hidden_ns
        # Attempts to change the timeout through this or any handle of the message end its promise.
        self.changes: list[Span] = []

    def may_be_over_by(self, at: int, slack_ns: int) -> bool:
        """Whether the message can be visible again at that moment."""
        if any(change.may_be_before(at) for change in self.changes):
            return True
        return at + slack_ns >= self.span.began + self.hidden_ns


class Message:
    """`token` is in the body, and in no other one."""

    def __init__(self, token: str, home: "QueueModel", group: str, delay_ns: int) -> None:
        self.token = token
        self.home = home
        self.group = group
        self.delay_ns = delay_ns
        # One, or several of one deduplication id.
        self.sends: list[Span] = []
        self.message_id = ""
        self.sequence = 0
        # When it was sent, as its queue has it.
        self.stamped_ms = 0
        self.deliveries: list[Delivery] = []
        self.deletes: list[tuple[QueueModel, Span]] = []
        # How often it had been received, by the last answer.
        self.receive_count = 0
        # It was seen in another queue than its first.
        self.has_moved = False
        # Its send was answered after several attempts, and retries may not have been recognised.
        self.was_doubted = False

    @property
    def sent_at(self) -> int:
        """When it was surely there; `NEVER` if that is not known."""
        sure = [send.ended for send in self.sends if send.is_sure]
        seen = [delivery.span.ended for delivery in self.deliveries]
        return min(sure + seen, default=NEVER)

    @property
    def first_began(self) -> int:
        return min(send.began for send in self.sends)

    def may_exist_at(self, at: int) -> bool:
        return any(send.may_be_before(at) for send in self.sends)

    def may_be_deleted_by(self, at: int) -> bool:
        if any(delete.may_be_before(at) for _, delete in self.deletes):
            return True
        wipes = [wipe for queue in self.home.family for wipe in queue.wipes]
        return any(wipe.may_be_before(at) for wipe in wipes if wipe.ended > self.first_began)

    def is_surely_gone(self, at: int) -> bool:
        """Whoever deletes or purges it in its first queue when it has left that does nothing."""
        gone_from = [queue for queue, delete in self.deletes if delete.is_surely_before(at)]
        if self.has_moved:
            return any(queue is not self.home for queue in gone_from)
        if gone_from:
            return True
        wipes = [wipe for wipe in self.home.wipes if wipe.is_surely_before(at)]
        return any(self.is_surely_older(wipe) for wipe in wipes)

    def is_surely_older(self, wipe: Span) -> bool:
        """It was there before, and no other send of its deduplication id stores it anew after."""
        sends = [send for send in self.sends if not send.is_void]
        is_settled = len(sends) == 1 or all(send.ended < wipe.began for send in sends)
        return self.sent_at < wipe.began and is_settled

    def may_be_touched(self, home: "QueueModel", span: Span) -> bool:
        """Whether somebody may have deleted it from the queue, or changed its timeout, then."""
        deletes = [delete for queue, delete in self.deletes if queue is home]
        changes = [one for each in self.deliveries if each.queue is home for one in each.changes]
        touches = deletes + changes
        return any(one.may_be_before(span.ended) and one.ended >= span.began for one in touches)

    def is_surely_there(self, since: int, until: int) -> bool:
        return self.sent_at < since and not self.may_be_deleted_by(until)


class QueueModel:
    def __init__(self, name: str, kind: Kind) -> None:
        self.name = name
        self.kind = kind
        self.messages: dict[str, Message] = {}
        # Purges and deletions of the queue.
        self.wipes: list[Span] = []
        self.receives: list[tuple[Span, int]] = []
        # Those among them that may have taken messages which nobody heard of, and then others.
        self.troubled: list[Span] = []
        # Those that were repeated and got nothing, and how long an older attempt may matter.
        self.unheard: list[tuple[Span, int]] = []
        # It and those that exchange messages with it.
        self.family: list[QueueModel] = [self]
        # A move task of the family has begun: messages may come back.
        self.is_redriven = False
        # Told by ListQueueTags and GetQueueAttributes.
        self.tag = Register(f"the tag of {name}")
        self.retention = Register(f"MessageRetentionPeriod of {name}", "345600")


class Model:
    """All queues. `slack_ns` may grow while clocks are set."""

    def __init__(self, slack_ns: int) -> None:
        self.slack_ns = slack_ns
        # Whether a repeated call may have been taken for another one: while a member joins.
        self.may_forget_retries: Callable[[], bool] = lambda: False
        # Whatever changes when somebody else leads.
        self.leaderships: Callable[[], object] = lambda: None
        # Whether a node stood still all the time between, and may have lost its leads by that.
        self.has_stood_still: Callable[[int, int], bool] = lambda _began, _ended: False
        # Nothing goes wrong, so nothing is taken in vain.
        self.is_calm = False
        self.queues: dict[str, QueueModel] = {}
        # Others, which are only asked for.
        self.made: list[QueueModel] = []
        self.by_token: dict[str, Message] = {}
        self.handles: dict[str, Message] = {}
        self._tokens_by_id: dict[str, str] = {}

    def add_queue(self, name: str, kind: Kind) -> QueueModel:
        queue = self.queues[name] = QueueModel(name, kind)
        if kind.source:
            source = self.queues[kind.source]
            queue.family = source.family
            queue.family.append(queue)
        return queue

    # --- sending --------------------------------------------------------------------------------

    def begin_send(
        self, queue: str, token: str, at: int, *, group: str = "", delay_seconds: int | None = None
    ) -> Span:
        home = self.queues[queue]
        message = self.by_token.get(token)
        if message is None:
            delay = home.kind.delay_seconds if delay_seconds is None else delay_seconds
            message = Message(token, home, group, delay * NS_PER_SECOND)
            self.by_token[token] = home.messages[token] = message
        span = Span(at)
        message.sends.append(span)
        return span

    def doubt(self, token: str) -> None:
        """Several attempts, and nobody who knew that they were one call."""
        self.by_token[token].was_doubted = True

    def may_be_doubled(self, message: Message) -> bool:
        """Whether it may be there twice: also by attempts of a send that has no answer yet."""
        is_repeated = any(send.repeats and send.is_open for send in message.sends)
        return message.was_doubted or (is_repeated and self.may_forget_retries())

    def copies_max(self, message: Message) -> int:
        """Each attempt may have stored one."""
        if not self.may_be_doubled(message):
            return 1
        return 1 + sum(send.repeats for send in message.sends)

    def sent(self, token: str, span: Span, at: int, message_id: str, sequence: str | None) -> None:
        span.succeed(at)
        message = self.by_token[token]
        self._check_id(message, message_id)
        if message.home.kind.is_fifo:
            if not sequence:
                raise Violation(f"{token}: a FIFO queue gave no sequence number")
            self._check_sequence(message, int(sequence), span)

    def _check_id(self, message: Message, message_id: str) -> None:
        """One token, one message: a call that is repeated stores nothing twice."""
        # A purge clears what a FIFO queue remembers of deduplication ids, and whoever is redriven
        # is a new message.
        is_other = self.may_be_doubled(message) or message.home.is_redriven
        is_other = is_other or (len(message.sends) > 1 and bool(message.home.wipes))
        if message.message_id not in ("", message_id) and not is_other:
            known = message.message_id
            raise Violation(f"{message.token} was stored twice: as {known} and as {message_id}")
        message.message_id = message_id
        if self._tokens_by_id.setdefault(message_id, message.token) != message.token:
            raise Violation(f"{message_id} is two messages")

    def _check_sequence(self, message: Message, sequence: int, span: Span) -> None:
        if message.sequence not in (0, sequence) and not message.home.wipes:
            raise Violation(f"{message.token} has two sequence numbers")
        message.sequence = sequence
        for other in message.home.messages.values():
            if other is message or other.group != message.group or not other.sequence:
                continue
            if other.sequence == sequence:
                raise Violation(f"{message.token} and {other.token} share a sequence number")
            if other.sequence > sequence and other.sent_at < message.first_began:
                raise Violation(f"{message.token} was sent after {other.token} and stored before")

    # --- deleting -------------------------------------------------------------------------------

    def begin_delete(self, queue: str, handle: str, at: int) -> Span:
        span, message = Span(at), self.handles.get(handle)
        if message is not None:
            message.deletes.append((self.queues[queue], span))
        return span

    def begin_change(self, handle: str, at: int) -> Span:
        """Whatever it changes to: from now on nobody can tell when the message is visible."""
        span, message = Span(at), self.handles.get(handle)
        if message is not None:
            for delivery in message.deliveries:
                delivery.changes.append(span)
        return span

    def begin_wipe(self, queue: str, at: int) -> Span:
        span = Span(at)
        self.queues[queue].wipes.append(span)
        return span

    def begin_move(self, queue: str) -> None:
        for one in self.queues[queue].family:
            one.is_redriven = True

    # --- names ----------------------------------------------------------------------------------

    def check_names(self, prefix: str, urls: Sequence[str]) -> None:
        """All queues with the prefix, and no others; one that was deleted may be there or not."""
        shown = [url.rpartition("/")[2] for url in urls]
        known = {name: queue for name, queue in self.queues.items() if name.startswith(prefix)}
        missing = [name for name, queue in known.items() if name not in shown and not queue.wipes]
        if missing or len(set(shown)) != len(shown) or not known.keys() >= set(shown):
            raise Violation(f"queues that begin with {prefix} are {sorted(known)}, not {shown}")

    # --- counting -------------------------------------------------------------------------------

    def check_count(self, queue: str, began: int, ended: int, shown: int) -> None:
        """Waiting, in flight and delayed together: all that are surely there, none that cannot be.
        What changes queues is in neither for a moment.
        """
        home = self.queues[queue]
        if len(home.family) > 1:
            return
        messages = home.messages.values()
        sure = sum(message.is_surely_there(began, ended) for message in messages)
        gone = sum(message.is_surely_gone(began) for message in messages)
        gone -= sum(self.copies_max(message) - 1 for message in messages)
        possible = sum(message.may_exist_at(ended) for message in messages) - gone
        if not sure <= shown <= possible:
            raise Violation(f"{queue} shows {shown} messages, not {sure} to {possible}")
