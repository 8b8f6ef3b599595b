"""Changing queues through the admin API: what it does, and what it refuses without a change."""

import json
from typing import Any

import pytest

from tests.unit.http.admin_setup import QUEUES, AdminSetup
from tests.world import ACCOUNT, REGION

ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:"


@pytest.fixture
def setup() -> AdminSetup:
    return AdminSetup()


def created(setup: AdminSetup, name: str, **attributes: str) -> None:
    body = {"name": name, "attributes": attributes}
    assert setup.change("POST", "/api/v1/queues", body)[0] == 200


def state_of(setup: AdminSetup) -> Any:
    """All that can be changed, of all queues."""
    _, listed = setup.get("/api/v1/queues")
    paths = [f"{QUEUES}/{queue['name']}" for queue in listed["queues"]]
    return [(setup.get(path), setup.get(f"{path}/messages")) for path in paths]


def test_a_queue_is_created_once(setup: AdminSetup) -> None:
    body = {"name": "made", "attributes": {"DelaySeconds": "5"}, "tags": {"team": "blue"}}
    status, made = setup.change("POST", "/api/v1/queues", body)
    assert (status, made["arn"]) == (200, f"{ARN}made")
    assert made["attributes"]["DelaySeconds"] == "5" and made["tags"] == {"team": "blue"}
    assert setup.error("POST", "/api/v1/queues", body) == (409, "queue_exists")


def test_a_queue_may_be_of_another_account_and_region(setup: AdminSetup) -> None:
    body = {"name": "q", "account": "123456789012", "region": "eu-west-1"}
    assert setup.change("POST", "/api/v1/queues", body)[1]["region"] == "eu-west-1"
    assert setup.get("/api/v1/queues/123456789012/eu-west-1/q")[0] == 200


def test_attributes_and_tags_are_set(setup: AdminSetup) -> None:
    created(setup, "q")
    change = {"attributes": {"VisibilityTimeout": "7"}}
    assert setup.change("PATCH", f"{QUEUES}/q", change)[1]["attributes"]["VisibilityTimeout"] == "7"
    for tags in ({"a": "1", "b": "2"}, {"b": "3"}, {}):
        assert setup.change("PUT", f"{QUEUES}/q/tags", {"tags": tags})[0] == 200
        assert setup.get(f"{QUEUES}/q")[1]["tags"] == tags


def test_messages_are_sent_found_and_purged(setup: AdminSetup) -> None:
    created(setup, "q")
    for body in ("apple", "pear", "grape"):
        status, sent = setup.change("POST", f"{QUEUES}/q/messages", {"body": body})
        assert status == 200
    _, found = setup.get(f"{QUEUES}/q/messages?contains=ap")
    assert [message["body"] for message in found["messages"]] == ["apple", "grape"]
    _, found = setup.get(f"{QUEUES}/q/messages?contains={sent['message_id']}")
    assert [message["body"] for message in found["messages"]] == ["grape"]
    assert setup.change("POST", f"{QUEUES}/q/purge", {"confirm": "q"})[0] == 200
    assert setup.get(f"{QUEUES}/q/messages")[1]["messages"] == []


def test_a_message_may_have_all_that_sqs_gives_it(setup: AdminSetup) -> None:
    created(setup, "q")
    body = {"body": "m", "delay_seconds": 60, "attributes": {"Color": "blue"}}
    assert setup.change("POST", f"{QUEUES}/q/messages", body)[0] == 200
    _, delayed = setup.get(f"{QUEUES}/q/messages?state=delayed")
    assert delayed["messages"][0]["attribute_names"] == ["Color"]
    created(setup, "q.fifo", FifoQueue="true")
    body = {"body": "m", "group_id": "g", "deduplication_id": "d"}
    assert setup.change("POST", f"{QUEUES}/q.fifo/messages", body)[0] == 200
    _, found = setup.get(f"{QUEUES}/q.fifo/messages")
    assert found["messages"][0]["message_group_id"] == "g"


