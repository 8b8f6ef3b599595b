"""A real node in the Query protocol: by hand over a socket, and through botocore as old SDKs spoke.

botocore gave the protocol up, but can still be taught it: its own model of the service gets back
the names that only Query has.
"""

import gzip
import http.client
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import botocore
import botocore.config
import botocore.session
import pytest

from tests.nodes import ANSWER_SECONDS, REGION, Node

NAMESPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
AWKWARD = 'a&b <c> "d" \r\n\té 😀 100% +1'


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node") / "data") as running:
        yield running
        assert running.stop() == 0, running.stderr_tail()


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def texts(self, name: str) -> list[str]:
        root = ElementTree.fromstring(self.body)
        return [element.text or "" for element in root.iter(NAMESPACE + name)]

    def text(self, name: str) -> str:
        (only,) = self.texts(name)
        return only


class Raw:
    """One connection; parameters in, answers out."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(
            str(address.hostname), address.port, timeout=ANSWER_SECONDS
        )

    def send(
        self, method: str, target: str, body: str = "", headers: dict[str, str] | None = None
    ) -> Answer:
        self._connection.request(method, target, body, headers or {})
        return Answer(self._connection.getresponse())

    def post(self, action: str, path: str = "/", **parameters: object) -> Answer:
        form = urlencode({"Action": action, "Version": "2012-11-05", **parameters})
        return self.send("POST", path, form, {"Content-Type": "application/x-www-form-urlencoded"})

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def raw(node: Node) -> Iterator[Raw]:
    client = Raw(node.sqs_url)
    yield client
    client.close()


@pytest.fixture
def url(raw: Raw, request: pytest.FixtureRequest) -> str:
    return raw.post("CreateQueue", QueueName=request.node.name[:80]).text("QueueUrl")


def test_a_message_lives_its_life_by_post(raw: Raw, url: str) -> None:
    sent = raw.post("SendMessage", QueueUrl=url, MessageBody=AWKWARD)
    assert (sent.status, sent.headers["Content-Type"]) == (200, "text/xml")
    assert sent.text("RequestId") == sent.headers["x-amzn-RequestId"]
    received = raw.post("ReceiveMessage", QueueUrl=url, **{"AttributeName.1": "All"})
    assert received.text("MessageId") == sent.text("MessageId")
    assert received.text("Body") == AWKWARD
    assert received.text("MD5OfBody") == sent.text("MD5OfMessageBody")
    assert "ApproximateReceiveCount" in received.texts("Name")
    handle = received.text("ReceiptHandle")
    deleted = raw.post("DeleteMessage", QueueUrl=url, ReceiptHandle=handle)
    assert deleted.body.startswith(b'<?xml version="1.0"?><DeleteMessageResponse xmlns=')
    assert b"<ReceiveMessageResult/>" in raw.post("ReceiveMessage", QueueUrl=url).body


def test_a_link_needs_no_body_and_no_queue_parameter(raw: Raw, url: str) -> None:
    path = urlsplit(url).path
    sent = raw.send("GET", f"{path}?Action=SendMessage&MessageBody=hello%2Fworld&X-Amz-Extra=%20")
    assert (sent.status, sent.text("MD5OfMessageBody")) == (200, "c6be4e95a26409675447367b3e79f663")
    local = f"/queue/{REGION}{path}?Action=ReceiveMessage&WaitTimeSeconds=1"
    assert raw.send("GET", local).text("Body") == "hello/world"
    assert raw.send("GET", f"{path}?Action=DeleteQueue").status == 200
    gone = raw.send("GET", f"{path}?Action=ReceiveMessage")
    assert (gone.status, gone.text("Code")) == (400, "AWS.SimpleQueueService.NonExistentQueue")
    assert gone.text("Message") == "The specified queue does not exist for this wsdl version."


def test_whoever_asks_for_json_gets_it(raw: Raw, url: str) -> None:
    accept = {"Accept": "application/json"}
    path = urlsplit(url).path
    empty = raw.send("GET", f"{path}?Action=ReceiveMessage", headers=accept)
    assert json.loads(empty.body)["ReceiveMessageResponse"]["ReceiveMessageResult"] == {
        "messages": None
    }
    refused = raw.send("GET", f"{path}?Action=ListQueues", headers=accept)
    error = json.loads(refused.body)["Error"]
    assert (refused.status, error["Code"]) == (400, "InvalidAction")
    assert error["Message"] == "The action ListQueues is not valid for this endpoint."


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "code"),
    [
        ("GET", "/", "", 404, None),
        ("POST", "/", "x=1", 400, "MissingParameter"),
        ("POST", "/", "Action=Nonsense%00", 400, "InvalidAction"),
        ("POST", "/", "Action=SendMessage&MessageBody=x", 400, "MissingParameter"),
        ("POST", "/", "Action=ListQueues&MaxResults=ten", 400, "MalformedInput"),
        ("POST", "/", "Action=ListQueues&QueueNamePrefix=%ff%", 400, "MalformedInput"),
        ("POST", "/", "&" * 100_000 + "Action=ListQueues", 400, "MalformedInput"),
        ("PUT", "/?Action=ListQueues", "", 405, None),
    ],
)
def test_bad_requests_get_clean_answers(
    raw: Raw, method: str, target: str, body: str, status: int, code: str | None
) -> None:
    answer = raw.send(method, target, body)
    assert answer.status == status
    if code is not None:
        assert answer.text("Code") == code


# --- botocore -----------------------------------------------------------------------------------

LISTS = {
    "AttributeNameList": "AttributeName",
    "MessageSystemAttributeList": "AttributeName",
    "MessageAttributeNameList": "MessageAttributeName",
    "ActionNameList": "ActionName",
    "AWSAccountIdList": "AWSAccountId",
    "TagKeyList": "TagKey",
    "QueueUrlList": "QueueUrl",
}
MAPS = {
    "QueueAttributeMap": ("Attribute", "Name"),
    "MessageSystemAttributeMap": ("Attribute", "Name"),
    "MessageBodyAttributeMap": ("MessageAttribute", "Name"),
    "MessageBodySystemAttributeMap": ("MessageSystemAttribute", "Name"),
    "TagMap": ("Tag", "Key"),
}
CODES = {
    "QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue",
    "EmptyBatchRequest": "AWS.SimpleQueueService.EmptyBatchRequest",
}


def query_model() -> dict[str, Any]:
    """botocore's model of SQS, as it was when its protocol was Query."""
    data = Path(botocore.__file__).parent / "data/sqs/2012-11-05/service-2.json.gz"
    model: dict[str, Any] = json.loads(gzip.decompress(data.read_bytes()))
    for name in ("awsQueryCompatible", "jsonVersion", "targetPrefix"):
        del model["metadata"][name]
    model["metadata"] |= {"protocol": "query", "protocols": ["query"]}
    for name, operation in model["operations"].items():
        if "output" in operation:
            operation["output"]["resultWrapper"] = f"{name}Result"
    for name, shape in model["shapes"].items():
        add_query_names(name, shape)
    return model


