"""Rate limits of a queue: the attributes, the arithmetic of a bucket, and what each call costs."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.queue import api
from fastnode.queue.attributes import parse_create, parse_set, shown_attributes
from fastnode.queue.errors import SqsError
from fastnode.queue.throttle import Bucket, Limit, limits_of, parse_amount
from tests.unit.queue.test_attributes import COMPUTED, FRESH
from tests.world import World

NAMES = [
    f"Throttle{kind}{part}"
    for kind in ("Send", "Recv", "Default")
    for part in ("Capacity", "RefillPerSecond")
]


def pair(kind: str, capacity: str = "10", refill: str = "1") -> dict[str, str]:
    return {f"Throttle{kind}Capacity": capacity, f"Throttle{kind}RefillPerSecond": refill}


# --- attributes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "normal"),
    [("0", "0"), ("10", "10"), ("010", "10"), ("0.5", "0.5"), ("00.50", "0.5"), ("3.000000", "3"),
     ("0.000001", "0.000001"), ("100000", "100000"), ("100000.0", "100000")],
)  # fmt: skip
def test_amount_has_a_normal_form(text: str, normal: str) -> None:
    assert parse_amount(text) == normal
    assert parse_amount(normal) == normal


@pytest.mark.parametrize(
    "text",
    ["", "-1", "+1", " 1", "1 ", "1e3", "NaN", "inf", ".5", "5.", "1,5", "0x10", "100000.000001",
     "100001", "1000000", "9" * 5_000, "0.0000001", "\u0665", "1\n"],
)  # fmt: skip
@pytest.mark.parametrize("name", NAMES)
def test_other_texts_are_refused(name: str, text: str) -> None:
    with pytest.raises(SqsError) as refusal:
        parse_create({name: text}, "q")
    assert refusal.value.row.shape == "InvalidAttributeValue"
    assert refusal.value.message == f"Invalid value for the parameter {name}."


BOTH = "The capacity and the refill are both zero or both positive."
AT_LEAST_REFILL = "The capacity is at least what is refilled in a second."
FULL_BATCH = "The capacity is at least 10, one full batch."


@pytest.mark.parametrize("kind", ["Send", "Recv", "Default"])
@pytest.mark.parametrize(
    ("capacity", "refill", "reason"),
    [("10", "0", BOTH), ("0", "10", BOTH), ("20", "20.000001", AT_LEAST_REFILL),
     ("9.999999", "1", FULL_BATCH), ("1", "2", AT_LEAST_REFILL)],
)  # fmt: skip
def test_pair_that_makes_no_sense_is_refused(
    kind: str, capacity: str, refill: str, reason: str
) -> None:
    with pytest.raises(SqsError) as refusal:
        parse_create(pair(kind, capacity, refill), "q")
    text = f"Invalid value for the parameter Throttle{kind}Capacity. Reason: {reason}"
    assert (refusal.value.row.shape, refusal.value.message) == ("InvalidAttributeValue", text)


def test_half_of_a_pair_is_completed_by_what_is_stored() -> None:
    stored = parse_create(pair("Send", "10", "1"), "q")
    changed = parse_set(stored, {"ThrottleSendCapacity": "50"})
    assert changed == pair("Send", "50", "1")
    for name in stored:
        with pytest.raises(SqsError, match="both zero"):
            parse_create({name: "20"}, "q")
        with pytest.raises(SqsError, match="both zero"):
            parse_set(stored, {name: "0"})


def test_zero_takes_the_limit_away() -> None:
    stored = parse_create(pair("Recv") | {"DelaySeconds": "1"}, "q")
    assert parse_set(stored, pair("Recv", "0", "0.0")) == {"DelaySeconds": "1"}
    assert parse_create(pair("Default", "0", "0"), "q") == {}


def test_limits_are_shown_when_set_or_named() -> None:
    zeros = dict.fromkeys(NAMES, "0")
    assert shown_attributes(["All"], {}, COMPUTED) == FRESH
    assert shown_attributes(NAMES, {}, COMPUTED) == zeros
    assert shown_attributes(["All", NAMES[0]], {}, COMPUTED) == FRESH | {NAMES[0]: "0"}
    stored = parse_create(pair("Send", "10.50", "1"), "q")
    assert stored == pair("Send", "10.5", "1")
    assert shown_attributes(["All"], stored, COMPUTED) == FRESH | stored
    assert shown_attributes(NAMES, stored, COMPUTED) == zeros | stored


def test_limits_of_a_plain_queue_are_none() -> None:
    assert limits_of({}) is None
    limits = limits_of(pair("Recv", "10", "0.5"))
    assert limits is not None
    assert (limits.send, limits.default) == (None, None)
    assert limits.receive == Limit(10 * 10**9, 500_000)


# --- the bucket ---------------------------------------------------------------------------------


class Model:
    """The same rules with fractions and hindsight."""

    def __init__(self, capacity: Fraction, refill: Fraction) -> None:
        self.capacity, self.refill = capacity, refill
        self.level, self.at_ms = capacity, 0

    def take(self, tokens: int, now_ms: int) -> bool:
        self.level = min(
            self.capacity, self.level + self.refill * Fraction(now_ms - self.at_ms, 1000)
        )
        self.at_ms = now_ms
        if self.level < tokens:
            return False
        self.level -= tokens
        return True


AMOUNTS = st.integers(10 * 10**6, 200 * 10**6)
CALLS = st.lists(st.tuples(st.integers(1, 10), st.integers(0, 20_000)), max_size=40)


@given(AMOUNTS, st.integers(1, 10**7), CALLS)
def test_bucket_refuses_exactly_when_it_is_short(
    capacity: int, refill: int, calls: list[tuple[int, int]]
) -> None:
    bucket = Bucket(Limit(capacity * 1000, refill))
    model = Model(Fraction(capacity, 10**6), Fraction(refill, 10**6))
    now_ms, spent = 1_700_000_000_000, 0
    model.at_ms = begin_ms = now_ms
    for tokens, elapsed_ms in calls:
        now_ms += elapsed_ms
        wait_seconds = bucket.take(tokens, now_ms)
        assert (wait_seconds == 0) is model.take(tokens, now_ms)
        spent += 0 if wait_seconds else tokens
        refilled = model.refill * Fraction(now_ms - begin_ms, 1000)
        assert spent <= model.capacity + refilled
        if wait_seconds:
            needed = Fraction(tokens - model.level) / model.refill
            assert 1 <= wait_seconds <= 3_600
            assert wait_seconds == 3_600 or needed <= wait_seconds < needed + 1


@given(AMOUNTS, st.integers(10_000, 10**7), st.integers(1, 10))
def test_who_waits_as_long_as_told_is_served(capacity: int, refill: int, tokens: int) -> None:
    bucket = Bucket(Limit(capacity * 1000, refill))
    now_ms = 5
    while not (wait_seconds := bucket.take(tokens, now_ms)):
        pass
    assert bucket.take(tokens, now_ms) == wait_seconds, "a refusal takes nothing"
    assert bucket.take(tokens, now_ms + wait_seconds * 1000) == 0


def test_wait_is_bounded() -> None:
    bucket = Bucket(Limit(10 * 10**9, 1))
    assert bucket.take(10, 0) == 0
    assert bucket.take(1, 0) == 3_600


def test_time_that_stands_still_or_steps_back_refills_nothing() -> None:
    bucket = Bucket(Limit(10 * 10**9, 10**6))
    assert bucket.take(10, 10_000) == 0
    assert bucket.take(1, 10_000) == 1
    assert bucket.take(1, 5_000) == 1
    assert bucket.take(1, 10_999) == 1
    assert bucket.take(1, 11_000) == 0


# --- what calls cost ----------------------------------------------------------------------------


def set_attributes(world: World, url: str, attributes: dict[str, str]) -> None:
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest(url, attributes))


def send(url: str) -> tuple[str, Any]:
    return "SendMessage", api.SendMessageRequest(url, "m")


def send_batch(url: str, count: int, body: str = "m") -> tuple[str, Any]:
    entries = [api.SendMessageBatchRequestEntry(str(n), body) for n in range(count)]
    return "SendMessageBatch", api.SendMessageBatchRequest(url, entries)


def receive(url: str) -> tuple[str, Any]:
    return "ReceiveMessage", api.ReceiveMessageRequest(url, max_number_of_messages=10)


def delete(url: str) -> tuple[str, Any]:
    return "DeleteMessage", api.DeleteMessageRequest(url, "forged")


def delete_batch(url: str, count: int) -> tuple[str, Any]:
    entries = [api.DeleteMessageBatchRequestEntry(str(n), "forged") for n in range(count)]
    return "DeleteMessageBatch", api.DeleteMessageBatchRequest(url, entries)


def change(url: str) -> tuple[str, Any]:
    return "ChangeMessageVisibility", api.ChangeMessageVisibilityRequest(url, "forged", 0)


def change_batch(url: str, count: int) -> tuple[str, Any]:
    entries = [
        api.ChangeMessageVisibilityBatchRequestEntry(str(n), "forged", 0) for n in range(count)
    ]
    return (
        "ChangeMessageVisibilityBatch",
        api.ChangeMessageVisibilityBatchRequest(url, entries),
    )


def throttled_after(world: World, action: str, request: Any) -> int | None:
    """The Retry-After of a call, or None if it was not throttled; other refusals are served too."""
    try:
        world.call(action, request)
    except SqsError as error:
        if error.row.shape == "RequestThrottled":
            assert error.row.status == 403
            return error.retry_after_seconds
        assert error.retry_after_seconds is None
    return None


def served(world: World, action: str, request: Any) -> int:
    """How often a call is served before it is throttled, up to 30."""
    for count in range(30):
        if throttled_after(world, action, request) is not None:
            return count
    return 30


COSTS = [
    ("Send", lambda url: send(url), 10),
    ("Send", lambda url: send_batch(url, 1), 10),
    ("Send", lambda url: send_batch(url, 3), 3),
    ("Send", lambda url: send_batch(url, 3, ""), 3),
    ("Send", lambda url: send_batch(url, 10), 1),
    ("Recv", lambda url: receive(url), 10),
    ("Recv", lambda url: delete(url), 10),
    ("Recv", lambda url: delete_batch(url, 5), 2),
    ("Recv", lambda url: change(url), 10),
    ("Recv", lambda url: change_batch(url, 4), 2),
]


@pytest.mark.parametrize(("kind", "call", "count"), COSTS)
def test_call_is_paid_from_its_bucket(kind: str, call: Any, count: int) -> None:
    world = World()
    url = world.create(**pair(kind))
    assert served(world, *call(url)) == count


@pytest.mark.parametrize(("kind", "call", "count"), COSTS)
def test_call_without_a_bucket_of_its_own_is_paid_from_the_default(
    kind: str, call: Any, count: int
) -> None:
    world = World()
    url = world.create(**pair("Default"))
    assert served(world, *call(url)) == count


@pytest.mark.parametrize(("kind", "call", "count"), COSTS)
def test_call_without_any_bucket_is_free(kind: str, call: Any, count: int) -> None:
    world = World()
    other = {"Send": "Recv", "Recv": "Send"}[kind]
    assert served(world, *call(world.create("plain"))) == 30
    assert served(world, *call(world.create("other", **pair(other)))) == 30


def test_default_bucket_is_shared_and_an_own_bucket_is_not() -> None:
    world = World()
    shared = world.create("shared", **pair("Default"))
    assert served(world, *send_batch(shared, 9)) == 1
    assert served(world, *receive(shared)) == 1
    own = world.create("own", **pair("Default"), **pair("Recv"))
    assert served(world, *send(own)) == 10
    assert served(world, *receive(own)) == 10
    assert served(world, *send(world.create("another", **pair("Send")))) == 10


def test_batch_is_taken_as_a_whole_or_not_at_all() -> None:
    world = World()
    url = world.create(**pair("Send", "12"))
    world.call(*send_batch(url, 10))
    assert throttled_after(world, *send_batch(url, 3)) == 1
    assert world.counts(url) == (10, 0, 0)
    world.call(*send_batch(url, 2))
    assert world.counts(url) == (12, 0, 0)


def test_batch_that_is_refused_as_a_whole_costs_nothing() -> None:
    world = World()
    url = world.create(**pair("Send"))
    for count in (0, 11):
        assert throttled_after(world, *send_batch(url, count)) is None
    assert served(world, *send(url)) == 10


def test_time_pays_and_the_wait_told_is_enough() -> None:
    world = World()
    url = world.create(**pair("Send", "10", "0.5"))
    world.call(*send_batch(url, 10))
    assert throttled_after(world, *send(url)) == 2
    assert throttled_after(world, *send_batch(url, 10)) == 20
    world.advance(1_999)
    assert throttled_after(world, *send(url)) == 1
    world.advance(1)
    assert throttled_after(world, *send(url)) is None
    world.advance(3_600_000)
    assert served(world, *send(url)) == 10


def test_long_poll_is_charged_once() -> None:
    world = World()
    url = world.create(**pair("Recv"))
    request = api.ReceiveMessageRequest(url, wait_time_seconds=20)
    poll = world.begin("ReceiveMessage", request)
    world.advance(5_000)
    assert not poll.is_done
    world.send(url, "m")
    assert poll.is_done and poll.error is None
    world.advance(60_000)
    assert served(world, *receive(url)) == 10


def test_new_limits_hold_at_once_and_the_same_ones_change_nothing() -> None:
    world = World()
    url = world.create(**pair("Send"))
    assert served(world, *send(url)) == 10
    set_attributes(world, url, pair("Send", "10.0", "01"))
    set_attributes(world, url, {"VisibilityTimeout": "5"})
    assert served(world, *send(url)) == 0
    set_attributes(world, url, pair("Send", "11"))
    assert served(world, *send(url)) == 11
    set_attributes(world, url, pair("Send", "0", "0"))
    assert served(world, *send(url)) == 30


def test_purge_keeps_the_bucket_and_a_new_queue_has_a_new_one() -> None:
    world = World()
    url = world.create(**pair("Send"))
    assert served(world, *send(url)) == 10
    world.call("PurgeQueue", api.PurgeQueueRequest(url))
    assert served(world, *send(url)) == 0
    world.call("DeleteQueue", api.DeleteQueueRequest(url))
    world.create(**pair("Send"))
    assert served(world, *send(url)) == 10


def test_limits_survive_a_crash_and_buckets_are_full_after_it() -> None:
    world = World()
    url = world.create(**pair("Send"))
    assert served(world, *send(url)) == 10
    world.crash()
    assert served(world, *send(url)) == 10


def test_unknown_queue_is_told_before_anything_is_charged() -> None:
    world = World()
    url = world.create(**pair("Send"))
    with pytest.raises(SqsError) as refusal:
        world.call(*send(url + "x"))
    assert refusal.value.row.shape == "QueueDoesNotExist"


def test_administration_is_never_throttled() -> None:
    world = World()
    url = world.create(**pair("Default"))
    assert served(world, *send_batch(url, 10)) == 1
    assert served(world, "GetQueueAttributes", api.GetQueueAttributesRequest(url, ["All"])) == 30
    assert served(world, "GetQueueUrl", api.GetQueueUrlRequest("q")) == 30
