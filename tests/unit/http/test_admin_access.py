"""Who may use the admin API: tokens, sessions, CSRF tokens, roles, and no foreign web page."""

import json

import pytest

from fastnode.config import ADMIN_SESSION_SECONDS, ADMIN_SESSIONS_MAX
from tests.unit.http.admin_setup import HOST, QUEUES, AdminSetup, Page, holders_of, token_of

NEW = {"name": "made"}


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"


@pytest.fixture
def guarded() -> AdminSetup:
    return AdminSetup(holders_of(ops="full", watch="read-only"))


@pytest.fixture
def open_node() -> AdminSetup:
    return AdminSetup()


def queues_of(setup: AdminSetup) -> list[str]:
    found = setup.world.service.live_queues()
    return sorted(queue.name for queue in found)


# --- programs ----------------------------------------------------------------------------------


def test_an_open_node_asks_programs_for_nothing(open_node: AdminSetup) -> None:
    assert open_node.get("/api/v1/queues")[0] == 200
    assert open_node.change("POST", "/api/v1/queues", NEW)[0] == 200


def test_a_token_is_asked_for_where_there_are_some(guarded: AdminSetup) -> None:
    status, head, _ = guarded.send("/api/v1/queues")
    assert status == 401 and "WWW-Authenticate: Bearer" in head
    assert guarded.error("POST", "/api/v1/queues", NEW) == (401, "unauthorized")
    assert guarded.get("/api/v1/queues", bearer(token_of("ops")))[0] == 200
    assert guarded.change("POST", "/api/v1/queues", NEW, bearer(token_of("ops")))[0] == 200


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer",
        "Bearer ",
        "Bearer nothing",
        f"Basic {token_of('ops')}",
        f"Bearer {token_of('ops')}x",
        f"Bearer {token_of('ops')[:-1]}",
        "Bearer \xff\xfe",
        "Bearer " + "x" * 5_000,
    ],
)
def test_wrong_tokens_are_refused(guarded: AdminSetup, authorization: str) -> None:
    header = f"Authorization: {authorization}"
    assert guarded.error("GET", "/api/v1/queues", None, header) == (401, "unauthorized")


def test_who_may_only_look_changes_nothing(guarded: AdminSetup) -> None:
    watch = bearer(token_of("watch"))
    assert guarded.change("POST", "/api/v1/queues", NEW, bearer(token_of("ops")))[0] == 200
    assert guarded.get(f"{QUEUES}/made", watch)[0] == 200
    for method, target, body in (
        ("POST", "/api/v1/queues", {"name": "other"}),
        ("PATCH", f"{QUEUES}/made", {"attributes": {"DelaySeconds": "5"}}),
        ("PUT", f"{QUEUES}/made/tags", {"tags": {"a": "b"}}),
        ("POST", f"{QUEUES}/made/messages", {"body": "m"}),
        ("POST", f"{QUEUES}/made/purge", {"confirm": "made"}),
        ("POST", f"{QUEUES}/made/redrive", {}),
        ("DELETE", f"{QUEUES}/made?confirm=made", None),
    ):
        assert guarded.error(method, target, body, watch) == (403, "read_only"), target
    assert queues_of(guarded) == ["made"]


# --- the console -------------------------------------------------------------------------------


def test_a_page_signs_in_and_changes_things(guarded: AdminSetup) -> None:
    page = Page(guarded)
    assert guarded.get("/api/v1/session")[1]["signed_in"] is False
    status, answer = page.sign_in(token_of("ops"))
    assert status == 200 and answer["role"] == "full" and answer["name"] == "ops"
    assert page.change("POST", "/api/v1/queues", NEW)[0] == 200
    assert page.change("GET", "/api/v1/session")[1]["csrf"] == page.csrf


def test_the_cookie_is_for_this_site_and_no_script(guarded: AdminSetup) -> None:
    body = json.dumps({"token": token_of("ops")}).encode()
    kind = "Content-Type: application/json"
    for proxy, is_secure in (("http", False), ("https", True)):
        _, head, _ = guarded.send(
            "/api/v1/session",
            kind,
            f"X-Forwarded-Proto: {proxy}",
            method="POST",
            host=HOST,
            body=body,
        )
        (cookie,) = [line for line in head.split("\r\n") if line.startswith("Set-Cookie: ")]
        assert cookie.startswith("Set-Cookie: fastnode_session_9325=")
        assert "; HttpOnly; SameSite=Strict" in cookie and "Path=/api/v1/" in cookie
        assert ("; Secure" in cookie) is is_secure
        assert token_of("ops") not in head


def test_a_wrong_token_opens_no_session(guarded: AdminSetup) -> None:
    page = Page(guarded)
    for token in ("", "wrong", token_of("ops") + " ", "\x00" * 50, "é" * 100):
        assert page.sign_in(token)[0] == 401
        assert page.cookie == ""
    assert guarded.error("POST", "/api/v1/session", {"tokens": "x"}) == (400, "bad_request")
    assert guarded.error("POST", "/api/v1/session", {"token": 5}) == (400, "bad_request")
    assert guarded.error("POST", "/api/v1/session", {"token": "x" * 5_000}) == (400, "bad_request")


