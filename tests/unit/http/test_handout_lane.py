"""The short ways of receives and deletes give what the long ways give: the same bytes, the same
state.
"""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.native import FAMILY_COUNTER
from fastnode.queue import api
from fastnode.store.keyspace import COUNT_DELAYED, COUNT_IN_FLIGHT
from tests.unit.http.handout_front import HANDLE, URL, Front, assert_alike, entries
from tests.world import ACCOUNT, ENDPOINT

BODIES: Final = st.lists(
    st.sampled_from(["plain", 'quoted "\\" /', "tab\tline\r\n", "é😀\u2028\x7f", "x" * 700]),
    min_size=1,
    max_size=12,
)
RECEIVES: Final = st.fixed_dictionaries(
    {},
    optional={
        "MaxNumberOfMessages": st.sampled_from([None, 1, 3, 10, 0, 11]),
        "VisibilityTimeout": st.sampled_from([None, 0, 1, 30, -1, 43_201]),
        "WaitTimeSeconds": st.sampled_from([None, 0, 21]),
        "AttributeNames": st.sampled_from([[], ["All"], ["Nonsense"]]),
        "MessageAttributeNames": st.sampled_from([[], ["All"]]),
        "ReceiveRequestAttemptId": st.sampled_from([None, "again"]),
        "QueueUrl": st.sampled_from([URL, "nope", None, f"{ENDPOINT}/{ACCOUNT}/dead"]),
    },
)
# Which of the handles so far, and where an entry differs from what is usual.
PICKS: Final = st.lists(st.integers(0, 30), max_size=11)
IDS: Final = st.sampled_from(["", "e-0", "bad id", "a\nb", "x" * 81])
HEADERS: Final = st.sampled_from(
    [
        *[()] * 4,
        (b"X-Amzn-Trace-Id: Root=1",),
        (b"X-Fastnode-Explain: 1",),
        (b"amz-sdk-invocation-id: 1", b"amz-sdk-request: attempt=1"),
        (b"amz-sdk-invocation-id: 1", b"amz-sdk-request: attempt=2"),
    ]
)
COMMON: Final = (
    st.tuples(st.just("send"), BODIES),
    *[st.tuples(st.just("receive"), RECEIVES, HEADERS, st.booleans())] * 3,
    st.tuples(st.just("receive"), st.just({"MaxNumberOfMessages": 10}), HEADERS, st.booleans()),
    *[st.tuples(st.just("delete_batch"), PICKS, st.none() | IDS, HEADERS, st.booleans())] * 2,
    st.tuples(st.just("delete"), st.integers(0, 30), HEADERS, st.booleans()),
    st.tuples(st.just("change"), st.integers(0, 30), st.sampled_from([0, 5])),
    st.tuples(st.just("advance"), st.sampled_from([1, 1_000, 31_000, 61_000])),
    st.tuples(st.just("purge")),
)
STEPS: Final = st.one_of(
    *COMMON, st.tuples(st.just("send_delayed")), st.tuples(st.just("send_fair"))
)
FIFO_STEPS: Final = st.one_of(*COMMON, st.tuples(st.just("delay"), st.sampled_from([0, 2])))


class Run:
    """The same steps at one front; both fronts learn the same handles."""

    def __init__(self, front: Front) -> None:
        self.front = front

    def _handle(self, pick: int) -> str:
        known = HANDLE.findall(self.front.transport.written)
        return known[pick % len(known)].decode() if known else "none"

    def _ask(self, commits: bool, *arguments: Any, **members: Any) -> None:
        self.front.begin(*arguments, **members)
        if commits:
            self.front.world.commit()

    def step(self, kind: str, *rest: Any) -> None:
        getattr(self, kind)(*rest)

    def send(self, bodies: list[str]) -> None:
        self.front.send(*bodies)

    def send_delayed(self) -> None:
        self.front.world.send(URL, "later", 3)

    def send_fair(self) -> None:
        sent = api.SendMessageRequest(URL, "m", message_group_id="tenant")
        self.front.world.call("SendMessage", sent)

    def delay(self, seconds: int) -> None:
        self.front.ask("SetQueueAttributes", Attributes={"DelaySeconds": str(seconds)})

    def receive(self, members: dict[str, Any], headers: list[bytes], commits: bool) -> None:
        self._ask(commits, "ReceiveMessage", *headers, **members)

    def delete_batch(
        self, picks: list[int], last_id: str | None, headers: list[bytes], commits: bool
    ) -> None:
        made = entries([self._handle(pick) for pick in picks])
        if made and last_id is not None:
            made[-1]["Id"] = last_id
        self._ask(commits, "DeleteMessageBatch", *headers, Entries=made)

    def delete(self, pick: int, headers: list[bytes], commits: bool) -> None:
        self._ask(commits, "DeleteMessage", *headers, ReceiptHandle=self._handle(pick))

    def change(self, pick: int, seconds: int) -> None:
        members = {"ReceiptHandle": self._handle(pick), "VisibilityTimeout": seconds}
        self.front.ask("ChangeMessageVisibility", **members)

    def advance(self, milliseconds: int) -> None:
        self.front.world.commit()
        self.front.world.advance(milliseconds)

    def purge(self) -> None:
        self.front.ask("PurgeQueue")