def test_a_queue_is_deleted_by_whoever_names_it(setup: AdminSetup) -> None:
    created(setup, "q")
    for confirm in ("", "?confirm=", "?confirm=Q", "?confirm=q%20"):
        assert setup.error("DELETE", f"{QUEUES}/q{confirm}") == (400, "not_confirmed")
    assert setup.error("POST", f"{QUEUES}/q/purge", {}) == (400, "not_confirmed")
    assert setup.change("DELETE", f"{QUEUES}/q?confirm=q") == (200, {})
    assert setup.error("DELETE", f"{QUEUES}/q?confirm=q") == (404, "queue_not_found")


def test_dead_letters_are_shown_and_moved_back(setup: AdminSetup) -> None:
    created(setup, "dead")
    created(setup, "q", RedrivePolicy=policy("dead", 2))
    _, of_queue = setup.get(f"{QUEUES}/q/dead-letters")
    assert [link["name"] for link in of_queue["chain"]] == ["q", "dead"]
    assert of_queue["chain"][0]["max_receive_count"] == 2 and of_queue["sources"] == []
    _, of_dead = setup.get(f"{QUEUES}/dead/dead-letters")
    assert [link["name"] for link in of_dead["sources"]] == ["q"]
    setup.change("POST", f"{QUEUES}/dead/messages", {"body": "m"})
    status, begun = setup.change("POST", f"{QUEUES}/dead/redrive", {"destination": f"{ARN}q"})
    assert status == 200 and begun["tasks"][0]["to_move"] == 1
    setup.world.advance(5_000)
    _, ended = setup.get(f"{QUEUES}/dead/redrive")
    assert (ended["tasks"][0]["status"], ended["tasks"][0]["moved"]) == ("COMPLETED", 1)
    assert setup.get(f"{QUEUES}/q")[1]["messages"]["visible"] == 1
    assert setup.error("DELETE", f"{QUEUES}/dead/redrive") == (409, "refused")


def test_a_running_move_is_stopped(setup: AdminSetup) -> None:
    created(setup, "dead")
    created(setup, "q", RedrivePolicy=policy("dead", 2))
    for _ in range(5):
        setup.change("POST", f"{QUEUES}/dead/messages", {"body": "m"})
    body = {"destination": f"{ARN}q", "max_per_second": 1}
    assert (
        setup.change("POST", f"{QUEUES}/dead/redrive", body)[1]["tasks"][0]["status"] == "RUNNING"
    )
    assert setup.error("POST", f"{QUEUES}/dead/redrive", body)[0] == 400
    assert setup.change("DELETE", f"{QUEUES}/dead/redrive")[0] == 200
    setup.world.advance(5_000)
    assert setup.get(f"{QUEUES}/dead/redrive")[1]["tasks"][0]["status"] == "CANCELLED"


def test_a_ring_of_dead_letter_queues_and_a_lost_one_are_shown(setup: AdminSetup) -> None:
    for name in ("a", "b", "gone"):
        created(setup, name)
    for source, target in (("a", "b"), ("b", "a")):
        change = {"attributes": {"RedrivePolicy": policy(target, 3)}}
        assert setup.change("PATCH", f"{QUEUES}/{source}", change)[0] == 200
    _, ring = setup.get(f"{QUEUES}/a/dead-letters")
    assert [link["name"] for link in ring["chain"]] == ["a", "b", "a"]
    created(setup, "c", RedrivePolicy=policy("gone", 3))
    setup.change("DELETE", f"{QUEUES}/gone?confirm=gone")
    _, lost = setup.get(f"{QUEUES}/c/dead-letters")
    assert [(link["name"], link["exists"]) for link in lost["chain"]] == [
        ("c", True),
        ("gone", False),
    ]


def policy(target: str, receives: int) -> str:
    return json.dumps({"deadLetterTargetArn": ARN + target, "maxReceiveCount": receives})


