"""A real node with a credentials file: boto3 with the right, the wrong and unknown keys, presigned
URLs, a wrong clock, and keys that come and go while the node runs.
"""

import http.client
import json
import signal
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.nodes import Node, refused_start

OWNER = ("AKIAOWNER", "owner-secret/+=", "123456789012")
OTHER = ("AKIAOTHER", "other-secret", "999999999999")
RELOAD_SECONDS = 60.0
FILE = "credentials.json"


def write_keys(folder: Path, *keys: tuple[str, str, str]) -> Path:
    names = ("access_key_id", "secret_access_key", "account")
    new, path = folder / "credentials.new", folder / FILE
    new.write_text(
        json.dumps({"credentials": [dict(zip(names, key, strict=True)) for key in keys]})
    )
    new.chmod(0o600)
    return new.replace(path)


def client(url: str, key: str, secret: str, **more: Any) -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=url,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=60, read_timeout=60),
        **{"region_name": "us-east-1"} | more,
    )


def refusal(call: Callable[[], object]) -> tuple[int, str, str]:
    with pytest.raises(ClientError) as caught:
        call()
    answer = caught.value.response
    status: int = answer["ResponseMetadata"]["HTTPStatusCode"]
    return status, answer["Error"]["Code"], answer["Error"]["Message"]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("signatures")
    path = write_keys(folder, OWNER, OTHER)
    with Node(folder / "data", "--credentials", str(path)) as running:
        yield running
        assert running.stop() == 0, running.stderr_tail()


@pytest.fixture(scope="module")
def owner(node: Node) -> Iterator[Any]:
    made = client(node.sqs_url, *OWNER[:2])
    yield made
    made.close()


def test_the_life_of_a_message_with_the_right_key(node: Node, owner: Any) -> None:
    url = owner.create_queue(QueueName="orders")["QueueUrl"]
    assert url == f"{node.sqs_url}/{OWNER[2]}/orders"
    for body in ("héllo", "second", "x" * 200_000):
        owner.send_message(QueueUrl=url, MessageBody=body)
    messages = owner.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in messages] == ["héllo", "second", "x" * 200_000]
    for message in messages:
        owner.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_wrong_and_unknown_keys_are_told_apart(node: Node) -> None:
    wrong = refusal(client(node.sqs_url, OWNER[0], "wrong").list_queues)
    assert wrong[:2] == (403, "SignatureDoesNotMatch")
    unknown = refusal(client(node.sqs_url, "AKIANOBODY", OWNER[1]).list_queues)
    text = "The security token included in the request is invalid."
    assert unknown == (403, "InvalidClientTokenId", text)


def test_a_session_token_changes_nothing(node: Node) -> None:
    made = client(node.sqs_url, *OWNER[:2], aws_session_token="FwoGZXIvYXdz//token==")
    made.list_queues()


def test_accounts_and_regions_are_apart(node: Node, owner: Any) -> None:
    owner.create_queue(QueueName="apart")
    elsewhere = client(node.sqs_url, *OWNER[:2], region_name="eu-west-1")
    assert "QueueUrls" not in elsewhere.list_queues()
    other = client(node.sqs_url, *OTHER[:2])
    assert "QueueUrls" not in other.list_queues()
    url = other.create_queue(QueueName="apart")["QueueUrl"]
    assert url == f"{node.sqs_url}/{OTHER[2]}/apart"


@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_clock_that_is_off_is_told_so(
    node: Node, owner: Any, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    true_time = auth.get_current_datetime

    def skewed(*arguments: Any) -> datetime:
        moment: datetime = true_time(*arguments) + timedelta(minutes=minutes)
        return moment

    monkeypatch.setattr(auth, "get_current_datetime", skewed)
    status, code, text = refusal(owner.list_queues)
    assert (status, code) == (403, "SignatureDoesNotMatch")
    assert text.startswith("Signature expired:" if minutes < 0 else "Signature not yet current:")


def get(url: str, **headers: str) -> tuple[int, str]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    try:
        connection.request("GET", f"{parts.path or '/'}?{parts.query}", headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def presigned(url: str, query: str) -> str:
    request = AWSRequest("GET", f"{url}/?{query}")
    credentials = Credentials(*OWNER[:2])
    auth.SigV4QueryAuth(credentials, "sqs", "us-east-1", expires=60).add_auth(request)
    signed: str = request.url
    return signed


def test_a_presigned_link_works_in_a_shell(node: Node, owner: Any) -> None:
    queue = owner.create_queue(QueueName="linked")["QueueUrl"]
    link = presigned(node.sqs_url, "Action=GetQueueUrl&QueueName=linked")
    status, body = get(link)
    assert (status, queue in body) == (200, True), body
    status, body = get(link.replace("linked", "other"))
    assert (status, "<Code>SignatureDoesNotMatch</Code>" in body) == (403, True), body
    status, body = get(link, Authorization="AWS4-HMAC-SHA256 x")
    assert (status, "Found both" in body) == (403, True), body


def test_who_does_not_sign_is_denied(node: Node) -> None:
    status, body = get(f"{node.sqs_url}/?Action=ListQueues")
    assert (status, "<Code>AccessDenied</Code>" in body) == (403, True), body


def test_keys_come_and_go_while_the_node_runs(tmp_path: Path) -> None:
    path = write_keys(tmp_path, OWNER)
    with Node(tmp_path / "data", "--credentials", str(path)) as running:
        owner = client(running.sqs_url, *OWNER[:2])
        other = client(running.sqs_url, *OTHER[:2])
        owner.list_queues()
        assert refusal(other.list_queues)[1] == "InvalidClientTokenId"
        write_keys(tmp_path, OTHER)
        running.process.send_signal(signal.SIGHUP)
        until(lambda: is_admitted(other))
        assert refusal(owner.list_queues)[1] == "InvalidClientTokenId"
        # A bad file changes nothing; this one is found without a signal.
        path.write_text("{")
        until(lambda: "the old credentials stay in force" in running.stderr_tail())
        other.list_queues()
        write_keys(tmp_path, OWNER, OTHER)
        until(lambda: is_admitted(owner))
        other.list_queues()
        assert running.stop() == 0
        assert OWNER[1] not in running.stderr_tail()


def is_admitted(made: Any) -> bool:
    try:
        made.list_queues()
    except ClientError:
        return False
    return True


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + RELOAD_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def test_a_node_does_not_start_with_keys_that_others_can_read(tmp_path: Path) -> None:
    path = write_keys(tmp_path, OWNER)
    path.chmod(0o644)
    data = tmp_path / "data"
    code, said = refused_start(data, "--credentials", str(path))
    assert (code, f"chmod 600 {path}" in said) == (1, True), said
    assert not data.exists()


def test_a_strict_node_serves_its_own_region_only(tmp_path: Path) -> None:
    path = write_keys(tmp_path, OWNER)
    more = ("--strict", "--region", "eu-north-1", "--credentials", str(path))
    with Node(tmp_path / "data", *more) as running:
        client(running.sqs_url, *OWNER[:2], region_name="eu-north-1").list_queues()
        status, code, text = refusal(client(running.sqs_url, *OWNER[:2]).list_queues)
        assert (status, code) == (403, "SignatureDoesNotMatch")
        assert text == "Credential should be scoped to a valid region, not 'us-east-1'. "
