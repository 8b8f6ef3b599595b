"""The console of a cluster of three: who is there, who leads, and changing it."""

import re
from collections.abc import Iterator

import pytest

from tests.browser.conftest import Open, photograph
from tests.cluster.client import Client
from tests.cluster.harness import Cluster, static_cluster
from tests.cluster.network import Loopback


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with static_cluster(tmp_path_factory.mktemp("cluster"), Loopback()) as made:
        yield made


def test_members_and_leads(cluster: Cluster, open_page: Open) -> None:
    first = cluster.members[1]
    client = Client(lambda: [first.sqs_url])
    for number in range(8):
        name = f"spread-{number}"
        client.insist("CreateQueue", QueueName=name)
        client.insist("SendMessage", QueueUrl=f"http://h/000000000000/{name}", MessageBody="m")
    client.close()
    page = open_page(first, "#/cluster")
    page.get_by_text("Healthy").wait_for()
    members = page.get_by_role("table", name="Members")
    for number in (1, 2, 3):
        members.get_by_role("rowheader", name=f"Node {number}").wait_for()
    other = cluster.await_leaders()[0] % 3 + 1
    page.get_by_role("button", name="Transfer the lead of group 0").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To").select_option(f"Node {other}")
    dialog.get_by_role("button", name="Transfer").click()
    page.get_by_text(f"Node {other} now leads 1 group more.").wait_for()
    groups = page.get_by_role("table", name="Groups")
    row = groups.get_by_role("row").filter(has_text="Group 0")
    row.get_by_text(f"node {other}", exact=True).wait_for()
    photograph(page, "cluster")
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("heading", name="Node 2").wait_for()
    # What all nodes lead together.
    page.get_by_text(re.compile("Latest: stored 8")).wait_for(timeout=90_000)
    photograph(page, "overview-cluster")


def test_a_wrong_member_is_refused_with_the_reason(cluster: Cluster, open_page: Open) -> None:
    page = open_page(cluster.members[2], "#/cluster", tolerates="409")
    page.get_by_role("button", name="Add a member").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("three bear the loss of one").wait_for()
    for number, address in (("0", "h:1"), ("x", "h:1"), ("70000", "h:1"), ("4", "nowhere")):
        dialog.get_by_label("Node number").fill(number)
        dialog.get_by_label("Address").fill(address)
        dialog.get_by_role("button", name="Add").click()
        dialog.get_by_text(re.compile("^Give ")).first.wait_for()
    dialog.get_by_label("Node number").fill("1")
    dialog.get_by_label("Address").fill("127.0.0.1:1")
    dialog.get_by_role("button", name="Add").click()
    dialog.get_by_role("alert").filter(has_text=re.compile(".+")).wait_for()


def test_a_member_is_removed_by_whoever_names_it(cluster: Cluster, open_page: Open) -> None:
    cluster.members[3].kill()
    page = open_page(cluster.members[1], "#/cluster")
    page.get_by_text("Degraded: node 3 unreachable").wait_for()
    page.get_by_role("button", name="Remove node 3").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("can bear the loss of none").wait_for()
    photograph(page, "remove")
    dialog.get_by_label("Type node 3 to confirm").fill("node 3")
    dialog.get_by_role("button", name="Remove").click()
    page.get_by_text("Node 3 is no longer a member.").wait_for()
    page.get_by_role("table", name="Members").get_by_role("rowheader", name="Node 3").wait_for(
        state="detached"
    )