def test_a_list_has_counts_and_rates_and_is_searched(setup: AdminSetup) -> None:
    for name in ("Orders-1", "orders-2", "mail"):
        created(setup, name)
    setup.change("POST", f"{QUEUES}/mail/messages", {"body": "m"})
    _, found = setup.get("/api/v1/queues?contains=ORDERS")
    assert [queue["name"] for queue in found["queues"]] == ["Orders-1", "orders-2"]
    for _ in setup.history.sample(100):
        pass
    _, listed = setup.get("/api/v1/queues?details=true&contains=mail")
    (mail,) = listed["queues"]
    assert mail["messages"] == {"visible": 1, "in_flight": 0, "delayed": 0}
    assert mail["rates"] == {"sent": 0.1, "received": 0.0, "removed": 0.0}
    _, first = setup.get("/api/v1/queues?details=true&limit=2")
    _, rest = setup.get(f"/api/v1/queues?details=true&limit=2&cursor={first['cursor']}")
    assert [q["name"] for q in first["queues"] + rest["queues"]] == ["Orders-1", "mail", "orders-2"]


def test_histories_are_shown(setup: AdminSetup) -> None:
    created(setup, "q")
    setup.change("POST", f"{QUEUES}/q/messages", {"body": "m"})
    _, before = setup.get(f"{QUEUES}/q/history")
    assert before["passed"]["sent"] == 1 and before["sent"] == []
    for _ in setup.history.sample(100):
        pass
    _, after = setup.get(f"{QUEUES}/q/history")
    assert (after["newest_ms"], after["sent"], after["visible"]) == (1_000_000, [1], [1])
    _, overview = setup.get("/api/v1/overview")
    assert overview["stored"] == 1 and overview["history"]["stored"] == [1]
    assert [row["name"] for row in overview["busiest"]] == ["q"]
    assert overview["deepest"] == [{"account": ACCOUNT, "region": REGION, "name": "q", "stored": 1}]


