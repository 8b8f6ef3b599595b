"""Which answers of a receive are right: nobody else's message, nothing that is gone, nothing out of
order, and not nothing when there is something.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.model.queues import NS_PER_SECOND, Delivery, Message, Model, QueueModel
from tests.model.spans import Span, Violation

# How long after it can be delivered a message may be missed by somebody who waits for it.
PROMPT_NS = NS_PER_SECOND
# A receive that takes so much longer than it waits was perhaps carried out twice.
TROUBLE_NS = NS_PER_SECOND // 5
# So long after a call was answered an attempt that was left before may arrive.
LATE_NS = 7 * NS_PER_SECOND


class Asked(NamedTuple):
    """What a receive asked for, how many attempts the call had, and when the last one began."""

    limit: int
    seconds: int
    waited: int
    attempts: int
    tried_ns: int


class Receives:
    """Judges receives of the queues of a model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        # Who led when each began that is not answered yet.
        self._leads: dict[Span, object] = {}

    def begin(self, queue: str, at: int, seconds: int) -> Span:
        span = Span(at)
        self._leads[span] = self._model.leaderships()
        self._model.queues[queue].receives.append((span, seconds * NS_PER_SECOND))
        return span

    def ended(
        self,
        queue: str,
        span: Span,
        at: int,
        answers: Sequence[dict[str, Any]],
        asked: "Asked",
    ) -> None:
        span.succeed(at)
        home, hidden_ns = self._model.queues[queue], asked.seconds * NS_PER_SECOND
        is_late = at - span.began > asked.waited * NS_PER_SECOND + TROUBLE_NS
        # Then a node may have repeated it, however long it was to wait.
        has_lost_lead = self._leads.pop(span) != self._model.leaderships()
        if asked.attempts > 1 or is_late or has_lost_lead:
            home.troubled.append(span)
        if len(answers) > asked.limit:
            raise Violation(f"{len(answers)} messages, {asked.limit} were asked for")
        seen: list[Message] = []
        for answer in answers:
            message = self._identify(home, answer)
            is_one = not self._model.may_be_doubled(message)
            if message in seen and is_one:
                raise Violation(f"{message.token} is twice in one answer")
            if is_one:
                self._check_alive(home, message, span)
                self._check_alone(home, message, span, hidden_ns)
                self._check_count(home, message, span, answer, asked.attempts)
                self._check_stamp(home, message, span, answer)
            if home.kind.is_fifo and not home.is_redriven:
                self._check_order(home, message, seen, span)
            seen.append(message)
        for message, answer in zip(seen, answers, strict=True):
            handle = answer["ReceiptHandle"]
            delivery = Delivery(home, span, handle, hidden_ns)
            # Changes that are under way may be of this delivery's time.
            delivery.changes = _open_changes(message, span)
            message.deliveries.append(delivery)
            self._model.handles[handle] = message
        if not answers and home.kind.partitions == 1:
            self._check_nothing_missed(home, span, asked)
        if not answers and asked.attempts > 1:
            home.unheard.append((span, LATE_NS + hidden_ns + self._model.slack_ns))

    # --- one message ----------------------------------------------------------------------------

    def _identify(self, home: QueueModel, answer: dict[str, Any]) -> Message:
        body, token = answer["Body"], answer["Body"].partition(" ")[0]
        message = self._model.by_token.get(token)
        if message is None or message.home not in home.family:
            raise Violation(f"{home.name} delivers {token!r}, which nobody sent to it")
        if hashlib.md5(body.encode()).hexdigest() != answer["MD5OfBody"]:
            raise Violation(f"{token}: the digest is not that of the body")
        self._model._check_id(message, answer["MessageId"])
        if home is not message.home:
            message.has_moved = True
        known = self._model.handles.get(answer["ReceiptHandle"])
        if known is not None:
            raise Violation(f"{token}: the receipt handle was given out before")
        return message

    def _check_alive(self, home: QueueModel, message: Message, span: Span) -> None:
        if not message.may_exist_at(span.ended):
            raise Violation(f"{message.token} was refused, and is delivered")
        available = message.first_began + message.delay_ns
        if span.ended + self._model.slack_ns < available and not message.has_moved:
            raise Violation(f"{message.token} is delivered before its delay is over")
        for queue, delete in message.deletes:
            if queue is home and delete.is_surely_before(span.began) and not home.is_redriven:
                raise Violation(f"{message.token} was deleted, and is delivered again")
        for wipe in home.wipes:
            # A dead letter that was moved back may never have been seen elsewhere.
            has_moved = message.has_moved or home.is_redriven
            was_there = message.is_surely_older(wipe) and not has_moved
            if was_there and wipe.is_surely_before(span.began) and message.home is home:
                raise Violation(f"{message.token} was purged, and is delivered again")

    def _check_alone(self, home: QueueModel, message: Message, span: Span, hidden_ns: int) -> None:
        """Of two deliveries one is the first, and the other comes when its time is over."""
        slack_ns = self._model.slack_ns
        for other in message.deliveries:
            if other.queue is not home or other.may_be_over_by(span.ended, slack_ns):
                continue
            if _may_be_stored_anew(home, message, other.span, span):
                continue
            is_other_first = other.span.ended < span.began
            if is_other_first or other.span.ended + slack_ns < span.began + hidden_ns:
                raise Violation(
                    f"{message.token} is delivered while somebody else has it: "
                    f"taken between {_text(other.span)} for {other.hidden_ns / 1e9:g} s, "
                    f"delivered between {_text(span)}"
                )

    def _check_count(
        self,
        home: QueueModel,
        message: Message,
        span: Span,
        answer: dict[str, Any],
        attempts: int,
    ) -> None:
        """At most as often as there were receives. What went wrong may have cost any number: a node
        that repeats a call takes anew what it lost, and so does the client.
        """
        count = int(answer.get("Attributes", {}).get("ApproximateReceiveCount", 0))
        if home is message.home:
            message.receive_count = max(message.receive_count, count)
        if not count or message.has_moved or home.is_redriven:
            return
        before = [one for one in message.deliveries if one.span.is_surely_before(span.began)]
        maybe = [one for one, _ in home.receives if one is not span and one.began <= span.ended]
        unknown = [one for one in maybe if not one.is_sure]
        overlapping = [one for one in message.deliveries if one not in before]
        most = attempts + len(before) + len(overlapping) + len(unknown)
        if count < 1 + len(before) or (self._model.is_calm and count > most):
            raise Violation(f"{message.token} was received {len(before)} times, not {count - 1}")

    def _check_stamp(
        self, home: QueueModel, message: Message, span: Span, answer: dict[str, Any]
    ) -> None:
        """Whatever clocks say, a queue's time does not go back; each partition has its own."""
        if message.has_moved or home.is_redriven or home.kind.partitions > 1:
            return
        message.stamped_ms = int(answer["Attributes"]["SentTimestamp"])
        for other in home.messages.values():
            if not other.stamped_ms or other.stamped_ms == message.stamped_ms:
                continue
            early, late = sorted((message, other), key=lambda one: one.stamped_ms)
            is_anew = _may_be_stored_anew(home, late, late.sends[0], span)
            if late.sent_at < early.first_began and not is_anew:
                raise Violation(f"{early.token} was sent after {late.token}, and is older")

    def _check_order(
        self, home: QueueModel, message: Message, seen: Sequence[Message], span: Span
    ) -> None:
        """Whatever is before it in its group comes before it, or is gone."""
        for other in home.messages.values():
            if other is message or other.group != message.group or message.has_moved:
                continue
            is_before = 0 < other.sequence < message.sequence
            may_be_gone = other.may_be_deleted_by(span.ended) or may_have_moved(other, span)
            is_there = other.sent_at < span.began and not may_be_gone
            if is_before and is_there and other not in seen:
                raise Violation(f"{message.token} overtakes {other.token} of its group")
            if other in seen and 0 < message.sequence < other.sequence:
                raise Violation(f"{message.token} comes behind {other.token} in one answer")

    # --- none -----------------------------------------------------------------------------------

    def _check_nothing_missed(self, home: QueueModel, span: Span, asked: Asked) -> None:
        """A message that was available all the time, or early enough for somebody who waited. An
        answer that is late to end a wait is of a node that stood still, and has not looked since.
        So is one of a node that stood still until the end and has lost its lead: that ends a wait.
        """
        over = asked.tried_ns + asked.waited * NS_PER_SECOND
        if asked.waited and span.ended > over + PROMPT_NS:
            return
        over = min(span.ended, over)
        by_then = span.began if not asked.waited else over - PROMPT_NS
        if asked.waited and self._model.has_stood_still(by_then, over - TROUBLE_NS):
            return
        for message in home.messages.values():
            if self._is_surely_available(home, message, span, by_then):
                raise Violation(f"{message.token} was available, and the receive found nothing")

    def _is_surely_available(
        self, home: QueueModel, message: Message, span: Span, by_then: int
    ) -> bool:
        if home.is_redriven or message.has_moved or message.home is not home:
            return False
        if not message.is_surely_there(by_then, span.ended) or may_have_moved(message, span):
            return False
        if message.sent_at + message.delay_ns + self._model.slack_ns >= by_then:
            return False
        if home.kind.is_fifo and self._may_be_locked(home, message, span):
            return False
        if self._may_be_forgotten(home, message, by_then):
            return False
        # Nothing has landed, so an attempt that comes late takes what there is, for nobody.
        if any(one.ended + late_ns >= by_then for one, late_ns in home.unheard):
            return False
        return not may_be_hidden(home, message, span, by_then, self._model.slack_ns)

    def _may_be_forgotten(self, home: QueueModel, message: Message, by_then: int) -> bool:
        """Whether an attempt whose answer was lost may still have what a later one did not get: if
        the two were not known to be one call, or if somebody touched another of its messages
        meanwhile. Then the later one is a new receive, and what is left stays hidden.
        """
        slack_ns, is_unknown = self._model.slack_ns, self._model.may_forget_retries()
        return any(
            is_unknown or (message.may_exist_at(one.ended) and may_be_touched(home, one, slack_ns))
            for one, hidden_ns in home.receives
            if one in home.troubled and one.ended + hidden_ns + slack_ns >= by_then
        )

    def _may_be_locked(self, home: QueueModel, message: Message, span: Span) -> bool:
        """By one of its group that somebody has; dead letters of other queues are of it too."""
        messages = [one for queue in home.family for one in queue.messages.values()]
        group = [one for one in messages if one.group == message.group]
        return any(
            one.deliveries and not one.is_surely_gone(span.began)
            for one in group
            if one is not message
        ) or bool(message.deliveries)


