"""Signing in to the console: tokens, roles, sessions that end."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import Open, photograph, queue_place
from tests.nodes import JsonClient, Node

FULL, READ_ONLY = "a-token-that-may-do-all", "a-token-that-may-look"
ENTRIES = [
    {"name": "ops", "token": FULL, "role": "full"},
    {"name": "wall", "token": READ_ONLY, "role": "read-only"},
]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("tokens") / "tokens.json"
    path.write_text(json.dumps({"tokens": ENTRIES}))
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, tokens: Path) -> Iterator[Node]:
    path: Path = tmp_path_factory.mktemp("guarded")
    with Node(path / "data", "--admin-tokens", str(tokens)) as node:
        client = JsonClient(node.sqs_url)
        client.call("CreateQueue", QueueName="q")
        client.close()
        yield node


def test_a_token_opens_the_console_and_signing_out_closes_it(
    guarded: Node, open_page: Open
) -> None:
    page = open_page(guarded, "#/queues", tolerates="401")
    page.get_by_label("Admin token").fill("not-a-token")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").filter(has_text="The token is not known.").wait_for()
    photograph(page, "sign-in")
    page.get_by_label("Admin token").fill(FULL)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="q", exact=True).wait_for()
    page.get_by_text("ops").wait_for()
    assert page.evaluate("document.cookie") == "", "no script can read it"
    page.reload()
    page.get_by_role("link", name="q", exact=True).wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Admin token").wait_for()
    page.reload()
    page.get_by_label("Admin token").wait_for()


def test_who_may_only_look_is_shown_no_way_to_change(guarded: Node, open_page: Open) -> None:
    page = open_page(guarded, queue_place("q", "settings"))
    page.get_by_label("Admin token").fill(READ_ONLY)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("Your token may look only").wait_for()
    page.get_by_text("wall · may look only").wait_for()
    for name in ("Save attributes", "Save tags", "Purge queue", "Delete queue"):
        assert page.get_by_role("button", name=name).is_disabled()
    page.get_by_role("link", name="Cluster").click()
    assert page.get_by_role("button", name="Add a member").is_disabled()


def test_a_token_that_is_taken_away_ends_its_sessions(
    guarded: Node, tokens: Path, open_page: Open
) -> None:
    page = open_page(guarded, tolerates="401")
    page.get_by_label("Admin token").fill(FULL)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("Healthy").wait_for()
    tokens.write_text(json.dumps({"tokens": ENTRIES[1:]}))
    page.get_by_label("Admin token").wait_for()
    tokens.write_text(json.dumps({"tokens": ENTRIES}))


def test_a_lost_session_of_an_open_node_is_begun_anew(node: Node, open_page: Open) -> None:
    page = open_page(node, "#/queues", tolerates="403")
    page.get_by_role("button", name="Create queue").click()
    page.context.clear_cookies()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("still-works")
    dialog.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="still-works").wait_for()