def add_query_names(name: str, shape: dict[str, Any]) -> None:
    if shape["type"] == "list" and shape.get("flattened"):
        shape["member"]["locationName"] = LISTS.get(name, shape["member"]["shape"])
    elif shape["type"] == "map":
        shape["key"]["locationName"] = MAPS[name][1]
        shape["value"]["locationName"] = "Value"
    elif shape["type"] == "structure":
        for member in shape["members"].values():
            if member["shape"] in MAPS:
                member["locationName"] = MAPS[member["shape"]][0]
    if shape.get("exception"):
        shape["error"] = {"code": CODES.get(name, name), "httpStatusCode": 400}


@pytest.fixture(scope="module")
def sqs(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("models")
    model = folder / "sqs" / "2012-11-05" / "service-2.json"
    model.parent.mkdir(parents=True)
    model.write_text(json.dumps(query_model()))
    session = botocore.session.Session()
    session.get_component("data_loader").search_paths.insert(0, str(folder))
    client = session.create_client(
        "sqs",
        endpoint_url=node.sqs_url,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=botocore.config.Config(retries={"total_max_attempts": 1}),
    )
    assert client.meta.service_model.metadata["protocol"] == "query"
    yield client
    client.close()


def test_an_old_sdk_lives_a_messages_life(sqs: Any) -> None:
    url = sqs.create_queue(
        QueueName="old-sdk", Attributes={"VisibilityTimeout": "7"}, tags={"team": "blue"}
    )["QueueUrl"]
    attributes = {
        "n": {"DataType": "Number", "StringValue": "1"},
        "b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    sent = sqs.send_message(QueueUrl=url, MessageBody=AWKWARD, MessageAttributes=attributes)
    (message,) = sqs.receive_message(
        QueueUrl=url, MessageAttributeNames=["All"], MessageSystemAttributeNames=["SenderId"]
    )["Messages"]
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], AWKWARD)
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert list(message["Attributes"]) == ["SenderId"]
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=20
    )
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
    assert shown["Attributes"] == {"VisibilityTimeout": "7"}
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "blue"}
    assert url in sqs.list_queues(QueueNamePrefix="old-")["QueueUrls"]


def test_an_old_sdk_sends_and_deletes_batches(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="old-batches")["QueueUrl"]
    entries = [{"Id": str(number), "MessageBody": f"body {number}"} for number in range(10)]
    entries[3]["MessageBody"] = "\x01"
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in sent["Successful"]] == list("012456789")
    (failed,) = sent["Failed"]
    assert (failed["Id"], failed["SenderFault"]) == ("3", True)
    assert failed["Code"] == "InvalidMessageContents"
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in messages] == [
        f"body {n}" for n in (0, 1, 2, *range(4, 10))
    ]
    deleted = sqs.delete_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": message["MessageId"], "ReceiptHandle": message["ReceiptHandle"]}
            for message in messages
        ],
    )
    assert len(deleted["Successful"]) == 9
    assert "Failed" not in deleted


def test_an_old_sdk_recognises_errors(sqs: Any) -> None:
    with pytest.raises(sqs.exceptions.QueueDoesNotExist) as caught:
        sqs.get_queue_url(QueueName="nowhere")
    error = caught.value.response["Error"]
    assert error["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert error["Message"] == "The specified queue does not exist for this wsdl version."
    url = sqs.create_queue(QueueName="old-errors")["QueueUrl"]
    with pytest.raises(sqs.exceptions.EmptyBatchRequest):
        sqs.delete_message_batch(QueueUrl=url, Entries=[])
