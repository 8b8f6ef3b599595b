"""Queues in the console: what an operator does with them, by the words on the page."""

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Open, photograph, queue_place
from tests.nodes import JsonClient, Node

if TYPE_CHECKING:
    from playwright.sync_api import Page

URL = "http://localhost/000000000000/"


def create(client: JsonClient, name: str, **attributes: str) -> str:
    client.call("CreateQueue", QueueName=name, Attributes=attributes)
    return URL + name


def attributes_of(client: JsonClient, name: str) -> dict[str, str]:
    found = client.call("GetQueueAttributes", QueueUrl=URL + name, AttributeNames=["All"])
    attributes: dict[str, str] = found["Attributes"]
    return attributes


def row_of(page: "Page", name: str) -> list[str]:
    """The numbers in the table of queues."""
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
    cells: list[str] = row.get_by_role("cell").all_inner_texts()
    return cells


def test_a_queue_is_created_and_found(node: Node, client: JsonClient, open_page: Open) -> None:
    page = open_page(node, "#/queues", tolerates="409")
    page.get_by_role("button", name="Create queue").click()
    dialog = page.get_by_role("dialog", name="Create queue")
    dialog.get_by_label("Name").fill("no good name")
    dialog.get_by_role("button", name="Create").click()
    dialog.get_by_text("Give 1 to 80 letters").wait_for()
    dialog.get_by_label("Name").fill("made-here")
    dialog.get_by_role("radio", name="FIFO").check()
    dialog.get_by_text("Attributes", exact=True).click()
    dialog.get_by_label("Delay new messages by", exact=True).fill("20")
    dialog.get_by_label("Unit of: Delay new messages by").select_option("minutes")
    dialog.get_by_role("button", name="Create").click()
    dialog.get_by_text("so that it is 0 seconds to 15 minutes").wait_for()
    photograph(page, "create")
    dialog.get_by_label("Delay new messages by", exact=True).fill("2")
    dialog.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="made-here.fifo").wait_for()
    assert attributes_of(client, "made-here.fifo")["DelaySeconds"] == "120"
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Queues").click()
    page.get_by_label("Search").fill("MADE")
    page.get_by_text("1 queue", exact=True).wait_for()
    page.get_by_role("button", name="Create queue").click()
    dialog.get_by_label("Name").fill("made-here")
    dialog.get_by_role("radio", name="FIFO").check()
    dialog.get_by_role("button", name="Create").click()
    dialog.get_by_text("There is a queue of this name already.").wait_for()


def test_queues_are_sorted(node: Node, client: JsonClient, open_page: Open) -> None:
    for name, messages in (("sort-a", 1), ("sort-b", 3), ("sort-c", 2)):
        url = create(client, name)
        for _ in range(messages):
            client.call("SendMessage", QueueUrl=url, MessageBody="m")
    page = open_page(node, "#/queues")
    page.get_by_label("Search").fill("sort-")
    page.get_by_text("3 queues", exact=True).wait_for()

    def order() -> list[str]:
        links: list[str] = page.get_by_role("table").get_by_role("link").all_inner_texts()
        return links

    assert order() == ["sort-a", "sort-b", "sort-c"]
    page.get_by_role("button", name="Visible").click()
    assert order() == ["sort-b", "sort-c", "sort-a"]
    page.get_by_role("button", name="Visible").click()
    assert order() == ["sort-a", "sort-c", "sort-b"]
    assert row_of(page, "sort-b")[:3] == ["3", "0", "0"]
    photograph(page, "queues")


