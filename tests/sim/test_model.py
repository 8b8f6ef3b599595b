"""What the model lets pass, and what it still does not, where seeds found it too strict."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.model.queues import NS_PER_SECOND, Kind, Model
from tests.model.receives import LATE_NS, Asked, Receives
from tests.model.registers import Register
from tests.model.spans import Span, Violation

MISSED = "was available, and the receive found nothing"
HIDDEN_SECONDS = 5


class Told:
    """A model that is told of calls; whatever is told takes place a tenth of a second later."""

    def __init__(self) -> None:
        self.model = Model(slack_ns=0)
        self._receives = Receives(self.model)
        self._handles = 0
        self._now = NS_PER_SECOND

    def pass_time(self, seconds: float = 0.1) -> int:
        self._now += round(seconds * NS_PER_SECOND)
        return self._now

    def send(self, queue: str, token: str, group: str = "") -> None:
        span = self.model.begin_send(queue, token, self.pass_time(), group=group)
        sequence = str(self._now) if group else None
        self.model.sent(token, span, self.pass_time(), token, sequence)

    def begin_receive(self, queue: str) -> Span:
        return self._receives.begin(queue, self.pass_time(), HIDDEN_SECONDS)

    def end_receive(
        self, queue: str, span: Span, *tokens: str, attempts: int = 1, waited: int = 0
    ) -> str:
        """The handle of the last message, if there is one."""
        answers = [self._message(token) for token in tokens]
        asked = Asked(10, HIDDEN_SECONDS, waited, attempts, span.began)
        self.pass_time()
        self._receives.ended(queue, span, self.pass_time(), answers, asked)
        return f"handle {self._handles}"

    def receive(self, queue: str, *tokens: str) -> str:
        return self.end_receive(queue, self.begin_receive(queue), *tokens)

    def _message(self, token: str) -> dict[str, Any]:
        self._handles += 1
        return {
            "Body": token,
            "MD5OfBody": hashlib.md5(token.encode()).hexdigest(),
            "MessageId": token,
            "ReceiptHandle": f"handle {self._handles}",
            "Attributes": {"SentTimestamp": str(self._now // 1_000_000)},
        }

    def delete(self, queue: str, handle: str) -> None:
        self.model.begin_delete(queue, handle, self.pass_time()).succeed(self.pass_time())

    def change(self, _queue: str, handle: str) -> None:
        self.model.begin_change(handle, self.pass_time()).succeed(self.pass_time())


Touch = Callable[[Told, str, str], None]


def after_two_attempts(
    touch: Touch | None, seconds: float = HIDDEN_SECONDS, attempts: int = 2
) -> Told:
    """Of a receive that got nothing, so long after one of two messages was taken. If that was over,
    the first attempt may have taken both.
    """
    told = Told()
    told.model.add_queue("q", Kind())
    told.send("q", "one")
    handle = told.receive("q", "one")
    told.send("q", "other")
    told.pass_time(seconds)
    span = told.begin_receive("q")
    if touch is not None:
        touch(told, "q", handle)
    if attempts == 1:
        # It was a node that repeated it.
        told.model.leaderships = lambda: 2
    told.end_receive("q", span, attempts=attempts, waited=3 if attempts == 1 else 0)
    return told


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("touch", [Told.delete, Told.change])
def test_a_repeated_receive_may_miss_what_it_took_with_a_touched_message(
    touch: Touch, attempts: int
) -> None:
    told = after_two_attempts(touch, attempts=attempts)
    told.receive("q")
    told.pass_time(HIDDEN_SECONDS + (LATE_NS / NS_PER_SECOND if attempts > 1 else 0))
    with pytest.raises(Violation, match=f"other {MISSED}"):
        told.receive("q")


def test_a_repeated_receive_gets_what_it_took_if_nobody_touched_it() -> None:
    with pytest.raises(Violation, match=MISSED):
        after_two_attempts(None).receive("q")


def test_a_repeated_receive_misses_nothing_because_of_a_message_that_it_cannot_have_taken() -> None:
    with pytest.raises(Violation, match=MISSED):
        after_two_attempts(Told.delete, seconds=1).receive("q")


def test_a_message_that_came_after_a_repeated_receive_is_missed_only_for_a_late_attempt() -> None:
    told = after_two_attempts(Told.delete)
    told.send("q", "late")
    told.receive("q")
    told.pass_time(LATE_NS / NS_PER_SECOND + HIDDEN_SECONDS)
    told.receive("q", "other")
    with pytest.raises(Violation, match=f"late {MISSED}"):
        told.receive("q")


@pytest.mark.parametrize("is_still_at_the_end", [False, True])
def test_a_wait_that_ends_while_its_node_stands_still_may_miss_what_came(
    is_still_at_the_end: bool,
) -> None:
    told = Told()
    told.model.add_queue("q", Kind())
    told.send("q", "one")
    span = told.begin_receive("q")
    still_until = told.pass_time(0) + (3 if is_still_at_the_end else 2) * NS_PER_SECOND
    told.model.has_stood_still = lambda _began, ended: ended <= still_until
    told.pass_time(3)
    if is_still_at_the_end:
        told.end_receive("q", span, waited=3)
    else:
        with pytest.raises(Violation, match=f"one {MISSED}"):
            told.end_receive("q", span, waited=3)


@pytest.mark.parametrize("deleted_from", ["q.fifo", "d.fifo"])
def test_a_dead_letter_locks_its_group_until_it_is_deleted_where_it_is(deleted_from: str) -> None:
    told = Told()
    told.model.add_queue("q.fifo", Kind(is_fifo=True, receives_max=1))
    told.model.add_queue("d.fifo", Kind(is_fifo=True, source="q.fifo"))
    told.send("q.fifo", "dead", "group")
    handles = {queue: told.receive(queue, "dead") for queue in ("q.fifo", "d.fifo")}
    told.send("d.fifo", "next", "group")
    told.delete(deleted_from, handles[deleted_from])
    if deleted_from == "q.fifo":
        told.receive("d.fifo")
    else:
        with pytest.raises(Violation, match=f"next {MISSED}"):
            told.receive("d.fifo")


@pytest.mark.parametrize("is_purged", [False, True])
def test_a_message_that_is_stored_anew_after_a_purge_is_younger_than_it_was(
    is_purged: bool,
) -> None:
    told = Told()
    told.model.add_queue("q.fifo", Kind(is_fifo=True))
    told.send("q.fifo", "one", "group")
    again = told.model.begin_send("q.fifo", "one", told.pass_time(), group="group")
    if is_purged:
        told.model.begin_wipe("q.fifo", told.pass_time()).succeed(told.pass_time())
    told.send("q.fifo", "other", "others")
    told.model.sent("one", again, told.pass_time(), "one", str(told.model.by_token["one"].sequence))
    told.receive("q.fifo", "other")
    if is_purged:
        told.receive("q.fifo", "one")
    else:
        with pytest.raises(Violation, match="other was sent after one, and is older"):
            told.receive("q.fifo", "one")


def changed(*times: tuple[str, int, int]) -> Register:
    """By calls that began and were answered then; those answered at 0 never were."""
    register = Register("it", "new")
    for value, began, ended in times:
        span = register.begin_change(value, began)
        if ended:
            span.succeed(ended)
    return register


@pytest.mark.parametrize(
    ("times", "possible"),
    [
        ([], {"new"}),
        ([("a", 1, 2)], {"a"}),
        ([("a", 1, 2), ("b", 3, 4)], {"b"}),
        ([("a", 1, 3), ("b", 2, 4)], {"a", "b"}),
        ([("a", 1, 0), ("b", 3, 4)], {"a", "b"}),
        ([("a", 1, 2), ("b", 3, 12)], {"a", "b"}),
        ([("a", 1, 12)], {"new", "a"}),
        ([("a", 1, 2), ("late", 21, 22)], {"a"}),
    ],
)
def test_what_was_acknowledged_is_told_or_what_may_have_come_after_it(
    times: list[tuple[str, int, int]], possible: set[str]
) -> None:
    assert changed(*times).possible(10, 20) == possible


def test_another_value_is_told_only_of_a_queue_that_may_have_been_made_anew() -> None:
    register = changed(("a", 1, 2), ("b", 3, 4))
    register.check(10, 20, "b", may_be_new=False)
    register.check(10, 20, "new", may_be_new=True)
    for told, may_be_new in (("new", False), ("a", True)):
        with pytest.raises(Violation, match=f"it is '{told}'"):
            register.check(10, 20, told, may_be_new=may_be_new)


def test_a_change_that_was_refused_is_told_to_nobody() -> None:
    register = changed(("a", 1, 2))
    register.begin_change("b", 3).fail()
    assert register.possible(10, 20) == {"a"}


def test_of_a_send_whose_attempts_are_not_recognised_each_may_have_stored_a_message() -> None:
    told = Told()
    told.model.add_queue("q", Kind())
    told.model.may_forget_retries = lambda: True
    told.model.begin_send("q", "a", told.pass_time()).repeats = 2
    told.model.check_count("q", told.pass_time(), told.pass_time(), 3)
    with pytest.raises(Violation, match="not 0 to 3"):
        told.model.check_count("q", told.pass_time(), told.pass_time(), 4)
