"""Connections cut between a node's answer and its client: boto3 repeats the call, and the node does
not do it twice.

Each test runs against a node as it is, and the essential ones against one that does not recognise
repeated calls as well: there the messages are stored twice, so a second copy would be seen.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.cut_proxy import CutProxy, Exchange, LosesFirst, loses_nothing
from tests.nodes import ANSWER_SECONDS, REGION, Node, boto3_client

Message = dict[str, Any]
FORGETFUL = {"FASTNODE_DEDUP_SDK_RETRIES": "0"}
BATCH = 10
ONE_BATCH_ONLY = {"ThrottleSendCapacity": str(BATCH), "ThrottleSendRefillPerSecond": "0.01"}
# More than the smallest MaximumMessageSize.
BODY = "x" * 2_000
ATTRIBUTES = {
    "standard": {},
    "fifo": {"FifoQueue": "true", "ContentBasedDeduplication": "true"},
    "partitioned": {
        "FifoQueue": "true",
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
    },
}


class Site(NamedTuple):
    """A node, the proxy before it, a client that repeats through the proxy, one that does not."""

    node: Node
    proxy: CutProxy
    sqs: Any
    direct: Any

    def lose(self, count: int = 1, meanwhile: Callable[[], object] = lambda: None) -> None:
        """The next so many answers."""
        self.proxy.exchanges.clear()
        self.proxy.loses = LosesFirst(count, meanwhile)

    def attempts(self) -> list[Exchange]:
        """Of the call whose answer was lost: all with the same invocation id."""
        self.proxy.check()
        found = list(self.proxy.exchanges)
        assert len(found) > 1, "nothing was repeated"
        assert len({exchange.invocation for exchange in found}) == 1
        return found

    def lost_answer(self) -> Any:
        return json.loads(self.attempts()[0].answer)


def repeating_client(url: str) -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(
            retries={"max_attempts": 3, "mode": "standard"},
            connect_timeout=ANSWER_SECONDS,
            read_timeout=ANSWER_SECONDS,
        ),
    )


def site_of(node: Node) -> Iterator[Site]:
    with node, CutProxy(lambda: [node.sqs_url]) as proxy:
        site = Site(node, proxy, repeating_client(proxy.url), boto3_client(node.sqs_url))
        yield site
        site.sqs.close()
        site.direct.close()


@pytest.fixture(scope="module")
def node_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from site_of(Node(tmp_path_factory.mktemp("cut") / "data"))


@pytest.fixture(scope="module")
def forgetful_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    node = Node(tmp_path_factory.mktemp("forgetful") / "data")
    node.more_environment = FORGETFUL
    yield from site_of(node)


@pytest.fixture
def site(node_site: Site) -> Site:
    node_site.proxy.loses = loses_nothing
    return node_site


@pytest.fixture
def forgetful(forgetful_site: Site) -> Site:
    forgetful_site.proxy.loses = loses_nothing
    return forgetful_site


@pytest.fixture(params=["standard"])
def queue(request: pytest.FixtureRequest) -> str:
    """The name of a queue, of the kind that the test chooses; `create` makes it."""
    kind: str = request.param
    base = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-60:]
    return base if kind == "standard" else f"{base}-{kind}.fifo"


def create(site: Site, queue: str) -> str:
    kind = queue.removesuffix(".fifo").rpartition("-")[2] if queue.endswith(".fifo") else "standard"
    url: str = site.direct.create_queue(QueueName=queue, Attributes=ATTRIBUTES[kind])["QueueUrl"]
    return url


def entry(queue: str, number: int, body: str) -> dict[str, str]:
    if not queue.endswith(".fifo"):
        return {"MessageBody": body}
    ids = {"MessageGroupId": f"group-{number % 4}", "MessageDeduplicationId": f"id-{number}"}
    return {"MessageBody": body} | ids


def send_one(sqs: Any, queue: str) -> list[tuple[str, str]]:
    """Body and id of what was answered."""
    answer = sqs.send_message(QueueUrl=queue, **entry(queue, 0, BODY))
    return [(BODY, answer["MessageId"])]


def send_batch(sqs: Any, queue: str) -> list[tuple[str, str]]:
    bodies = {str(number): f"{number} {BODY}" for number in range(BATCH)}
    entries = [{"Id": at} | entry(queue, int(at), body) for at, body in bodies.items()]
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert "Failed" not in answer
    return [(bodies[row["Id"]], row["MessageId"]) for row in answer["Successful"]]


Send = Callable[[Any, str], list[tuple[str, str]]]
SENDS = [send_one, send_batch]


def receive(sqs: Any, queue: str, **members: Any) -> list[Message]:
    asked = {"MaxNumberOfMessages": 10, "VisibilityTimeout": 600} | members
    messages: list[Message] = sqs.receive_message(QueueUrl=queue, **asked).get("Messages", [])
    return messages


def delete(sqs: Any, queue: str, messages: list[Message]) -> None:
    handles = [
        {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
        for number, message in enumerate(messages)
    ]
    assert "Failed" not in sqs.delete_message_batch(QueueUrl=queue, Entries=handles)


def take_all(site: Site, queue: str) -> list[tuple[str, str]]:
    """Body and id of everything that is stored; deleted, so that nothing is held back or seen
    twice.
    """
    found: list[tuple[str, str]] = []
    while messages := receive(site.direct, queue):
        found += [(message["Body"], message["MessageId"]) for message in messages]
        delete(site.direct, queue, messages)
    return sorted(found)


def filled(site: Site, queue: str, count: int) -> str:
    url = create(site, queue)
    for number in range(count):
        site.direct.send_message(QueueUrl=queue, **entry(queue, number, f"body {number}"))
    return url


# --- sends --------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", list(ATTRIBUTES), indirect=True)
@pytest.mark.parametrize("send", SENDS)
def test_a_send_without_an_answer_is_stored_once(site: Site, queue: str, send: Send) -> None:
    create(site, queue)
    site.lose(2)
    told = send(site.sqs, queue)
    assert len(site.attempts()) == 3
    assert take_all(site, queue) == sorted(told)


@pytest.mark.parametrize("send", SENDS)
def test_a_node_that_forgets_calls_stores_them_twice(
    forgetful: Site, queue: str, send: Send
) -> None:
    create(forgetful, queue)
    forgetful.lose()
    told = send(forgetful.sqs, queue)
    assert len(forgetful.attempts()) == 2
    stored = take_all(forgetful, queue)
    assert [body for body, _ in stored] == sorted(body for body, _ in told * 2)
    assert set(told) < set(stored)


def consume(site: Site, queue: str) -> None:
    assert take_all(site, queue), "nothing was stored"


def purge(site: Site, queue: str) -> None:
    site.direct.purge_queue(QueueUrl=queue)


def delete_queue(site: Site, queue: str) -> None:
    site.direct.delete_queue(QueueUrl=queue)


def recreate(site: Site, queue: str) -> None:
    delete_queue(site, queue)
    create(site, queue)


@pytest.mark.parametrize("queue", list(ATTRIBUTES), indirect=True)
@pytest.mark.parametrize("meanwhile", [consume, purge, delete_queue, recreate])
@pytest.mark.parametrize("send", SENDS)
def test_what_went_meanwhile_is_answered_and_not_stored_again(
    site: Site, queue: str, meanwhile: Callable[[Site, str], None], send: Send
) -> None:
    url = create(site, queue)
    site.lose(meanwhile=lambda: meanwhile(site, queue))
    told = send(site.sqs, url)
    answered = site.lost_answer()
    rows = answered.get("Successful", [answered])
    assert [message_id for _, message_id in told] == [row["MessageId"] for row in rows]
    create(site, queue)
    assert take_all(site, queue) == []


@pytest.mark.parametrize("queue", list(ATTRIBUTES), indirect=True)
@pytest.mark.parametrize("send", SENDS)
def test_limits_that_were_tightened_meanwhile_refuse_nothing_that_is_stored(
    site: Site, queue: str, send: Send
) -> None:
    url = create(site, queue)
    tight = {"QueueUrl": url, "Attributes": {"MaximumMessageSize": "1024"}}
    site.lose(meanwhile=lambda: site.direct.set_queue_attributes(**tight))
    told = send(site.sqs, queue)
    site.attempts()
    assert take_all(site, queue) == sorted(told)
    with pytest.raises(ClientError):
        site.direct.send_message(QueueUrl=queue, **entry(queue, BATCH, BODY))


@pytest.mark.parametrize("queue", list(ATTRIBUTES), indirect=True)
def test_a_repeated_call_is_not_charged_again(site: Site, queue: str) -> None:
    """The queue may be sent so much and no more; an SDK would repeat a refusal, too."""
    url = create(site, queue)
    site.direct.set_queue_attributes(QueueUrl=url, Attributes=ONE_BATCH_ONLY)
    site.lose()
    told = send_batch(site.sqs, queue)
    assert [exchange.status for exchange in site.attempts()] == [200, 200]
    assert take_all(site, queue) == sorted(told)


def test_entries_that_were_refused_stay_refused_when_limits_are_raised(
    site: Site, queue: str
) -> None:
    url = create(site, queue)
    change_limit = site.direct.set_queue_attributes
    change_limit(QueueUrl=url, Attributes={"MaximumMessageSize": "1024"})
    raised = {"QueueUrl": url, "Attributes": {"MaximumMessageSize": "4096"}}
    site.lose(meanwhile=lambda: change_limit(**raised))
    bodies = ["a", BODY, "c"]
    entries = [{"Id": str(at)} | entry(queue, at, body) for at, body in enumerate(bodies)]
    answer = site.sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert answer["Successful"] == site.lost_answer()["Successful"]
    assert [row["Id"] for row in answer["Failed"]] == ["1"]
    assert take_all(site, queue) == [
        (at, row["MessageId"]) for at, row in zip("ac", answer["Successful"], strict=True)
    ]


@pytest.mark.parametrize("send", SENDS)
def test_a_call_is_remembered_by_a_node_that_was_killed_meanwhile(
    tmp_path: Path, queue: str, send: Send
) -> None:
    node = Node(tmp_path / "data")

    def restart() -> None:
        node.kill()
        node.start()

    for site in site_of(node):
        create(site, queue)
        site.lose(meanwhile=restart)
        told = send(site.sqs, queue)
        assert len(site.attempts()) == 2
        again = site._replace(direct=boto3_client(node.sqs_url))
        assert take_all(again, queue) == sorted(told)
        again.direct.close()


# --- receives, deletes, visibility --------------------------------------------------------------


def by_id(messages: list[Any]) -> list[Any]:
    return sorted(messages, key=lambda message: str(message["MessageId"]))


@pytest.mark.parametrize("queue", list(ATTRIBUTES), indirect=True)
def test_a_receive_without_an_answer_gives_the_same_messages(site: Site, queue: str) -> None:
    filled(site, queue, 4)
    site.lose(2)
    messages = receive(site.sqs, queue)
    # Partitions take turns, so their order among each other says nothing.
    assert by_id(messages) == by_id(site.lost_answer()["Messages"])
    assert len(messages) == 4
    delete(site.direct, queue, messages)
    assert take_all(site, queue) == []


def test_a_node_that_forgets_calls_has_given_the_messages_away(forgetful: Site, queue: str) -> None:
    filled(forgetful, queue, 4)
    forgetful.lose()
    assert receive(forgetful.sqs, queue) == []
    assert len(forgetful.lost_answer()["Messages"]) == 4


def test_a_repeated_receive_of_what_was_deleted_meanwhile_is_a_new_one(
    site: Site, queue: str
) -> None:
    filled(site, queue, 2)

    def delete_first() -> None:
        lost = json.loads(site.proxy.exchanges[0].answer)["Messages"]
        delete(site.direct, queue, lost)

    site.lose(meanwhile=delete_first)
    (message,) = receive(site.sqs, queue, MaxNumberOfMessages=1)
    assert message["Body"] == "body 1"
    assert site.lost_answer()["Messages"][0]["Body"] == "body 0"


@pytest.mark.parametrize("queue", list(ATTRIBUTES), indirect=True)
def test_a_delete_without_an_answer_has_succeeded(site: Site, queue: str) -> None:
    filled(site, queue, 4)
    messages = receive(site.direct, queue)
    site.lose(2)
    delete(site.sqs, queue, messages)
    assert len(site.attempts()) == 3
    site.direct.get_queue_url(QueueName=queue)
    assert take_all(site, queue) == []


def give_back_and_take(site: Site, queue: str) -> list[Message]:
    """A consumer gives a message back and is not told so, another one takes it before the call is
    repeated; what a third one gets.
    """
    filled(site, queue, 1)
    (message,) = receive(site.direct, queue)
    taken: list[Message] = []
    site.lose(meanwhile=lambda: taken.extend(receive(site.direct, queue)))
    site.sqs.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
    )
    site.attempts()
    assert len(taken) == 1
    return receive(site.direct, queue)


@pytest.mark.parametrize("queue", list(ATTRIBUTES), indirect=True)
def test_a_message_given_back_without_an_answer_keeps_its_next_lease(
    site: Site, queue: str
) -> None:
    assert give_back_and_take(site, queue) == []


def test_a_node_that_forgets_calls_takes_the_next_lease_away(forgetful: Site, queue: str) -> None:
    assert len(give_back_and_take(forgetful, queue)) == 1
