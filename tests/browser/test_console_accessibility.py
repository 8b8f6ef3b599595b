"""The console for everybody: names of controls, contrast, the keyboard alone, a narrow screen."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import DESKTOP, PHONE, Open, photograph, queue_place
from tests.nodes import JsonClient, Node

if TYPE_CHECKING:
    from playwright.sync_api import Page

PLACES = {
    "overview": "#/",
    "queues": "#/queues",
    "queue": queue_place("reach"),
    "messages": queue_place("reach", "messages"),
    "settings": queue_place("reach", "settings"),
    "dead-letters": queue_place("reach", "dead-letters"),
    "cluster": "#/cluster",
}
SCRIPT = Path(__file__).with_name("accessibility.js").read_text(encoding="utf-8")
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def look_for(page: "Page", what: str) -> Any:
    """What a function of accessibility.js finds on the page."""
    return page.evaluate(f"{SCRIPT}\n{what}()")


@pytest.fixture(scope="module")
def reach(node: Node) -> Node:
    """A queue with something to see on every tab."""
    client = JsonClient(node.sqs_url)
    client.call("CreateQueue", QueueName="reach", tags={"team": "blue"})
    url = "http://localhost/000000000000/reach"
    for number in range(3):
        client.call("SendMessage", QueueUrl=url, MessageBody=f'{{"n": {number}, "t": "x"}}')
    client.close()
    return node


def settled(page: "Page", name: str) -> None:
    """What the page fetches is shown."""
    words = {
        "overview": "Healthy",
        "queues": "reach",
        "queue": "In short",
        "messages": "3 messages",
        "settings": "Save tags",
        "dead-letters": "None.",
        "cluster": "Group 0",
    }
    page.get_by_text(words[name]).first.wait_for()
    if name == "messages":
        page.get_by_text('{"n": 0').click()
        page.get_by_label("Body, as JSON").wait_for()
    if name == "settings":
        page.get_by_text("Rate limits and policies").click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_page_can_be_read_and_used(
    reach: Node, open_page: Open, size: tuple[int, int], scheme: str
) -> None:
    page = open_page(reach, size=size, scheme=scheme)
    for name, place in PLACES.items():
        page.goto(f"{reach.admin_url}/console/{place}")
        settled(page, name)
        shape = "phone" if size == PHONE else "desktop"
        photograph(page, f"{name}-{shape}-{scheme}")
        found = look_for(page, "contrast")
        assert found["looked"] > 5 and found["poor"] == [], name
        assert look_for(page, "unnamed") == [], name
        assert page.evaluate(OVERFLOW) <= 0, f"{name} is wider than the screen"
        if size == PHONE:
            assert look_for(page, "small") == [], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dialogs_can_be_read(reach: Node, open_page: Open, scheme: str) -> None:
    page = open_page(reach, queue_place("reach", "settings"), size=PHONE, scheme=scheme)
    for name in ("Delete queue", "Send a message"):
        page.get_by_role("button", name=name).click()
        page.get_by_role("dialog").wait_for()
        assert look_for(page, "contrast")["poor"] == []
        assert look_for(page, "unnamed") == []
        assert page.evaluate(OVERFLOW) <= 0
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")


def test_the_keyboard_is_enough(reach: Node, open_page: Open) -> None:
    """From the first key press to a new queue and its deletion, without a pointer."""
    page = open_page(reach, "#/queues")
    page.get_by_text("reach").wait_for()

    def focused() -> str:
        text: str = page.evaluate(
            "document.activeElement.getAttribute('aria-label') || document.activeElement.innerText"
            " || document.activeElement.labels?.[0]?.innerText || ''"
        )
        return text

    def tab_to(name: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if focused().startswith(name):
                ring = "getComputedStyle(document.activeElement).outlineStyle"
                assert page.evaluate(ring) != "none", f"nobody sees where {name} is"
                return
        raise AssertionError(f"the keyboard does not reach {name}")

    page.keyboard.press("Tab")
    assert focused() == "Skip to the content"
    page.keyboard.press("Enter")
    tab_to("Create queue")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    assert focused() == "Name", "a dialog begins with its first field"
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="by-keyboard").wait_for()
    tab_to("Settings")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Delete queue").wait_for()
    tab_to("Delete queue")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Queues").wait_for()
    page.get_by_role("link", name="by-keyboard").wait_for(state="detached")


def test_the_theme_can_be_chosen_and_stays(reach: Node, open_page: Open) -> None:
    page = open_page(reach)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Theme: auto").click()
    page.get_by_role("button", name="Theme: light").click()
    page.get_by_role("button", name="Theme: dark").wait_for()
    assert page.evaluate(ground) != light
    page.reload()
    page.get_by_role("button", name="Theme: dark").wait_for()
