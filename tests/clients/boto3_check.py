"""The checks of a real client with boto3, as an application would write them. A program, not a
test: it runs under any version of boto3, the old ones that speak Query too.

Endpoint, credentials and queue name come from the environment; each check prints a line.
"""

import os
import threading
import time
from typing import Any

import boto3
from botocore.config import Config

ATTRIBUTES = {
    "text": {"DataType": "String", "StringValue": "grüße"},
    "count": {"DataType": "Number", "StringValue": "7"},
    "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
}
BODY = 'a "body" <with> & 🐇\r\n'


class Check:
    def __init__(self, name: str) -> None:
        self.sqs: Any = boto3.client("sqs", config=Config(retries={"total_max_attempts": 1}))
        self.name = name
        created = self.sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "120"})
        self.url: str = created["QueueUrl"]

    def receive(self, **members: Any) -> list[dict[str, Any]]:
        answer = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10, **members)
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    def shown(self) -> dict[str, str]:
        answer = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["All"])
        attributes: dict[str, str] = answer["Attributes"]
        return attributes

    def life_cycle(self) -> None:
        assert self.sqs.get_queue_url(QueueName=self.name)["QueueUrl"] == self.url
        sent = self.sqs.send_message(
            QueueUrl=self.url, MessageBody=BODY, MessageAttributes=ATTRIBUTES
        )
        (message,) = self.receive(MessageAttributeNames=["All"], AttributeNames=["All"])
        assert message["MessageId"] == sent["MessageId"]
        assert message["Body"] == BODY, message["Body"]
        assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
        assert message["MessageAttributes"] == ATTRIBUTES
        assert message["Attributes"]["ApproximateReceiveCount"] == "1"
        self.sqs.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
        )
        (again,) = self.receive()
        assert again["MessageId"] == sent["MessageId"]
        self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=again["ReceiptHandle"])
        assert self.shown()["ApproximateNumberOfMessagesNotVisible"] == "0"

    def batch(self) -> None:
        bodies = ["first", "bad \x01", "third"]
        entries = [{"Id": f"e{at}", "MessageBody": body} for at, body in enumerate(bodies)]
        answer = self.sqs.send_message_batch(QueueUrl=self.url, Entries=entries)
        assert [entry["Id"] for entry in answer["Successful"]] == ["e0", "e2"]
        failed = [(entry["Id"], entry["Code"]) for entry in answer["Failed"]]
        assert failed == [("e1", "InvalidMessageContents")]
        messages = self.receive()
        assert [message["Body"] for message in messages] == ["first", "third"]
        doomed = [
            {"Id": f"d{at}", "ReceiptHandle": message["ReceiptHandle"]}
            for at, message in enumerate(messages)
        ]
        deleted = self.sqs.delete_message_batch(QueueUrl=self.url, Entries=doomed)
        assert [entry["Id"] for entry in deleted["Successful"]] == ["d0", "d1"]

    def attributes(self) -> None:
        changed = {"MessageRetentionPeriod": "300"}
        self.sqs.set_queue_attributes(QueueUrl=self.url, Attributes=changed)
        shown = self.shown()
        assert shown["VisibilityTimeout"] == "120"
        assert shown["MessageRetentionPeriod"] == "300"
        assert shown["QueueArn"].endswith(f":{self.name}")

    def errors(self) -> None:
        errors = self.sqs.exceptions
        try:
            self.sqs.get_queue_url(QueueName=f"{self.name}-absent")
        except errors.QueueDoesNotExist as error:
            assert error.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
        else:
            raise AssertionError("the queue should not exist")
        try:
            self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle="nonsense")
        except errors.ReceiptHandleIsInvalid:
            pass
        else:
            raise AssertionError("the receipt handle should be invalid")

    def long_poll(self) -> None:
        started = time.monotonic()
        wake = {"QueueUrl": self.url, "MessageBody": "wake up"}
        waker = threading.Timer(0.3, self.sqs.send_message, kwargs=wake)
        waker.start()
        (message,) = self.receive(WaitTimeSeconds=20)
        waker.join()
        assert message["Body"] == "wake up"
        assert 0.3 <= time.monotonic() - started < 10


def main() -> None:
    check = Check(os.environ["CHECK_QUEUE"])
    for run in (check.life_cycle, check.batch, check.attributes, check.errors, check.long_poll):
        run()
        print("ok", run.__name__.replace("_", " "), flush=True)
    check.sqs.delete_queue(QueueUrl=check.url)


if __name__ == "__main__":
    main()
