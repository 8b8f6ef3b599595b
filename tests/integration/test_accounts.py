"""Two accounts on one open node, through boto3: what is whose, and what a policy opens."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.nodes import ANSWER_SECONDS, REGION, Node

OWNER, FRIEND = "111122223333", "444455556666"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("accounts") / "data") as running:
        yield running


def client_of(url: str, account: str) -> Any:
    """An access key of twelve digits is an account of its own."""
    settings = Config(retries={"total_max_attempts": 1}, read_timeout=ANSWER_SECONDS)
    return boto3.client(
        "sqs",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=account,
        aws_secret_access_key="secret",
        config=settings,
    )


@pytest.fixture(scope="module")
def owner(node: Node) -> Iterator[Any]:
    client = client_of(node.sqs_url, OWNER)
    yield client
    client.close()


@pytest.fixture(scope="module")
def friend(node: Node) -> Iterator[Any]:
    client = client_of(node.sqs_url, FRIEND)
    yield client
    client.close()


@pytest.fixture
def queue(owner: Any, request: pytest.FixtureRequest) -> str:
    url: str = owner.create_queue(QueueName=request.node.name[:80])["QueueUrl"]
    return url


def refusal(call: Any, **members: Any) -> tuple[int, str, str]:
    with pytest.raises(ClientError) as caught:
        call(**members)
    response = caught.value.response
    error = response["Error"]
    return response["ResponseMetadata"]["HTTPStatusCode"], error["Code"], error["Message"]


def denial(queue: str) -> tuple[int, str, str]:
    return 403, "AccessDenied", f"Access to the resource {queue} is denied."


def set_policy(owner: Any, queue: str, **members: Any) -> None:
    statement = {"Effect": "Allow", "Principal": {"AWS": FRIEND}, "Action": "SQS:*"}
    statements = [statement | {"Resource": "*"} | members]
    text = json.dumps({"Version": "2012-10-17", "Statement": statements})
    owner.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": text})


def test_accounts_have_their_own_queues_of_one_name(owner: Any, friend: Any) -> None:
    urls = [client.create_queue(QueueName="same")["QueueUrl"] for client in (owner, friend)]
    assert [url.split("/")[-2] for url in urls] == [OWNER, FRIEND]
    owner.send_message(QueueUrl=urls[0], MessageBody="to the owner")
    assert "Messages" not in friend.receive_message(QueueUrl=urls[1])
    assert friend.list_queues(QueueNamePrefix="same")["QueueUrls"] == [urls[1]]


def test_a_permission_lets_the_other_account_send(owner: Any, friend: Any, queue: str) -> None:
    sent = {"QueueUrl": queue, "MessageBody": "hello"}
    batch = [{"Id": "a", "MessageBody": "hello"}]
    assert refusal(friend.send_message, **sent) == denial(queue)
    owner.add_permission(
        QueueUrl=queue, Label="send", AWSAccountIds=[FRIEND], Actions=["SendMessage"]
    )
    assert friend.send_message(**sent)["MessageId"]
    assert friend.send_message_batch(QueueUrl=queue, Entries=batch)["Successful"]
    assert refusal(friend.receive_message, QueueUrl=queue) == denial(queue)
    assert len(owner.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]) == 2
    owner.remove_permission(QueueUrl=queue, Label="send")
    assert refusal(friend.send_message, **sent) == denial(queue)


def test_no_policy_gives_the_queue_itself_away(owner: Any, friend: Any, queue: str) -> None:
    set_policy(owner, queue)
    assert friend.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    assert refusal(friend.delete_queue, QueueUrl=queue) == denial(queue)
    assert refusal(friend.tag_queue, QueueUrl=queue, Tags={"a": "b"}) == denial(queue)


def test_a_foreign_queue_is_found_only_with_a_right(owner: Any, friend: Any, queue: str) -> None:
    asked = {"QueueName": queue.rsplit("/", 1)[1], "QueueOwnerAWSAccountId": OWNER}
    status, code, text = refusal(friend.get_queue_url, **asked)
    assert (status, code) == (400, "AWS.SimpleQueueService.NonExistentQueue")
    assert text == "The specified queue does not exist or you do not have access to it."
    set_policy(owner, queue, Action="SQS:GetQueueUrl")
    assert friend.get_queue_url(**asked)["QueueUrl"] == queue


def test_conditions_see_the_connection(owner: Any, friend: Any, queue: str) -> None:
    sent = {"QueueUrl": queue, "MessageBody": "hello"}
    set_policy(owner, queue, Condition={"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}})
    assert friend.send_message(**sent)["MessageId"]
    set_policy(owner, queue, Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}})
    assert refusal(friend.send_message, **sent) == denial(queue)
    set_policy(owner, queue, Condition={"Bool": {"aws:SecureTransport": "true"}})
    assert refusal(friend.send_message, **sent) == denial(queue)


def test_a_denial_binds_the_owner_on_the_short_way_too(owner: Any, queue: str) -> None:
    sent = {"QueueUrl": queue, "MessageBody": "hello"}
    for _ in range(3):
        owner.send_message(**sent)
    set_policy(owner, queue, Effect="Deny", Principal="*", Action="SQS:SendMessage")
    assert refusal(owner.send_message, **sent) == denial(queue)
    owner.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": ""})
    assert owner.send_message(**sent)["MessageId"]


def test_bad_policies_are_refused_by_type(owner: Any, queue: str) -> None:
    change = {"QueueUrl": queue, "Attributes": {"Policy": "{}"}}
    expected = 400, "InvalidAttributeValue", "Invalid value for the parameter Policy."
    assert refusal(owner.set_queue_attributes, **change) == expected
    with pytest.raises(owner.exceptions.OverLimit):
        set_policy(owner, queue, Action=["SQS:SendMessage"] * 8)


def test_tags_and_policies_outlive_a_restart(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:
        owner = client_of(node.sqs_url, OWNER)
        queue = owner.create_queue(QueueName="kept", tags={"team": "a"})["QueueUrl"]
        owner.tag_queue(QueueUrl=queue, Tags={"cost": "b"})
        owner.untag_queue(QueueUrl=queue, TagKeys=["team"])
        owner.add_permission(QueueUrl=queue, Label="l", AWSAccountIds=[FRIEND], Actions=["*"])
        owner.close()
        assert node.stop() == 0, node.stderr_tail()
        node.start()
        owner, friend = client_of(node.sqs_url, OWNER), client_of(node.sqs_url, FRIEND)
        queue = owner.get_queue_url(QueueName="kept")["QueueUrl"]
        assert owner.list_queue_tags(QueueUrl=queue)["Tags"] == {"cost": "b"}
        assert friend.send_message(QueueUrl=queue, MessageBody="hello")["MessageId"]
        owner.close()
        friend.close()