HOSTILE = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("POST", "/api/v1/queues", {}, 400),
        ("POST", "/api/v1/queues", [], 400),
        ("POST", "/api/v1/queues", "x", 400),
        ("POST", "/api/v1/queues", {"name": HOSTILE}, 400),
        ("POST", "/api/v1/queues", {"name": "../../etc/passwd"}, 400),
        ("POST", "/api/v1/queues", {"name": "x" * 100_000}, 400),
        ("POST", "/api/v1/queues", {"name": ""}, 400),
        ("POST", "/api/v1/queues", {"name": "a.fifo"}, 400),
        ("POST", "/api/v1/queues", {"name": "new", "account": "1"}, 400),
        ("POST", "/api/v1/queues", {"name": "new", "account": "a" * 12}, 400),
        ("POST", "/api/v1/queues", {"name": "new", "region": "US EAST"}, 400),
        ("POST", "/api/v1/queues", {"name": "new", "region": "a" * 33}, 400),
        ("POST", "/api/v1/queues", {"name": "new", "attributes": {"X": "1"}}, 400),
        ("POST", "/api/v1/queues", {"name": "new", "attributes": {"DelaySeconds": "901"}}, 400),
        ("POST", "/api/v1/queues", {"name": "new", "attributes": {"DelaySeconds": 5}}, 400),
        ("POST", "/api/v1/queues", {"name": "new", "tags": {"": "x"}}, 400),
        ("POST", "/api/v1/queues", {"name": "new", "tags": {"aws:x": "x"}}, 400),
        ("POST", "/api/v1/queues", {"name": "new", "more": True}, 400),
        ("POST", "/api/v1/queues?x=1", {"name": "new"}, 400),
        ("PATCH", f"{QUEUES}/q", {"attributes": {}}, 400),
        ("PATCH", f"{QUEUES}/q", {"attributes": {"VisibilityTimeout": "-1"}}, 400),
        ("PATCH", f"{QUEUES}/q", {"attributes": {"VisibilityTimeout": "9" * 50}}, 400),
        ("PATCH", f"{QUEUES}/q", {"attributes": {"RedrivePolicy": HOSTILE}}, 400),
        (
            "PATCH",
            f"{QUEUES}/q",
            {"attributes": {"DelaySeconds": "5", "VisibilityTimeout": "x"}},
            400,
        ),
        ("PATCH", f"{QUEUES}/none", {"attributes": {"DelaySeconds": "5"}}, 404),
        ("PUT", f"{QUEUES}/none/tags", {"tags": {}}, 404),
        ("POST", f"{QUEUES}/none/messages", {"body": "m"}, 404),
        ("POST", f"{QUEUES}/none/purge", {"confirm": "none"}, 404),
        ("PUT", f"{QUEUES}/q/tags", {"tags": {str(n): "x" for n in range(51)}}, 400),
        ("PUT", f"{QUEUES}/q/tags", {"tags": {"k" * 129: "x"}}, 400),
        ("PUT", f"{QUEUES}/q/tags", {"tags": {"k": "x" * 257}}, 400),
        ("PUT", f"{QUEUES}/q/tags", {}, 400),
        ("POST", f"{QUEUES}/q/messages", {"body": ""}, 400),
        ("POST", f"{QUEUES}/q/messages", {"body": "\x00"}, 400),
        ("POST", f"{QUEUES}/q/messages", {"body": "\ud800"}, 400),
        ("POST", f"{QUEUES}/q/messages", {"body": "x" * 1_048_577}, 400),
        ("POST", f"{QUEUES}/q/messages", {"body": "m", "delay_seconds": 901}, 400),
        ("POST", f"{QUEUES}/q/messages", {"body": "m", "delay_seconds": -1}, 400),
        ("POST", f"{QUEUES}/q/messages", {"body": "m", "delay_seconds": 10**30}, 400),
        ("POST", f"{QUEUES}/q/messages", {"body": "m", "attributes": {"": "x"}}, 400),
        ("POST", f"{QUEUES}/q/redrive", {}, 400),
        ("POST", f"{QUEUES}/q/redrive", {"destination": HOSTILE}, 400),
        ("POST", f"{QUEUES}/q/redrive", {"max_per_second": 0}, 400),
        ("GET", f"{QUEUES}/none/redrive", None, 404),
        ("GET", f"{QUEUES}/none/history", None, 404),
        ("GET", f"{QUEUES}/none/dead-letters", None, 404),
        ("GET", f"{QUEUES}/q/dead-letters?x=1", None, 400),
        ("GET", "/api/v1/queues?details=yes", None, 400),
        ("GET", "/api/v1/queues?details=true&limit=101", None, 400),
        ("GET", "/api/v1/overview/more", None, 404),
        ("GET", "/api/v1/overview?x=1", None, 400),
    ],
)
def test_what_is_wrong_is_refused_and_changes_nothing(
    setup: AdminSetup, method: str, target: str, body: Any, status: int
) -> None:
    created(setup, "q")
    setup.change("PUT", f"{QUEUES}/q/tags", {"tags": {"keep": "me"}})
    setup.change("POST", f"{QUEUES}/q/messages", {"body": "keep"})
    before = state_of(setup)
    answered, code = setup.error(method, target, body)
    assert answered == status and code
    assert state_of(setup) == before


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"null", b"[" * 100_000, b'{"name": "new"} x']
)
def test_what_is_no_json_is_refused(setup: AdminSetup, body: bytes) -> None:
    kind = "Content-Type: application/json"
    status, _, answer = setup.send("/api/v1/queues", kind, method="POST", body=body)
    assert (status, json.loads(answer)["error"]["code"]) == (400, "bad_request")


def test_a_form_of_a_web_page_changes_nothing(setup: AdminSetup) -> None:
    created(setup, "q")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        status, _, _ = setup.send(
            f"{QUEUES}/q/purge", f"Content-Type: {kind}", method="POST", body=b'{"confirm": "q"}'
        )
        assert status == 415
