"""A receive that waits on the short way does what one on the long way does: the same bytes and the
same state, at the same moment.
"""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fastnode.queue import api
from tests.unit.http.handout_front import HANDLE, NUMBERED, URL, Front, post
from tests.unit.http.http_fakes import FakeTransport

CALL: Final = (b"amz-sdk-invocation-id: 1", b"amz-sdk-request: attempt=1")
AGAIN: Final = (b"amz-sdk-invocation-id: 1", b"amz-sdk-request: attempt=2")
PICKS: Final = st.integers(0, 9)


class Polls:
    """Receives that wait, each on a connection of its own."""

    def __init__(self, *, uses_lane: bool, suffix: str = "") -> None:
        self.front = Front(uses_lane=uses_lane, suffix=suffix)
        self.transports: list[FakeTransport] = []

    @property
    def answers(self) -> list[bytes]:
        return [NUMBERED.sub(b"", one.written) for one in self.transports]

    @property
    def counts(self) -> list[int | None]:
        """How many messages each got; None: it still waits."""
        return [len(HANDLE.findall(one)) if one else None for one in self.answers]

    def poll(self, seconds: int | None, limit: int, headers: tuple[bytes, ...] = ()) -> None:
        connection, transport = self.front.node.connect()
        self.transports.append(transport)
        members = {"QueueUrl": self.front.url, "MaxNumberOfMessages": limit}
        asked = members | ({} if seconds is None else {"WaitTimeSeconds": seconds})
        connection.data_received(post("ReceiveMessage", *headers, **asked))

    def hang_up(self, pick: int) -> None:
        if self.transports:
            self.transports[pick % len(self.transports)].connection.connection_lost(None)

    def send(self, count: int) -> None:
        """All in one entry."""
        for _ in range(count):
            number = next(self.front._sent)
            sent = api.SendMessageRequest(self.front.url, f"m{number}")
            if self.front.is_fifo:
                ids = {"message_group_id": f"g{number % 3}"}
                sent = replace(sent, **ids, message_deduplication_id=str(number))
            self.front.world.begin("SendMessage", sent)
        self.front.world.commit()

    def send_delayed(self) -> None:
        self.front.world.send(URL, "later", 1)

    def send_fair(self) -> None:
        sent = api.SendMessageRequest(URL, "m", message_group_id="tenant")
        self.front.world.call("SendMessage", sent)

    def commit(self) -> None:
        self.front.world.commit()

    def advance(self, milliseconds: int) -> None:
        self.commit()
        self.front.world.advance(milliseconds)

    def delete(self, pick: int) -> None:
        handles = HANDLE.findall(b"".join(self.answers))
        if handles:
            handle = handles[pick % len(handles)].decode()
            self.front.ask("DeleteMessage", ReceiptHandle=handle)

    def show(self, pick: int) -> None:
        handles = HANDLE.findall(b"".join(self.answers))
        if handles:
            handle = handles[pick % len(handles)].decode()
            members = {"ReceiptHandle": handle, "VisibilityTimeout": 0}
            self.front.ask("ChangeMessageVisibility", **members)

    def attributes(self, wait_seconds: int) -> None:
        members = {"ReceiveMessageWaitTimeSeconds": str(wait_seconds), "VisibilityTimeout": "2"}
        self.front.ask("SetQueueAttributes", Attributes=members)

    def purge(self) -> None:
        self.front.ask("PurgeQueue")

    def remove(self) -> None:
        self.front.ask("DeleteQueue")


STEPS: Final = (
    *[
        st.tuples(
            st.just("poll"),
            st.sampled_from([None, 0, 1, 2, 20]),
            st.sampled_from([1, 3, 10]),
            st.sampled_from([(), (), (), CALL, AGAIN]),
        )
    ]
    * 3,
    *[st.tuples(st.just("send"), st.integers(1, 12))] * 2,
    st.tuples(st.just("hang_up"), PICKS),
    st.tuples(st.just("commit")),
    st.tuples(st.just("advance"), st.sampled_from([1, 999, 1_000, 2_001, 21_000])),
    st.tuples(st.just("delete"), PICKS),
    st.tuples(st.just("show"), PICKS),
    st.tuples(st.just("attributes"), st.sampled_from([0, 2])),
    st.tuples(st.just("purge")),
)
STANDARD: Final = (st.tuples(st.just("send_delayed")), st.tuples(st.just("send_fair")))