def compare(suffix: str, bodies: list[str], steps: list[tuple[Any, ...]]) -> None:
    fronts = [Front(uses_lane=uses_lane, suffix=suffix) for uses_lane in (True, False)]
    for front in fronts:
        front.send(*bodies)
        for step in steps:
            Run(front).step(*step)
        front.world.commit()
    assert_alike(*fronts)


@given(BODIES, st.lists(STEPS, max_size=12))
def test_both_ways_answer_and_store_alike(bodies: list[str], steps: list[tuple[Any, ...]]) -> None:
    compare("", bodies, steps)


@given(BODIES, st.lists(FIFO_STEPS, max_size=12))
def test_both_ways_order_alike(bodies: list[str], steps: list[tuple[Any, ...]]) -> None:
    compare(".fifo", bodies, steps)


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_a_life_of_messages_takes_the_short_ways(suffix: str) -> None:
    fronts = [Front(uses_lane=uses_lane, suffix=suffix) for uses_lane in (True, False)]
    for front in fronts:
        front.send(*(f"m{n}" for n in range(25)))
        for count in (10, 10, 5):
            handles = front.receive()
            assert len(handles) == count
            front.ask("DeleteMessage", ReceiptHandle=handles[0])
            front.ask("DeleteMessageBatch", Entries=entries(handles[1:]))
        assert front.world.counts(front.url) == (0, 0, 0)
        # A counter that nothing has changed has no row.
        counters = [key[-1] for key, _ in front.rows() if key.startswith(FAMILY_COUNTER)]
        assert COUNT_IN_FLIGHT in counters and COUNT_DELAYED not in counters
    assert fronts[0].lane_uses == 9
    assert_alike(*fronts)


@pytest.mark.parametrize("is_batch", [True, False])
def test_two_handles_of_one_message_in_a_call(is_batch: bool) -> None:
    for front in (short := Front(uses_lane=True), long := Front(uses_lane=False)):
        front.send("m")
        handle, *_ = front.receive()
        if is_batch:
            front.ask("DeleteMessageBatch", Entries=entries([handle, handle]))
        front.ask("DeleteMessage", ReceiptHandle=handle)
    assert_alike(short, long)


def test_two_deletes_of_one_message_at_once() -> None:
    for front in (short := Front(uses_lane=True), long := Front(uses_lane=False)):
        front.send("m")
        handle, *_ = front.receive()
        front.begin("DeleteMessage", ReceiptHandle=handle)
        front.begin("DeleteMessage", ReceiptHandle=handle)
        front.world.commit()
        front.world.commit()
        assert front.transport.written.count(b"HTTP/1.1 200") == 4
    assert short.lane_uses == 2
    assert_alike(short, long)


def test_what_came_back_is_received_before_what_waits() -> None:
    for front in (short := Front(uses_lane=True), long := Front(uses_lane=False)):
        front.send("a")
        front.receive(VisibilityTimeout=1)
        front.send("b")
        front.world.advance(1_001)
        answers = [front.ask("ReceiveMessage") for _ in range(2)]
        assert [b'"Body":"a"' in answer for answer in answers] == [True, False]
    assert_alike(short, long)


