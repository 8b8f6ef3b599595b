"""The admin API over HTTP: paths, parameters, errors in JSON, and no way in for web pages."""

import json

import pytest

from fastnode.errors import Unavailable
from tests.unit.http.admin_setup import QUEUES, AdminSetup
from tests.world import ACCOUNT, REGION


@pytest.fixture
def setup() -> AdminSetup:
    return AdminSetup()


def test_messages_by_pages(setup: AdminSetup) -> None:
    url = setup.world.create()
    for number in range(3):
        setup.world.send(url, f"m{number}")
    status, first = setup.get(f"{QUEUES}/q/messages?limit=2")
    assert (status, first["state"]) == (200, "visible")
    assert [message["body"] for message in first["messages"]] == ["m0", "m1"]
    status, second = setup.get(f"{QUEUES}/q/messages?limit=2&cursor={first['cursor']}")
    assert [message["body"] for message in second["messages"]] == ["m2"]
    assert "cursor" not in second


def test_an_empty_page_has_an_empty_list(setup: AdminSetup) -> None:
    setup.world.create()
    assert setup.get(f"{QUEUES}/q/messages?state=in_flight") == (
        200,
        {"state": "in_flight", "messages": []},
    )
    assert setup.get("/api/v1/queues?prefix=x") == (200, {"queues": []})


def test_bodies_are_cut_as_asked(setup: AdminSetup) -> None:
    setup.world.send(setup.world.create(), "x" * 5_000)
    for query, length in (
        ("", 4_096),
        ("?body_max_bytes=256", 256),
        ("?body_max_bytes=5000", 5_000),
    ):
        _, answer = setup.get(f"{QUEUES}/q/messages{query}")
        (message,) = answer["messages"]
        assert len(message["body"]) == length and message["body_truncated"] is (length < 5_000)


def test_lists_and_details(setup: AdminSetup) -> None:
    setup.world.create("orders")
    setup.world.create("messages")
    _, answer = setup.get("/api/v1/queues")
    assert [queue["name"] for queue in answer["queues"]] == ["messages", "orders"]
    assert setup.get(f"{QUEUES}/orders")[1]["messages"]["visible"] == 0
    assert setup.get(f"{QUEUES}/messages")[1]["name"] == "messages"
    assert setup.get(f"{QUEUES}/messages/")[1]["name"] == "messages"
    assert setup.get(f"{QUEUES}/messages/messages")[1]["state"] == "visible"


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        (f"{QUEUES}/nothing", 404, "queue_not_found"),
        (f"{QUEUES}/nothing/messages", 404, "queue_not_found"),
        ("/api/v1/nothing", 404, "not_found"),
        (f"{QUEUES}/q/nothing", 404, "not_found"),
        (f"{QUEUES}/q/messages/more", 404, "not_found"),
        ("/api/v1/", 400, "bad_request"),
        ("/api/v1//queues", 400, "bad_request"),
        ("/api/v1/queues//", 400, "bad_request"),
        (f"/api/v1/queues/{ACCOUNT}//q", 400, "bad_request"),
        (f"{QUEUES}/..", 400, "bad_request"),
        (f"{QUEUES}/./messages", 400, "bad_request"),
        (f"{QUEUES}/%71", 400, "bad_request"),
        (f"{QUEUES}/q%2Fmessages", 400, "bad_request"),
        (f"/api/v1/queues/1/{REGION}/q", 400, "bad_request"),
        (f"/api/v1/queues/{ACCOUNT}/US/q", 400, "bad_request"),
        (f"{QUEUES}/{'q' * 81}", 400, "bad_request"),
        (f"{QUEUES}/q.txt", 400, "bad_request"),
        (f"{QUEUES}/q?limit=1", 400, "bad_request"),
        (f"{QUEUES}/q/messages?limit=0", 400, "bad_request"),
        (f"{QUEUES}/q/messages?limit=101", 400, "bad_request"),
        (f"{QUEUES}/q/messages?limit=-1", 400, "bad_request"),
        (f"{QUEUES}/q/messages?limit=1_0", 400, "bad_request"),
        (f"{QUEUES}/q/messages?limit={'9' * 1_000}", 400, "bad_request"),
        (f"{QUEUES}/q/messages?limit=", 400, "bad_request"),
        (f"{QUEUES}/q/messages?limit=1&limit=2", 400, "bad_request"),
        (f"{QUEUES}/q/messages?limit", 400, "bad_request"),
        (f"{QUEUES}/q/messages?body_max_bytes=255", 400, "bad_request"),
        (f"{QUEUES}/q/messages?body_max_bytes=1048577", 400, "bad_request"),
        (f"{QUEUES}/q/messages?state=gone", 400, "bad_request"),
        (f"{QUEUES}/q/messages?stat=visible", 400, "bad_request"),
        (f"{QUEUES}/q/messages?state=%ff", 400, "bad_request"),
        (f"{QUEUES}/q/messages?cursor={'A' * 2_000}", 400, "bad_request"),
        (f"{QUEUES}/q/messages?cursor=AAAA", 400, "bad_cursor"),
        ("/api/v1/queues?limit=1001", 400, "bad_request"),
        ("/api/v1/queues?cursor=AAAA", 400, "bad_cursor"),
        ("/api/v1/queues?" + "&".join(f"a{n}=1" for n in range(20)), 400, "bad_request"),
    ],
)
def test_what_is_refused(setup: AdminSetup, target: str, status: int, code: str) -> None:
    setup.world.create()
    answered, body = setup.get(target)
    assert (answered, body["error"]["code"]) == (status, code)
    assert body["error"]["message"]


