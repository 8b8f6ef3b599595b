"""The short way of a plain send gives what the long way gives: the same bytes, the same state."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.queue import api
from tests.unit.http.lanes import FIRST, URL, Front, compare, message, post
from tests.world import ACCOUNT, ENDPOINT

_TWENTY_DIGITS_END_MS = 10**20 // 512 // 65_536 + 1
NUMBERED = re.compile(rb"request-\d+")


BODIES = st.one_of(
    st.just("plain"),
    st.text(max_size=30),
    st.sampled_from(["", "x" * 1024, "x" * 1025, "é" * 600, "tab\t", "\x00", "\ufffe", "😀"]),
)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "MessageBody": st.one_of(BODIES, st.none(), st.just(5)),
        "QueueUrl": st.sampled_from([URL, "q", f"{ENDPOINT}/{ACCOUNT}/late", "nope", None, 7]),
        "DelaySeconds": st.sampled_from([None, 0, 3, 901]),
        "MessageGroupId": st.sampled_from([None, "tenant", ""]),
        "MessageDeduplicationId": st.sampled_from([None, "d"]),
        "MessageAttributes": st.sampled_from(
            [None, {}, {"a": {"DataType": "String", "StringValue": "v"}}]
        ),
        "Unknown": st.just([1]),
    },
)
HEADERS = st.lists(
    st.sampled_from(
        [b"X-Amzn-Trace-Id: Root=1", b"Origin: http://evil.example", b"Expect: 100-continue"]
    ),
    max_size=1,
)
REQUESTS = st.one_of(
    st.builds(lambda members, headers: post(message(**members), *headers), MEMBERS, HEADERS),
    st.sampled_from(
        [
            post(b"not json"),
            post(b"[]"),
            post(b'{"QueueUrl": "\xff"}'),
            post(message(MessageBody="m"), target=b"ListQueues"),
            post(message(MessageBody="m")).replace(b"-json-1.0", b"-json-1.1"),
            post(message(MessageBody="m")).replace(b"AKID", b"AKIE"),
        ]
    ),
)


SPECIAL = {
    "largest": post(message(MessageBody="x" * 1024)),
    "too large": post(message(MessageBody="x" * 1025)),
    "too large in bytes": post(message(MessageBody="é" * 513)),
    "empty": post(message(MessageBody="")),
    "no body": post(message()),
    "control character": post(message(MessageBody="a\x00")),
    "noncharacter": post(message(MessageBody="\uffff")),
    "line ends": post(message(MessageBody="a\r\n\tb")),
    "delay of the queue": post(message(MessageBody="m", QueueUrl=f"{ENDPOINT}/{ACCOUNT}/late")),
    "fifo": post(message(MessageBody="m", QueueUrl="ordered.fifo")),
    "delay": post(message(MessageBody="m", DelaySeconds=3)),
    "bad delay": post(message(MessageBody="m", DelaySeconds=901)),
    "group": post(message(MessageBody="m", MessageGroupId="tenant")),
    "deduplication": post(message(MessageBody="m", MessageDeduplicationId="d")),
    "attributes": post(
        message(MessageBody="m", MessageAttributes={"a": {"DataType": "N", "StringValue": "v"}})
    ),
    "trace header": post(message(MessageBody="m"), b"X-Amzn-Trace-Id: Root=1"),
    "foreign page": post(message(MessageBody="m"), b"Origin: http://evil.example"),
    "unknown queue": post(message(MessageBody="m", QueueUrl="nope")),
    "bare name": post(message(MessageBody="m", QueueUrl="q")),
    "other caller": post(message(MessageBody="m")).replace(b"AKID", b"AKIE"),
    "other account": post(message(MessageBody="m", QueueUrl="q")).replace(b"AKID", b"111111111111"),
    "other content type": post(message(MessageBody="m")).replace(b"-json-1.0", b"-json-1.1"),
    "other action": post(message(MessageBody="m"), target=b"SendMessages"),
    "not json": post(b"nonsense"),
    "not text": post(b'{"QueueUrl": "\xff"}'),
    "wrong type": post(message(MessageBody=5)),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_both_ways_treat_what_is_special_alike(name: str) -> None:
    # Twice: what the long way learns from the first may open the short way to the second.
    compare([SPECIAL[name], SPECIAL[name]])


def test_both_ways_file_what_follows_a_tenant() -> None:
    compare([SPECIAL["group"], FIRST])


def test_a_message_on_its_way_is_delivered_by_a_queue_that_becomes_fair_meanwhile() -> None:
    front = Front(uses_lane=True)
    front.send(FIRST)
    assert len(front.world.receive(URL)) == 1
    front.connection.data_received(FIRST)
    front.connection.data_received(SPECIAL["group"])
    front.world.commit()
    assert front.lane_uses == 1
    assert sorted(bodies(front)) == ["first", "m"]


@pytest.mark.parametrize("body", [FIRST, b"fifo"])
def test_a_node_that_drains_ends_the_connection_both_ways(body: bytes) -> None:
    short, long = Front(uses_lane=True), Front(uses_lane=False)
    for front in (short, long):
        for draining in (False, True):
            front.node.server.is_draining = draining
            numbered = {"MessageGroupId": "g", "MessageDeduplicationId": str(draining)}
            front.send(fifo_send("strict.fifo", **numbered) if body == b"fifo" else body)
    assert short.lane_uses == 1
    assert short.transport.written == long.transport.written
    assert b"Connection: close" in short.transport.written


def test_an_answer_of_the_short_way_waits_for_an_earlier_one() -> None:
    front = Front(uses_lane=True)
    front.send(FIRST)
    before = len(front.transport.written)
    late = message(QueueUrl=f"{ENDPOINT}/{ACCOUNT}/late", WaitTimeSeconds=20)
    front.send(post(late, target=b"ReceiveMessage") + FIRST)
    assert front.lane_uses == 1
    assert len(front.transport.written) == before
    front.world.advance(20_000)
    receive, _, send = (
        front.transport.written[before:].partition(b"HTTP/1.1 200")[2].partition(b"HTTP/1.1 200")
    )
    assert b"MessageId" in send and b"MessageId" not in receive


# --- FIFO ----------------------------------------------------------------------------------------


FIFO_NAMES = ["ordered.fifo", "strict.fifo", "parts.fifo"]
FIFO_MEMBERS = st.fixed_dictionaries(
    {
        "MessageBody": st.sampled_from(["m", "n", "", "x" * 1025, "\x00", "é"]),
        "QueueUrl": st.sampled_from([f"{ENDPOINT}/{ACCOUNT}/{name}" for name in FIFO_NAMES]),
        "MessageGroupId": st.sampled_from(["a", "b", "customer-17", "", "a b", None]),
    },
    optional={
        "MessageDeduplicationId": st.sampled_from(["1", "2", "", "é", "x" * 129, None]),
        "DelaySeconds": st.sampled_from([None, 0, 3]),
        "MessageAttributes": st.sampled_from(
            [None, {}, {"a": {"DataType": "String", "StringValue": "v"}}]
        ),
    },
)
FIFO_REQUESTS = st.builds(
    lambda members, headers: post(message(**members), *headers), FIFO_MEMBERS, HEADERS
)


@given(st.lists(FIFO_REQUESTS, max_size=8))
def test_both_ways_order_alike(requests: list[bytes]) -> None:
    compare(requests)


@given(st.lists(FIFO_REQUESTS, max_size=8))
def test_both_ways_order_alike_what_is_sent_at_once(requests: list[bytes]) -> None:
    """In one entry of the log: a duplicate of what is not stored yet has to wait for it.

    The short way takes the id of a request later, so they are numbered in another order.
    """
    short, long = Front(uses_lane=True), Front(uses_lane=False)
    for front in (short, long):
        front.send(FIRST)
        front.send(b"".join(requests))
    answers = [NUMBERED.sub(b"", front.transport.written) for front in (short, long)]
    assert answers[0] == answers[1]
    assert short.rows() == long.rows()


def fifo_send(name: str, **members: object) -> bytes:
    url = f"{ENDPOINT}/{ACCOUNT}/{name}"
    return post(message(**({"QueueUrl": url, "MessageBody": "m"} | members)))


@pytest.mark.parametrize("name", FIFO_NAMES)
def test_a_plain_send_to_a_fifo_queue_takes_the_short_way(name: str) -> None:
    ids = [{"MessageGroupId": f"g{n % 3}", "MessageDeduplicationId": str(n)} for n in range(9)]
    front = compare([fifo_send(name, **each) for each in ids])
    # The first request of each queue makes it live.
    assert front.lane_uses == 1 + 8
    assert front.world.counts(f"{ENDPOINT}/{ACCOUNT}/{name}") == (9, 0, 0)


def test_a_duplicate_is_told_the_original_both_ways() -> None:
    same = fifo_send("ordered.fifo", MessageGroupId="g")
    front = compare([same, same, same])
    assert front.lane_uses == 1
    assert front.world.counts(f"{ENDPOINT}/{ACCOUNT}/ordered.fifo") == (1, 0, 0)


def test_sequence_numbers_grow_by_a_digit_both_ways() -> None:
    """In the year 2064."""
    answers: list[bytes] = []
    for uses_lane in (True, False):
        front = Front(uses_lane=uses_lane)
        front.world.advance(_TWENTY_DIGITS_END_MS - front.world.now_ms)
        for number in range(3):
            identity = {"MessageGroupId": "g", "MessageDeduplicationId": str(number)}
            front.send(fifo_send("strict.fifo", **identity))
        assert front.lane_uses == 2 * uses_lane
        answers.append(front.transport.written)
    assert answers[0] == answers[1]
    assert len(re.findall(rb'"SequenceNumber":"[0-9]{21}"', answers[0])) == 3


def test_an_id_is_free_again_both_ways_when_its_window_is_over() -> None:
    same = fifo_send("ordered.fifo", MessageGroupId="g")
    for uses_lane in (True, False):
        front = Front(uses_lane=uses_lane)
        for _ in range(2):
            front.send(FIRST)
            front.send(same)
            front.world.advance(300_001)
        assert front.world.counts(f"{ENDPOINT}/{ACCOUNT}/ordered.fifo") == (2, 0, 0)


@given(st.lists(REQUESTS, max_size=6))
def test_both_ways_answer_and_store_alike(requests: list[bytes]) -> None:
    compare(requests)


def test_a_plain_send_takes_the_short_way_once_it_is_known() -> None:
    front = Front(uses_lane=True)
    for _ in range(5):
        front.send(FIRST)
    assert front.lane_uses == 4
    assert front.world.counts(URL) == (5, 0, 0)


@pytest.mark.parametrize("uses_lane", [True, False])
def test_both_ways_say_when_the_log_is_full(uses_lane: bool) -> None:
    front = Front(uses_lane=uses_lane)
    front.send(FIRST)
    before = len(front.transport.written)
    front.connection.data_received(FIRST)
    front.world.refuse()
    assert front.transport.written[before:].startswith(b"HTTP/1.1 503")
    assert b"Retry-After: 5" in front.transport.written[before:]


@pytest.mark.parametrize("uses_lane", [True, False])
def test_both_ways_refuse_what_the_reserve_is_kept_from(uses_lane: bool) -> None:
    front = Front(uses_lane=uses_lane)
    front.send(FIRST)
    front.world.group.accepts_messages = False
    before = len(front.transport.written)
    front.send(FIRST)
    assert front.transport.written[before:].startswith(b"HTTP/1.1 503")


@pytest.mark.parametrize("uses_lane", [True, False])
def test_both_ways_wait_for_a_purge(uses_lane: bool) -> None:
    front = Front(uses_lane=uses_lane)
    front.send(FIRST)
    front.world.begin("PurgeQueue", api.PurgeQueueRequest(URL))
    front.send(FIRST)
    assert front.world.counts(URL) == (1, 0, 0)


def test_a_poll_is_woken_by_the_short_way_too() -> None:
    front = Front(uses_lane=True)
    front.send(FIRST)
    front.send(FIRST)
    front.world.receive(URL)
    request = api.ReceiveMessageRequest(URL, wait_time_seconds=20)
    waiting = front.world.begin("ReceiveMessage", request)
    front.send(FIRST)
    assert front.lane_uses == 2
    assert [each.body for each in waiting.result.messages] == ["first"]


@given(st.data())
def test_how_a_stream_is_cut_into_packets_changes_nothing(data: st.DataObject) -> None:
    stream = b"".join(post(message(MessageBody=f"m{n}")) for n in range(4))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=6)))
    whole, cut = Front(uses_lane=True), Front(uses_lane=True)
    for front in (whole, cut):
        front.send(FIRST)
    whole.send(stream)
    for start, end in itertools.pairwise([0, *cuts, len(stream)]):
        cut.send(stream[start:end])
    assert whole.transport.written.count(b"HTTP/1.1 200") == 5
    assert cut.transport.written.count(b"HTTP/1.1 200") == 5
    assert bodies(cut) == bodies(whole) == ["first", "m0", "m1", "m2", "m3"]


def bodies(front: Front) -> list[str]:
    return [each.body for each in front.world.receive(URL)]


def test_answers_are_the_same_whether_or_not_they_were_prepared() -> None:
    ordered = message(
        MessageBody="m",
        QueueUrl="strict.fifo",
        MessageGroupId="g",
        MessageDeduplicationId="d",
    )
    batch = b'{"QueueUrl": "%b", "Entries": [{"Id": "a", "MessageBody": "m"}]}' % URL.encode()
    requests = [
        *(FIRST, FIRST, post(ordered), post(ordered)),
        *(post(batch, target=b"SendMessageBatch") for _ in range(2)),
        post(message(), target=b"ReceiveMessage"),
    ]
    written = []
    for looks_ahead in (True, False):
        front = Front(uses_lane=True)
        if not looks_ahead:
            vars(front.world.group)["look_ahead"] = lambda: None
        for request in requests:
            front.send(request)
        written.append(front.transport.written)
    assert written[0] == written[1]
    assert written[0].count(b"HTTP/1.1 200 OK") == len(requests)