def test_attributes_and_tags_are_edited(node: Node, client: JsonClient, open_page: Open) -> None:
    create(client, "edit-dead")
    create(client, "edit")
    page = open_page(node, queue_place("edit", "settings"), tolerates="400")
    hidden_for = page.get_by_label("Hide a received message for", exact=True)
    for wrong in ("-1", "abc", "99999999", "1e3", "<b>5</b>"):
        hidden_for.fill(wrong)
        page.get_by_role("button", name="Save attributes").click()
        page.get_by_text("so that it is 0 seconds to 12 hours").wait_for()
        assert attributes_of(client, "edit")["VisibilityTimeout"] == "30"
    hidden_for.fill("45")
    page.get_by_label("Dead-letter queue", exact=True).fill("edit-dead")
    page.get_by_label("…after so many receives").fill("7")
    page.get_by_role("button", name="Save attributes").click()
    page.get_by_text("The attributes were saved.").wait_for()
    saved = attributes_of(client, "edit")
    assert saved["VisibilityTimeout"] == "45"
    assert json.loads(saved["RedrivePolicy"])["maxReceiveCount"] == 7
    page.get_by_label("Dead-letter queue", exact=True).fill("does-not-exist")
    page.get_by_role("button", name="Save attributes").click()
    page.get_by_role("alert").filter(has_text="RedrivePolicy").wait_for()
    page.get_by_role("button", name="Add a tag").click()
    page.get_by_label("Key").fill("team")
    page.get_by_label("Value").fill("<i>blue</i>")
    page.get_by_role("button", name="Save tags").click()
    page.get_by_text("The tags were saved.").wait_for()
    tags = client.call("ListQueueTags", QueueUrl=URL + "edit")["Tags"]
    assert tags == {"team": "<i>blue</i>"}
    photograph(page, "settings")


def test_messages_are_sent_looked_at_and_filtered(
    node: Node, client: JsonClient, open_page: Open
) -> None:
    create(client, "look")
    page = open_page(node, queue_place("look", "messages"))
    page.get_by_text("No message is visible.").wait_for()
    for body in ('{"order": 12345678901234567890, "lines": [{"sku": "A"}]}', "plain apple"):
        page.get_by_role("button", name="Send a message").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Body").fill(body)
        dialog.get_by_role("button", name="Send").click()
        dialog.wait_for(state="detached")
    page.get_by_role("button", name="Look again").click()
    page.get_by_text("2 messages. Looking changes nothing.").wait_for()
    page.get_by_text('{"order"').click()
    pretty = page.get_by_label("Body, as JSON").inner_text()
    assert pretty.split("\n")[:2] == ["{", '  "order": 12345678901234567890,'], (
        "every digit is kept"
    )
    assert '\n      "sku": "A"\n' in pretty
    photograph(page, "messages")
    page.get_by_label("Filter").fill("apple")
    page.get_by_label("Filter").press("Enter")
    page.get_by_text("1 message. Looking changes nothing.").wait_for()
    page.get_by_text("plain apple").wait_for()
    received = client.call(
        "ReceiveMessage", QueueUrl=URL + "look", AttributeNames=["ApproximateReceiveCount"]
    )
    count = received["Messages"][0]["Attributes"]["ApproximateReceiveCount"]
    assert count == "1", "a look is no receive"
    page.get_by_label("Filter").fill("")
    page.get_by_label("In flight").check()
    page.get_by_text("1 message. Looking changes nothing.").wait_for()


HOSTILE = (
    '<img src=x onerror="alert(1)">',
    "<script>alert(2)</script>",
    '{"a": "</pre><script>alert(3)</script>", "<b>": "<svg onload=alert(4)>"}',
    "javascript:alert(5) \u202e gnirts \u2066",
    '"><iframe srcdoc="<script>parent.alert(6)</script>">',
    "{" * 5_000,
    "[" * 3_000 + "]" * 3_000,
)


def test_a_hostile_body_is_text(node: Node, client: JsonClient, open_page: Open) -> None:
    """No element comes of it, no script runs (a dialog fails the test), nothing is fetched."""
    url = create(client, "hostile")
    for body in HOSTILE:
        client.call("SendMessage", QueueUrl=url, MessageBody=body)
    page = open_page(node, queue_place("hostile", "messages"))
    page.get_by_text(f"{len(HOSTILE)} messages.").wait_for()
    for item in page.get_by_role("listitem").filter(has_text="ago").all():
        item.get_by_text(re.compile(" ago")).click()
        item.get_by_text("Message id").wait_for()
    shown = page.get_by_label(re.compile("^(Body|The first)")).all_inner_texts()
    assert shown[:2] == list(HOSTILE[:2])
    assert '"</pre><script>alert(3)</script>"' in shown[2]
    kinds = "() => document.querySelectorAll('main img, main script, main iframe').length"
    assert page.evaluate(kinds) == 0
    page.get_by_label("Filter").fill('"><img src=x onerror=alert(7)>')
    page.get_by_label("Filter").press("Enter")
    page.get_by_text("No message has this text.").wait_for()


