"""Peek: every message of a state once, nothing changed by looking, no cursor trusted."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import config, native
from fastnode.flow import start
from fastnode.queue import api
from fastnode.queue.overview import NameFilter, QueuePage, describe, list_all
from fastnode.queue.peek import (
    STATES,
    BadCursor,
    PeekedMessage,
    PeekPage,
    PeekRequest,
    decode_cursor,
    encode_cursor,
    peek,
)
from tests.world import ACCOUNT, REGION, Pending, World

MAX = 262_144


def run(coroutine: Any) -> Any:
    pending = Pending(None)  # type: ignore[arg-type]  # a look has no caller
    start(coroutine, pending.finish)
    assert pending.is_done, "a look waits for nothing"
    if pending.error is not None:
        raise pending.error
    return pending.result


def page(
    world: World,
    state: str = "visible",
    *,
    name: str = "q",
    limit: int = 20,
    body_bytes_max: int = MAX,
    cursor: str = "",
) -> PeekPage:
    request = PeekRequest(state, limit, body_bytes_max, cursor)
    found: PeekPage = run(peek(world.service, ACCOUNT, REGION, name, request))
    return found


def every_message(world: World, state: str, limit: int) -> list[PeekedMessage]:
    messages: list[PeekedMessage] = []
    cursor = ""
    for _ in range(1_000):
        found = page(world, state, limit=limit, cursor=cursor)
        assert len(found.messages) <= limit
        messages += found.messages
        if found.cursor is None:
            return messages
        cursor = found.cursor
    raise AssertionError("the pages never end")


def bodies(world: World, state: str, limit: int = 20) -> list[str]:
    return [message.body for message in every_message(world, state, limit)]


@pytest.fixture
def world() -> World:
    return World()


def test_each_state_shows_its_messages(world: World) -> None:
    url = world.create()
    for number in range(3):
        world.send(url, f"m{number}")
    world.receive(url, limit=1, timeout=100)
    world.send(url, "later", 50)
    assert bodies(world, "visible") == ["m1", "m2"]
    assert bodies(world, "in_flight") == ["m0"]
    assert bodies(world, "delayed") == ["later"]


def test_what_becomes_visible_by_time_alone_is_visible_and_comes_first(world: World) -> None:
    url = world.create()
    world.send(url, "received")
    world.receive(url, timeout=30)
    world.send(url, "delayed", 40)
    world.send(url, "waiting")
    world.advance(60_000)
    assert bodies(world, "visible") == ["received", "delayed", "waiting"]
    assert bodies(world, "in_flight") == bodies(world, "delayed") == []


def test_looking_changes_nothing(world: World) -> None:
    url = world.create()
    for number in range(3):
        world.send(url, f"m{number}", 10 if number == 2 else None)
    world.receive(url, limit=1)
    rows = world.engine.scan(b"", b"\xff" * 8, 1_000)
    for state in STATES:
        assert len(every_message(world, state, 1)) == 1
    world.commit()
    assert world.engine.scan(b"", b"\xff" * 8, 1_000) == rows
    assert world.counts(url) == (1, 1, 1)
    (message,) = world.receive(url)
    assert message.body == "m1"


def test_a_look_brings_no_queue_into_memory(world: World) -> None:
    world.send(world.create(), "m")
    world.crash()
    assert bodies(world, "visible") == ["m"]
    assert world.service.live_queues() == []


def test_everything_about_a_message(world: World) -> None:
    url = world.create()
    value = api.MessageAttributeValue("String", string_value="v")
    request = api.SendMessageRequest(url, "body", message_attributes={"name": value})
    message_id = world.call("SendMessage", request).message_id
    sent_ms = world.now_ms
    (message,) = page(world).messages
    assert msgspec.to_builtins(message) == {
        "message_id": message_id,
        "body": "body",
        "body_bytes": 4,
        "body_truncated": False,
        "sent_ms": sent_ms,
        "sender_id": "AIDA",
        "receive_count": 0,
        "attribute_names": ["name"],
    }
    world.advance(1_000)
    world.receive(url, timeout=20)
    (message,) = page(world, "in_flight").messages
    assert (message.receive_count, message.first_receive_ms) == (1, sent_ms + 1_000)
    assert message.visible_at_ms == sent_ms + 21_000


def test_long_bodies_are_cut_between_characters(world: World) -> None:
    url = world.create()
    world.send(url, "é" * 300)
    (message,) = page(world, body_bytes_max=257).messages
    assert (message.body, message.body_truncated, message.body_bytes) == ("é" * 128, True, 600)
    (message,) = page(world, body_bytes_max=600).messages
    assert (message.body, message.body_truncated) == ("é" * 300, False)


def test_expired_messages_are_not_shown(world: World) -> None:
    url = world.create(MessageRetentionPeriod="60")
    world.send(url, "waiting")
    world.send(url, "delayed", 900)
    world.advance(59_999)
    assert [len(bodies(world, state)) for state in STATES] == [1, 1, 0]
    world.advance(1)
    assert [len(bodies(world, state)) for state in STATES] == [0, 0, 0]


def test_an_unknown_queue_is_none(world: World) -> None:
    request = PeekRequest("visible", 1, MAX, "")
    assert run(peek(world.service, ACCOUNT, REGION, "nothing", request)) is None


@given(
    kinds=st.lists(st.sampled_from(["waiting", "delayed", "due", "held"]), max_size=40),
    limit=st.integers(1, 12),
)
def test_every_message_comes_once_over_all_pages(kinds: list[str], limit: int) -> None:
    world = World()
    url = world.create()
    expected: dict[str, set[str]] = {state: set() for state in STATES}
    state_of = {"waiting": "visible", "due": "visible", "delayed": "delayed", "held": "in_flight"}
    for number, kind in enumerate(kinds):
        body = f"m{number}"
        if kind == "held":
            world.send(url, body)
            assert [message.body for message in world.receive(url, timeout=3_600)] == [body]
        elif kind != "waiting":
            world.send(url, body, 900 if kind == "delayed" else 1)
        expected[state_of[kind]].add(body)
    world.advance(2_000)
    for number, kind in enumerate(kinds):
        if kind == "waiting":
            world.send(url, f"m{number}")
    for state in STATES:
        found = bodies(world, state, limit)
        assert len(found) == len(set(found)) and set(found) == expected[state]


def test_a_page_looks_at_a_bounded_number_of_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "PEEK_ROWS", 7)
    url = world.create()
    for number in range(20):
        world.send(url, f"d{number}", 100)
    world.send(url, "held")
    world.receive(url, timeout=200)
    first = page(world, "in_flight")
    assert first.messages == [] and first.cursor is not None
    assert bodies(world, "in_flight") == ["held"]


def test_a_page_ends_after_so_many_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "PEEK_BYTES", 1_000)
    url = world.create()
    for number in range(5):
        world.send(url, str(number) * 600)
    assert len(page(world).messages) == 2
    assert len(every_message(world, "visible", 20)) == 5


# --- cursors ------------------------------------------------------------------------------------


def test_a_cursor_is_json_in_base64url_and_short() -> None:
    key = b"k" * 200
    text = encode_cursor(7, key)
    plain = msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    assert sorted(plain) == ["gen", "k", "v"] and (plain["v"], plain["gen"]) == (1, 7)
    assert decode_cursor(text).key == key and len(text) <= 512


def changed(text: str, **members: object) -> str:
    plain = msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return urlsafe_b64encode(msgspec.json.encode(plain | members)).decode().rstrip("=")


def first_cursor(world: World, name: str, **page_arguments: Any) -> str:
    cursor = page(world, name=name, limit=1, **page_arguments).cursor
    assert cursor is not None
    return cursor


def test_hostile_cursors_are_refused(world: World) -> None:
    for name in ("q", "other"):
        url = world.create(name)
        for number in range(3):
            world.send(url, f"m{number}")
    good = first_cursor(world, "q")
    key = decode_cursor(good).key
    forged = [
        "%",
        "AAAA",
        "A" * 513,
        "é",
        good + "=",
        good[:-1],
        changed(good, v=2),
        changed(good, gen=2),
        changed(good, gen="1"),
        changed(good, more=1),
        changed(good, k="!"),
        first_cursor(world, "other"),
        encode_cursor(1, b""),
        encode_cursor(1, key[:-1]),
        encode_cursor(1, key + b"x"),
        encode_cursor(1, native.FAMILY_META),
    ]
    for cursor in forged:
        with pytest.raises(BadCursor):
            page(world, cursor=cursor)
    assert [message.body for message in page(world, cursor=good).messages] == ["m1", "m2"]


def test_a_cursor_from_before_a_purge_is_refused(world: World) -> None:
    url = world.create()
    for number in range(2):
        world.send(url, f"m{number}")
    cursor = first_cursor(world, "q")
    world.call("PurgeQueue", api.PurgeQueueRequest(url))
    with pytest.raises(BadCursor, match="purged"):
        page(world, cursor=cursor)


@given(st.text(max_size=600))
def test_no_text_is_taken_for_a_cursor(text: str) -> None:
    with pytest.raises(BadCursor):
        decode_cursor(text)


# --- lists and details --------------------------------------------------------------------------


def all_pages(world: World, prefix: str, limit: int) -> list[str]:
    names: list[str] = []
    cursor = ""
    for _ in range(1_000):
        found: QueuePage = run(list_all(world.service, NameFilter(prefix), limit, cursor))
        assert len(found.queues) <= limit
        names += [f"{queue.account}/{queue.region}/{queue.name}" for queue in found.queues]
        if found.cursor is None:
            return names
        cursor = found.cursor
    raise AssertionError("the pages never end")


@given(limit=st.integers(1, 12))
def test_all_queues_come_once_in_order_over_pages(limit: int) -> None:
    world = World(groups=3)
    for number in range(7):
        for account in (ACCOUNT, "123456789012"):
            request = api.CreateQueueRequest(f"q{number}")
            world.call("CreateQueue", request, account)
    expected = [
        f"{account}/{REGION}/q{number}"
        for account in (ACCOUNT, "123456789012")
        for number in range(7)
    ]
    assert all_pages(world, "", limit) == expected
    assert all_pages(world, "q3", limit) == [each for each in expected if each.endswith("q3")]
    assert all_pages(world, "none", limit) == []


def test_a_prefix_is_looked_for_in_bounded_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "LIST_PAGE_MAX", 3)
    for number in range(10):
        world.create(f"a{number}")
    world.create("b")
    found: QueuePage = run(list_all(world.service, NameFilter("b"), 10, ""))
    assert found.queues == [] and found.cursor is not None
    assert all_pages(world, "b", 10) == [f"{ACCOUNT}/{REGION}/b"]


def test_a_foreign_cursor_is_no_place_in_the_list(world: World) -> None:
    world.send(world.create(), "m")
    with pytest.raises(BadCursor):
        run(list_all(world.service, NameFilter(), 10, first_cursor(world, "q")))


def test_details_of_a_queue(world: World) -> None:
    request = api.CreateQueueRequest("q", {"VisibilityTimeout": "77"}, {"team": "blue"})
    url = world.call("CreateQueue", request).queue_url
    created_ms = world.now_ms
    world.send(url, "m")
    world.send(url, "later", 50)
    found = msgspec.to_builtins(run(describe(world.service, ACCOUNT, REGION, "q")))
    attributes = found.pop("attributes")
    assert found == {
        "account": ACCOUNT,
        "region": REGION,
        "name": "q",
        "arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:q",
        "created_ms": created_ms,
        "modified_ms": created_ms,
        "messages": {"visible": 1, "in_flight": 0, "delayed": 1},
        "tags": {"team": "blue"},
    }
    assert attributes["VisibilityTimeout"] == "77" and len(attributes) == 12
    assert run(describe(world.service, ACCOUNT, REGION, "nothing")) is None