def compare(suffix: str, steps: list[tuple[Any, ...]]) -> None:
    pair = [Polls(uses_lane=uses_lane, suffix=suffix) for uses_lane in (True, False)]
    for polls in pair:
        for name, *arguments in steps:
            getattr(polls, name)(*arguments)
    short, long = pair
    assert long.front.lane_uses == 0
    assert short.answers == long.answers
    assert short.front.rows() == long.front.rows()


@given(st.lists(st.one_of(*STEPS, *STANDARD), max_size=14), st.booleans())
def test_both_ways_wait_alike(steps: list[tuple[Any, ...]], is_removed: bool) -> None:
    end = [("remove",), ("advance", 21_000)] if is_removed else []
    compare("", steps + end)


@given(st.lists(st.one_of(*STEPS), max_size=14))
def test_both_ways_wait_alike_for_groups(steps: list[tuple[Any, ...]]) -> None:
    compare(".fifo", steps)


# --- what the short way itself owes ---------------------------------------------------------------


@pytest.fixture(params=["", ".fifo"])
def polls(request: pytest.FixtureRequest) -> Polls:
    made = Polls(uses_lane=True, suffix=request.param)
    # The first call finds a queue that is not in memory yet, and takes the long way.
    made.front.receive()
    return made


def test_messages_that_are_applied_together_go_to_one_receive(polls: Polls) -> None:
    for _ in range(3):
        polls.poll(20, 10)
    polls.send(3)
    assert polls.front.lane_uses == 3
    assert polls.counts == [3, None, None]


def test_what_is_too_much_for_one_receive_goes_to_the_next(polls: Polls) -> None:
    for _ in range(3):
        polls.poll(20, 2)
    polls.send(3)
    assert polls.counts == [2, 1, None]


def test_a_wait_ends_in_time_and_empty(polls: Polls) -> None:
    polls.poll(2, 10)
    polls.advance(1_999)
    assert polls.counts == [None]
    polls.advance(1)
    assert polls.counts == [0]


def test_a_wait_that_was_in_vain_goes_on_for_the_rest_of_its_time(polls: Polls) -> None:
    """A message that has become too old comes back, and the long way finds nothing else."""
    polls.send(1)
    polls.front.receive(VisibilityTimeout=70)
    polls.advance(65_000)
    polls.poll(20, 10)
    polls.advance(19_999)
    assert polls.front.world.counts(polls.front.url) == (0, 0, 0)
    assert polls.counts == [None]
    polls.advance(1)
    assert polls.counts == [0]


def test_a_client_that_goes_leaves_its_message_to_the_next(polls: Polls) -> None:
    polls.poll(20, 10)
    polls.poll(20, 10)
    polls.hang_up(0)
    (queue,) = [one for one in polls.front.world.service.live_queues() if one.waiters]
    queue.waiters.next_deadline_ms()  # forgets who has left
    assert len(queue.waiters) == 1
    polls.send(1)
    assert polls.counts[1] == 1


def test_a_client_that_repeats_its_call_has_left_the_first_wait(polls: Polls) -> None:
    polls.poll(20, 10, CALL)
    polls.poll(20, 10, AGAIN)
    assert polls.counts == [0, None]
    polls.send(1)
    assert polls.counts == [0, 1]
    assert not polls.front.world.service.polls._calls


def test_a_message_that_waited_for_its_time_wakes(polls: Polls) -> None:
    polls.send(1)
    polls.poll(0, 10)
    polls.commit()
    polls.poll(20, 10)
    polls.show(0)
    polls.commit()
    assert polls.counts == [1, 1]


def test_a_queue_that_is_deleted_ends_the_wait(polls: Polls) -> None:
    polls.poll(20, 10)
    polls.remove()
    assert polls.counts == [0]


def test_a_node_that_stops_ends_the_wait(polls: Polls) -> None:
    polls.poll(20, 10)
    polls.front.world.service.end_polls()
    assert polls.counts == [0]