def may_be_hidden(
    home: QueueModel, message: Message, span: Span, by_then: int, slack_ns: int
) -> bool:
    """Whether anybody may have taken it, until after `by_then`."""
    for delivery in message.deliveries:
        if delivery.span.ended + delivery.hidden_ns + slack_ns >= by_then or delivery.changes:
            return True
    for other, _ in home.receives:
        # Whoever got no answer, or was answered after this one, may have it.
        if other is not span and not other.is_void and other.began <= span.ended:
            if not other.is_sure or other.ended >= by_then:
                return True
    return False


def may_be_touched(home: QueueModel, span: Span, slack_ns: int) -> bool:
    """Whether a message that a receive may have taken may be deleted or changed since it began."""
    messages = [one for queue in home.family for one in queue.messages.values()]
    return any(
        one.may_be_touched(home, span) and not is_surely_taken(home, one, span, slack_ns)
        for one in messages
    )


def is_surely_taken(home: QueueModel, message: Message, span: Span, slack_ns: int) -> bool:
    """Whether somebody else has it all the time."""
    return any(
        one.queue is home
        and one.span.ended < span.began
        and not one.may_be_over_by(span.ended, slack_ns)
        for one in message.deliveries
    )


def may_have_moved(message: Message, span: Span) -> bool:
    """Whether so many receives may have taken it that it is a dead letter."""
    home = message.home
    if not home.kind.receives_max:
        return message.has_moved
    known = max(len(message.deliveries), message.receive_count)
    unknown = sum(not one.is_sure and one.began <= span.ended for one, _ in home.receives)
    return message.has_moved or known + unknown + len(home.troubled) >= home.kind.receives_max


def _may_be_stored_anew(home: QueueModel, message: Message, one: Span, other: Span) -> bool:
    """Whether the queue may have been wiped between the two, and a send of the same deduplication
    id have stored another message.
    """
    wipes = [wipe for wipe in home.wipes if wipe.may_be_before(other.ended)]
    between = [wipe for wipe in wipes if wipe.ended > one.began]
    return any(not message.is_surely_older(wipe) for wipe in between)


def _open_changes(message: Message, span: Span) -> list[Span]:
    changes = {id(one): one for each in message.deliveries for one in each.changes}
    return [one for one in changes.values() if one.ended >= span.began and not one.is_void]


def _text(span: Span) -> str:
    return f"{span.began / 1e9:.3f} and {span.ended / 1e9:.3f}"
