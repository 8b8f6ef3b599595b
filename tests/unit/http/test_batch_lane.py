"""The short way of a plain batch gives what the long way gives: the same bytes, the same state."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.queue import api
from tests.unit.http.lanes import FIRST, URL, Front, compare, message, post
from tests.world import ACCOUNT, ENDPOINT

FIFO_URLS = [f"{ENDPOINT}/{ACCOUNT}/{name}.fifo" for name in ("ordered", "strict", "parts")]
LIMITS = {"ThrottleSendCapacity": "10", "ThrottleSendRefillPerSecond": "1"}
INVOCATION = (b"amz-sdk-invocation-id: 7", b"amz-sdk-request: attempt=1")


def entry(number: int, **members: object) -> dict[str, object]:
    return {"Id": f"e-{number}", "MessageBody": f"body {number}"} | members


def batch(*entries: object, url: object = URL, headers: tuple[bytes, ...] = ()) -> bytes:
    return post(message(QueueUrl=url, Entries=entries), *headers, target=b"SendMessageBatch")


def written(old: bytes, new: bytes) -> bytes:
    """A batch of one, in which something is written in another way."""
    return post(
        message(Entries=[entry(1)]).replace(old, new), *INVOCATION, target=b"SendMessageBatch"
    )


def fifo_entry(number: int, **members: object) -> dict[str, object]:
    ids = {"MessageGroupId": f"g{number % 3}", "MessageDeduplicationId": str(number)}
    return entry(number, **ids | members)


TEN = batch(*map(entry, range(10)))
SPECIAL = {
    "one": batch(entry(0)),
    "none": batch(),
    "eleven": batch(*map(entry, range(11))),
    "no entries": post(message(), target=b"SendMessageBatch"),
    "same id": batch(entry(1), entry(1)),
    "no id": batch(entry(1, Id=None)),
    "empty id": batch(entry(1, Id="")),
    "bad id": batch(entry(1, Id="a.b")),
    "longest id": batch(entry(1, Id="x" * 80)),
    "too long an id": batch(entry(1, Id="x" * 81)),
    "id with an escape": written(b"e-1", rb"e\u002d1"),
    "empty body": batch(entry(1), entry(2, MessageBody="")),
    "no body": batch(entry(1), entry(2, MessageBody=None)),
    "largest": batch(entry(1, MessageBody="x" * 1024), entry(2)),
    "too large": batch(entry(1, MessageBody="x" * 1025), entry(2)),
    "too large in bytes": batch(entry(1), entry(2, MessageBody="é" * 513)),
    "large together": batch(*(entry(n, MessageBody="x" * 200) for n in range(10))),
    "control character": batch(entry(1), entry(2, MessageBody="a\x00")),
    "noncharacter": batch(entry(1, MessageBody="\uffff")),
    "half a character": written(b"body 1", rb"a\ud800z"),
    "escapes": batch(entry(1, MessageBody='{"a": "\\ \u00e9 😀 \r\n\t/"}')),
    "not escaped": written(b"body 1", "é 😀".encode()),
    "not text": written(b"body 1", b"a\xffz\xfe??"),
    "delay of the queue": batch(entry(1), url=f"{ENDPOINT}/{ACCOUNT}/late"),
    "delay": batch(entry(1), entry(2, DelaySeconds=3)),
    "bad delay": batch(entry(1), entry(2, DelaySeconds=901)),
    "null delay": batch(entry(1), entry(2, DelaySeconds=None)),
    "group": batch(entry(1), entry(2, MessageGroupId="tenant")),
    "groups": batch(entry(1, MessageGroupId="a"), entry(2, MessageGroupId="b")),
    "deduplication": batch(entry(1, MessageDeduplicationId="d")),
    "attributes": batch(
        entry(1), entry(2, MessageAttributes={"a": {"DataType": "String", "StringValue": "v"}})
    ),
    "unknown member": batch(entry(1, Unknown=[1])),
    "member twice": written(b'{"Id"', b'{"Id": "zzz", "Id"'),
    "member after its end": written(b"}]}", b"}]} {}"),
    "comma at the end": written(b"}]}", b"},]}"),
    "white space": written(b'{"Id":', b'\t{\r\n "Id" :'),
    "trace header": batch(entry(1), headers=(b"X-Amzn-Trace-Id: Root=1",)),
    "foreign page": batch(entry(1), headers=(b"Origin: http://evil.example",)),
    "unknown queue": batch(entry(1), url="nope"),
    "bare name": batch(entry(1), url="q"),
    "other caller": TEN.replace(b"AKID", b"AKIE"),
    "other account": batch(entry(1), url="q").replace(b"AKID", b"111111111111"),
    "other content type": TEN.replace(b"-json-1.0", b"-json-1.1"),
    "entries are no list": post(message(Entries={}), target=b"SendMessageBatch"),
    "entry is no object": batch(entry(1), 5),
    "nonsense": post(b"nonsense", target=b"SendMessageBatch"),
    "retry": batch(entry(1), headers=INVOCATION),
}


def use(front: Front, *requests: bytes) -> int:
    """How many of the requests took the short way."""
    before = front.lane_uses
    for request in requests:
        front.send(request)
    return front.lane_uses - before


@pytest.mark.parametrize("name", SPECIAL)
def test_both_ways_treat_what_is_special_in_a_batch_alike(name: str) -> None:
    # Twice: what the long way learns from the first may open the short way to the second.
    compare([SPECIAL[name], SPECIAL[name]])


@pytest.mark.parametrize("name", ["one", "longest id", "largest", "escapes", "large together"])
def test_a_plain_batch_takes_the_short_way(name: str) -> None:
    front = Front(uses_lane=True)
    front.send(FIRST)
    assert use(front, SPECIAL[name], TEN) == 2


def test_a_batch_on_its_way_is_delivered_by_a_queue_that_becomes_fair_meanwhile() -> None:
    front = Front(uses_lane=True)
    front.send(FIRST)
    assert len(front.world.receive(URL)) == 1
    front.connection.data_received(batch(entry(1), entry(2)))
    front.connection.data_received(post(message(MessageBody="m", MessageGroupId="tenant")))
    front.world.commit()
    assert front.lane_uses == 1
    received = [each.body for _ in range(4) for each in front.world.receive(URL)]
    assert sorted(received) == ["body 1", "body 2", "m"]


def test_a_batch_wakes_a_poll_which_gets_its_messages_in_order() -> None:
    front = Front(uses_lane=True)
    front.send(FIRST)
    front.world.receive(URL)
    request = api.ReceiveMessageRequest(URL, max_number_of_messages=10, wait_time_seconds=20)
    waiting = front.world.begin("ReceiveMessage", request)
    assert use(front, TEN) == 1
    assert [each.body for each in waiting.result.messages] == [f"body {n}" for n in range(10)]


def test_a_draining_node_ends_the_connection_after_a_batch_both_ways() -> None:
    short, long = Front(uses_lane=True), Front(uses_lane=False)
    for front in (short, long):
        front.send(FIRST)
        front.node.server.is_draining = True
        front.send(TEN)
    assert short.lane_uses == 1
    assert short.transport.written == long.transport.written
    assert b"Connection: close" in short.transport.written


@pytest.mark.parametrize("uses_lane", [True, False])
def test_both_ways_say_that_a_batch_finds_the_log_full(uses_lane: bool) -> None:
    front = Front(uses_lane=uses_lane)
    front.send(FIRST)
    before = len(front.transport.written)
    front.connection.data_received(TEN)
    front.world.refuse()
    assert front.transport.written[before:].startswith(b"HTTP/1.1 503")
    assert front.world.counts(URL) == (1, 0, 0)


def test_a_batch_that_is_too_long_for_the_api_is_refused_both_ways() -> None:
    url = f"{ENDPOINT}/{ACCOUNT}/roomy"
    entries = [entry(n, MessageBody="x" * 105_000) for n in range(10)]
    answers: list[bytes] = []
    for uses_lane in (True, False):
        front = Front(uses_lane=uses_lane)
        front.world.create("roomy")
        front.send(batch(entry(0), url=url))
        front.send(batch(*entries, url=url))
        answers.append(front.transport.written)
    assert answers[0] == answers[1]
    assert b"BatchRequestTooLong" in answers[0]


# --- FIFO ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("url", "uses"), [*zip(FIFO_URLS, (2, 2, 0), strict=True)])
def test_a_plain_batch_for_a_fifo_queue_takes_the_short_way(url: str, uses: int) -> None:
    """Unless its entries may belong to several partitions."""
    batches = [batch(*map(fifo_entry, range(n, n + 10)), url=url) for n in (0, 10, 20)]
    front = compare(batches)
    # The first request makes the queue live.
    assert front.lane_uses == 1 + uses
    assert front.world.counts(url) == (30, 0, 0)


FIFO_SPECIAL = {
    "repeated within": [fifo_entry(1), fifo_entry(2, MessageDeduplicationId="1")],
    "repeated in another group": [fifo_entry(1), fifo_entry(4, MessageDeduplicationId="1")],
    "one without a group": [fifo_entry(1), entry(2)],
    "no group at all": [entry(1), entry(2)],
    "id of the content": [fifo_entry(1, MessageDeduplicationId=None), fifo_entry(2)],
    "bad group": [fifo_entry(1), fifo_entry(2, MessageGroupId="a b")],
    "bad id": [fifo_entry(1), fifo_entry(2, MessageDeduplicationId="x" * 129)],
    "no group but an id": [fifo_entry(1), fifo_entry(2, MessageGroupId=None)],
    "delay": [fifo_entry(1), fifo_entry(2, DelaySeconds=1)],
    "too large": [fifo_entry(1), fifo_entry(2, MessageBody="x" * 1025)],
}


@pytest.mark.parametrize("url", FIFO_URLS)
@pytest.mark.parametrize("name", FIFO_SPECIAL)
def test_both_ways_order_what_is_special_in_a_batch_alike(name: str, url: str) -> None:
    known = batch(fifo_entry(0), url=url)
    special = batch(*FIFO_SPECIAL[name], url=url)
    compare([known, special, special])


MEMBERS = st.fixed_dictionaries(
    {"MessageBody": st.sampled_from(["m", "n", "", "x" * 1025, "\x00", "é", '"'])},
    optional={
        "Id": st.sampled_from(["a", "b", "", "é"]),
        "MessageGroupId": st.sampled_from(["a", "b", "", None]),
        "MessageDeduplicationId": st.sampled_from(["1", "2", "é", None]),
        "DelaySeconds": st.sampled_from([None, 0, 3]),
    },
)
BATCHES = st.builds(
    lambda entries, url: batch(*(entry(n, **one) for n, one in enumerate(entries)), url=url),
    st.lists(MEMBERS, max_size=4),
    st.sampled_from([URL, *FIFO_URLS]),
)


@given(st.lists(BATCHES, max_size=4))
def test_both_ways_treat_batches_alike(requests: list[bytes]) -> None:
    compare([*(batch(fifo_entry(9), url=url) for url in FIFO_URLS), *requests])


# --- what happens meanwhile ----------------------------------------------------------------------


def test_both_ways_file_a_batch_that_follows_a_tenant() -> None:
    compare([SPECIAL["groups"], TEN])


@pytest.mark.parametrize("is_batch", [True, False])
def test_a_duplicate_of_what_is_on_its_way_waits_for_it(is_batch: bool) -> None:
    """One that comes by the same way: it must not be taken for new."""
    url = FIFO_URLS[1]
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "1"}
    single = post(message(QueueUrl=url, MessageBody="m", **ids))
    request = batch(fifo_entry(1), url=url) if is_batch else single
    front = Front(uses_lane=True)
    front.send(FIRST)
    front.send(batch(fifo_entry(0), url=url))
    before = len(front.transport.written)
    front.connection.data_received(request + request)
    front.world.commit()
    assert front.lane_uses == 1
    assert front.world.counts(url) == (2, 0, 0)
    ids_told = re.findall(rb'"MessageId":"([^"]+)"', front.transport.written[before:])
    assert len(ids_told) == 2 and len(set(ids_told)) == 1


def test_a_queue_with_limits_counts_what_comes_both_ways() -> None:
    url = f"{ENDPOINT}/{ACCOUNT}/limited"
    answers: list[bytes] = []
    for uses_lane in (True, False):
        front = Front(uses_lane=uses_lane)
        front.world.create("limited", **LIMITS)
        front.send(FIRST)
        for _ in range(3):
            front.send(batch(*map(entry, range(4)), url=url))
        for _ in range(3):
            front.send(post(message(QueueUrl=url, MessageBody="m")))
        answers.append(front.transport.written)
    assert answers[0] == answers[1]
    assert b"RequestThrottled" in answers[0]