def test_a_change_without_the_csrf_token_is_refused(guarded: AdminSetup) -> None:
    page, other = Page(guarded), Page(guarded)
    page.sign_in(token_of("ops"))
    other.sign_in(token_of("ops"))
    own = page.csrf
    for csrf in ("", "x", own[:-1], own + "0", other.csrf, "\xff"):
        page.csrf = csrf
        status, answer = page.change("POST", "/api/v1/queues", NEW)
        assert (status, answer["error"]["code"]) == (403, "bad_csrf")
    assert queues_of(guarded) == []
    page.csrf = own
    assert page.change("POST", "/api/v1/queues", NEW)[0] == 200


def test_the_csrf_token_of_an_ended_session_is_worth_nothing(guarded: AdminSetup) -> None:
    page = Page(guarded)
    page.sign_in(token_of("ops"))
    old = page.csrf
    page.sign_in(token_of("ops"))
    page.csrf = old
    assert page.change("POST", "/api/v1/queues", NEW)[0] == 403


@pytest.mark.parametrize("cookie", ["x", "0" * 64, "", "a=b", "é" * 20, "x" * 4_000])
def test_a_tampered_cookie_is_refused(guarded: AdminSetup, cookie: str) -> None:
    page = Page(guarded)
    page.sign_in(token_of("ops"))
    header = f"Cookie: fastnode_session_9325={cookie}"
    status, answer = guarded.get("/api/v1/queues", header, host=HOST)
    assert (status, answer["error"]["code"]) == (401, "unauthorized")


def test_a_tampered_cookie_is_refused_by_an_open_node_too(open_node: AdminSetup) -> None:
    header = "Cookie: fastnode_session_9325=00"
    assert open_node.get("/api/v1/queues", header, host=HOST)[0] == 401


def test_a_session_ends(guarded: AdminSetup) -> None:
    page = Page(guarded)
    page.sign_in(token_of("ops"))
    guarded.node.now += ADMIN_SESSION_SECONDS - 1
    assert page.change("GET", "/api/v1/queues")[0] == 200
    guarded.node.now += 1
    assert page.change("GET", "/api/v1/queues")[0] == 401
    assert page.change("POST", "/api/v1/queues", NEW)[0] == 401


def test_signing_out_ends_the_session_and_needs_its_token(guarded: AdminSetup) -> None:
    page = Page(guarded)
    page.sign_in(token_of("watch"))
    own, page.csrf = page.csrf, "x"
    assert page.change("DELETE", "/api/v1/session")[0] == 403
    page.csrf = own
    assert page.change("DELETE", "/api/v1/session")[1]["signed_in"] is False
    assert page.change("GET", "/api/v1/queues")[0] == 401


def test_roles_are_looked_up_at_every_call(guarded: AdminSetup) -> None:
    page = Page(guarded)
    page.sign_in(token_of("ops"))
    guarded.holders = holders_of(ops="read-only")
    assert page.change("POST", "/api/v1/queues", NEW)[0] == 403
    assert page.change("GET", "/api/v1/queues")[0] == 200
    guarded.holders = holders_of(other="full")
    assert page.change("GET", "/api/v1/queues")[0] == 401
    guarded.holders = holders_of(ops="full")
    assert page.change("GET", "/api/v1/queues")[0] == 401, "it has ended"


def test_sessions_are_bounded(guarded: AdminSetup) -> None:
    first, last = Page(guarded), Page(guarded)
    first.sign_in(token_of("ops"))
    for _ in range(ADMIN_SESSIONS_MAX):
        last.cookie = ""
        last.sign_in(token_of("ops"))
    assert first.change("GET", "/api/v1/queues")[0] == 401
    assert last.change("GET", "/api/v1/queues")[0] == 200


# --- an open node and browsers -----------------------------------------------------------------


def test_the_console_of_an_open_node_has_a_session_too(open_node: AdminSetup) -> None:
    page = Page(open_node)
    assert page.change("POST", "/api/v1/queues", NEW)[0] == 403, "no session yet"
    assert queues_of(open_node) == []
    assert page.sign_in()[1]["needs_token"] is False
    assert page.change("POST", "/api/v1/queues", NEW)[0] == 200
    page.csrf = "x"
    assert page.change("DELETE", f"{QUEUES}/made?confirm=made")[0] == 403
    assert queues_of(open_node) == ["made"]


@pytest.mark.parametrize(
    "header", ["Origin: http://evil.example", "Origin: null", "Origin: http://localhost:1"]
)
def test_a_foreign_page_can_do_nothing(open_node: AdminSetup, header: str) -> None:
    for method, target in (
        ("POST", "/api/v1/session"),
        ("POST", "/api/v1/queues"),
        ("GET", "/api/v1/queues"),
    ):
        assert open_node.error(method, target, {}, header) == (403, "forbidden")


def test_a_change_is_noted_with_who_made_it(
    guarded: AdminSetup, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="test")
    guarded.change("POST", "/api/v1/queues", NEW, bearer(token_of("ops")))
    (record,) = [one for one in caplog.records if one.message == "an admin change"]
    assert (record.__dict__["by"], record.__dict__["status"]) == ("ops", 200)
    assert token_of("ops") not in caplog.text