def test_tenants_take_turns_both_ways() -> None:
    for front in (short := Front(uses_lane=True), long := Front(uses_lane=False)):
        front.send("plain", "plain too")
        for tenant in ("loud", "loud", "loud", "quiet"):
            sent = api.SendMessageRequest(URL, tenant, message_group_id=tenant)
            front.world.call("SendMessage", sent)
        for _ in range(6):
            (handle,) = front.receive(MaxNumberOfMessages=1)
            front.ask("DeleteMessage", ReceiptHandle=handle)
    assert_alike(short, long)


@pytest.mark.parametrize("suffix", ["", ".fifo"])
@pytest.mark.parametrize(("milliseconds", "count"), [(59_999, 1), (60_000, 0)])
def test_retention_ends_at_the_same_moment(suffix: str, milliseconds: int, count: int) -> None:
    fronts = [Front(uses_lane=uses_lane, suffix=suffix) for uses_lane in (True, False)]
    for front in fronts:
        front.send("m")
        front.world.advance(milliseconds)
        assert len(front.receive()) == count
    assert_alike(*fronts)


# --- FIFO ----------------------------------------------------------------------------------------


def ordered() -> tuple[Front, Front]:
    return Front(uses_lane=True, suffix=".fifo"), Front(uses_lane=False, suffix=".fifo")


def test_a_group_in_flight_delivers_nothing_until_it_is_deleted() -> None:
    for front in (fronts := ordered()):
        front.send("a", "b", group="g")
        (handle,) = front.receive(MaxNumberOfMessages=1)
        assert front.receive() == []
        front.ask("DeleteMessage", ReceiptHandle=handle)
        assert len(front.receive()) == 1
    # All but the receive that finds nothing.
    assert fronts[0].lane_uses == 3
    assert_alike(*fronts)


@pytest.mark.parametrize(("timeout", "is_good"), [(0, False), (1, False), (9, True)])
def test_a_handle_is_good_until_its_message_is_visible(timeout: int, is_good: bool) -> None:
    for front in (fronts := ordered()):
        front.send("a")
        (handle,) = front.receive(VisibilityTimeout=timeout)
        front.world.advance(1_001)
        answer = front.ask("DeleteMessage", ReceiptHandle=handle)
        assert answer.startswith(b"HTTP/1.1 200") is is_good
    assert_alike(*fronts)


def test_a_delay_of_the_queue_is_kept() -> None:
    for front in (fronts := ordered()):
        front.ask("SetQueueAttributes", Attributes={"DelaySeconds": "2"})
        front.send("a", "b")
        assert front.receive() == []
        front.world.advance(2_001)
        assert len(front.receive()) == 2
    assert_alike(*fronts)


def test_only_the_last_handle_is_good() -> None:
    for front in (fronts := ordered()):
        front.send("a")
        (first,) = front.receive(VisibilityTimeout=1)
        front.world.advance(1_001)
        (second,) = front.receive()
        assert front.ask("DeleteMessage", ReceiptHandle=first).startswith(b"HTTP/1.1 400")
        assert front.ask("DeleteMessage", ReceiptHandle=second).startswith(b"HTTP/1.1 200")
    assert_alike(*fronts)


def test_a_changed_timeout_counts() -> None:
    for front in (fronts := ordered()):
        front.send("a")
        (handle,) = front.receive()
        front.ask("ChangeMessageVisibility", ReceiptHandle=handle, VisibilityTimeout=1)
        front.world.advance(1_001)
        assert front.ask("DeleteMessage", ReceiptHandle=handle).startswith(b"HTTP/1.1 400")
    assert_alike(*fronts)


def test_what_a_failed_receive_took_of_groups_is_available_again() -> None:
    front, _ = ordered()
    front.send("a", "b", "c", "d")
    front.begin("ReceiveMessage", MaxNumberOfMessages=3)
    front.world.refuse()
    assert front.lane_uses == 1
    assert sorted(one.body for one in front.world.receive(front.url)) == ["a", "b", "c", "d"]


def test_a_poll_is_woken_when_a_group_is_free() -> None:
    front, _ = ordered()
    front.send("a", "b", group="g")
    (handle,) = front.receive(MaxNumberOfMessages=1)
    request = api.ReceiveMessageRequest(front.url, wait_time_seconds=20)
    poll = front.world.begin("ReceiveMessage", request)
    front.ask("DeleteMessage", ReceiptHandle=handle)
    assert front.lane_uses == 2
    assert [one.body for one in poll.result.messages] == ["b"]