def test_purge_and_delete_want_the_name(node: Node, client: JsonClient, open_page: Open) -> None:
    url = create(client, "doomed")
    client.call("SendMessage", QueueUrl=url, MessageBody="m")
    page = open_page(node, queue_place("doomed", "settings"))
    page.get_by_role("button", name="Purge queue").click()
    dialog = page.get_by_role("dialog", name="Purge queue")
    purge = dialog.get_by_role("button", name="Purge")
    for wrong in ("", "Doomed", "doomed "):
        dialog.get_by_label("Type doomed to confirm").fill(wrong)
        assert purge.is_disabled()
    dialog.get_by_label("Type doomed to confirm").fill("doomed")
    purge.click()
    page.get_by_text("The queue was purged.").wait_for()
    assert attributes_of(client, "doomed")["ApproximateNumberOfMessages"] == "0"
    page.get_by_role("button", name="Delete queue").click()
    photograph(page, "delete")
    dialog = page.get_by_role("dialog", name="Delete queue")
    dialog.get_by_label("Type doomed to confirm").fill("doomed")
    dialog.get_by_role("button", name="Delete").click()
    page.get_by_role("heading", name="Queues").wait_for()
    assert client.call("ListQueues", QueueNamePrefix="doomed").get("QueueUrls", []) == []


def test_dead_letters_are_followed_and_moved_back(
    node: Node, client: JsonClient, open_page: Open
) -> None:
    dead = create(client, "again-dead")
    policy = {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:again-dead"}
    create(client, "again", RedrivePolicy=json.dumps(policy | {"maxReceiveCount": 3}))
    for number in range(40):
        client.call("SendMessage", QueueUrl=dead, MessageBody=f"m{number}")
    page = open_page(node, queue_place("again", "dead-letters"))
    page.get_by_text("after 3 receives").wait_for()
    page.get_by_role("link", name="again-dead").click()
    page.get_by_role("button", name="Move messages back").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("At most, a second").fill("501")
    dialog.get_by_role("button", name="Move").click()
    dialog.get_by_text("Give a whole number from 1 to 500.").wait_for()
    # It lasts until it is stopped, however slow a browser is.
    dialog.get_by_label("At most, a second").fill("1")
    dialog.get_by_label("To").fill("again")
    dialog.get_by_role("button", name="Move").click()
    page.get_by_role("progressbar", name=re.compile("of about 40 moved to again")).wait_for()
    photograph(page, "redrive")
    page.get_by_role("button", name="Stop").click()
    page.get_by_text(re.compile("moved to again, stopp")).wait_for()
    page.get_by_role("button", name="Move messages back").click()
    dialog.get_by_label("To").fill("again")
    dialog.get_by_role("button", name="Move").click()
    page.get_by_text(re.compile("moved to again, done")).wait_for()
    assert attributes_of(client, "again")["ApproximateNumberOfMessages"] == "40"


def test_rates_and_depth_are_plotted(node: Node, client: JsonClient, open_page: Open) -> None:
    url = create(client, "busy")
    page = open_page(node, queue_place("busy"))
    for _ in range(30):
        client.call("SendMessage", QueueUrl=url, MessageBody="m")
    plot = page.get_by_role("img", name="Messages in the queue")
    page.get_by_text(re.compile("Latest: visible 30")).wait_for(timeout=90_000)
    plot.focus()
    plot.press("ArrowLeft")
    page.get_by_text(re.compile(r"^\d\d:\d\d:\d\d: visible")).wait_for()
    photograph(page, "queue")
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name="busy").first.wait_for()
    page.get_by_text("Healthy").wait_for()
    photograph(page, "overview")


@pytest.mark.parametrize(
    "place",
    [
        "#/nowhere",
        "#/queues/1/2/3",
        "#/queues/000000000000/us-east-1/../../x",
        "#/queues/000000000000/us-east-1/%3Cscript%3E",
        "#/<img src=x onerror=alert(1)>",
        "#" + "a" * 5_000,
    ],
)
def test_an_address_that_leads_nowhere_says_so(node: Node, open_page: Open, place: str) -> None:
    page = open_page(node, place)
    page.get_by_role("heading", name="There is no such page").wait_for()


def test_a_queue_that_is_gone_says_so(node: Node, open_page: Open) -> None:
    page = open_page(node, queue_place("never-was"), tolerates="404")
    page.get_by_role("alert").filter(has_text="There is no such queue.").wait_for()