def test_a_bad_cursor_is_refused_before_the_queue_is_looked_at(setup: AdminSetup) -> None:
    setup.world.send(setup.world.create(), "m")
    _, first = setup.get(f"{QUEUES}/q/messages?limit=1")
    assert setup.get(f"{QUEUES}/q/messages?cursor={first['cursor']}x")[0] == 400


@pytest.mark.parametrize(
    ("method", "target", "allowed"),
    [
        ("DELETE", "/api/v1/queues", "GET, HEAD, POST"),
        ("PUT", "/api/v1/queues", "GET, HEAD, POST"),
        ("POST", f"{QUEUES}/q", "GET, HEAD, PATCH, DELETE"),
        ("GET", f"{QUEUES}/q/purge", "POST"),
        ("POST", f"{QUEUES}/q/tags", "PUT"),
        ("PATCH", f"{QUEUES}/q/redrive", "GET, HEAD, POST, DELETE"),
        ("POST", "/api/v1/overview", "GET, HEAD"),
        ("PUT", "/api/v1/session", "GET, HEAD, POST, DELETE"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(
    setup: AdminSetup, method: str, target: str, allowed: str
) -> None:
    status, head, body = setup.send(target, method=method)
    assert status == 405 and f"\r\nAllow: {allowed}\r\n" in head
    assert json.loads(body)["error"]["code"] == "method_not_allowed"


def test_head_has_no_body(setup: AdminSetup) -> None:
    status, head, body = setup.send("/api/v1/queues", method="HEAD")
    assert (status, body) == (200, b"") and "Content-Length: 13" in head


@pytest.mark.parametrize(
    ("host", "headers"),
    [
        ("evil.example", ()),
        ("evil.example:9325", ()),
        ("localhost", ("Origin: http://evil.example",)),
        ("localhost", ("Origin: null",)),
    ],
)
def test_web_pages_cannot_look(setup: AdminSetup, host: str, headers: tuple[str, ...]) -> None:
    """A name that was made to resolve to this machine, and a page of another origin."""
    status, body = setup.get("/api/v1/queues", *headers, host=host)
    assert (status, body["error"]["code"]) == (403, "forbidden")


def test_the_consoles_own_origin_is_let_in(setup: AdminSetup) -> None:
    status, _ = setup.get("/api/v1/queues", "Origin: http://localhost:9325", host="localhost:9325")
    assert status == 200


def test_no_leader_is_503_with_a_time_to_come_back() -> None:
    class Leaderless:
        def group_of(self, _keys: object) -> object:
            raise Unavailable("the group has no leader here")

    status, head, body = AdminSetup(service=Leaderless()).send(f"{QUEUES}/q")
    assert status == 503 and "Retry-After: 1" in head
    assert json.loads(body)["error"]["code"] == "unavailable"


def test_a_bug_is_logged_and_told_as_one(caplog: pytest.LogCaptureFixture) -> None:
    status, _, body = AdminSetup(service=object()).send(f"{QUEUES}/q")
    assert (status, json.loads(body)["error"]["code"]) == (500, "internal_error")
    assert "bug in the admin API" in caplog.text
