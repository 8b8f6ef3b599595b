"""The checks of a real client with aioboto3, as an asyncio application would write them. A program,
not a test.

Endpoint, credentials and queue name come from the environment; each check prints a line.
"""

import asyncio
import os
import time
from typing import Any

import aioboto3
from botocore.config import Config

ATTRIBUTES = {
    "text": {"DataType": "String", "StringValue": "grüße"},
    "count": {"DataType": "Number", "StringValue": "7"},
    "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
}
BODY = 'a "body" <with> & 🐇\r\n'


class Check:
    def __init__(self, sqs: Any, name: str, url: str) -> None:
        self.sqs = sqs
        self.name = name
        self.url = url

    async def receive(self, **members: Any) -> list[dict[str, Any]]:
        answer = await self.sqs.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=10, **members
        )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    async def shown(self) -> dict[str, str]:
        answer = await self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["All"])
        attributes: dict[str, str] = answer["Attributes"]
        return attributes

    async def life_cycle(self) -> None:
        assert (await self.sqs.get_queue_url(QueueName=self.name))["QueueUrl"] == self.url
        sent = await self.sqs.send_message(
            QueueUrl=self.url, MessageBody=BODY, MessageAttributes=ATTRIBUTES
        )
        (message,) = await self.receive(MessageAttributeNames=["All"], AttributeNames=["All"])
        assert message["MessageId"] == sent["MessageId"]
        assert message["Body"] == BODY, message["Body"]
        assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
        assert message["MessageAttributes"] == ATTRIBUTES
        assert message["Attributes"]["ApproximateReceiveCount"] == "1"
        await self.sqs.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
        )
        (again,) = await self.receive()
        assert again["MessageId"] == sent["MessageId"]
        await self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=again["ReceiptHandle"])
        assert (await self.shown())["ApproximateNumberOfMessagesNotVisible"] == "0"

    async def batch(self) -> None:
        bodies = ["first", "bad \x01", "third"]
        entries = [{"Id": f"e{at}", "MessageBody": body} for at, body in enumerate(bodies)]
        answer = await self.sqs.send_message_batch(QueueUrl=self.url, Entries=entries)
        assert [entry["Id"] for entry in answer["Successful"]] == ["e0", "e2"]
        failed = [(entry["Id"], entry["Code"]) for entry in answer["Failed"]]
        assert failed == [("e1", "InvalidMessageContents")]
        messages = await self.receive()
        assert [message["Body"] for message in messages] == ["first", "third"]
        doomed = [
            {"Id": f"d{at}", "ReceiptHandle": message["ReceiptHandle"]}
            for at, message in enumerate(messages)
        ]
        deleted = await self.sqs.delete_message_batch(QueueUrl=self.url, Entries=doomed)
        assert [entry["Id"] for entry in deleted["Successful"]] == ["d0", "d1"]

    async def attributes(self) -> None:
        changed = {"MessageRetentionPeriod": "300"}
        await self.sqs.set_queue_attributes(QueueUrl=self.url, Attributes=changed)
        shown = await self.shown()
        assert shown["VisibilityTimeout"] == "120"
        assert shown["MessageRetentionPeriod"] == "300"
        assert shown["QueueArn"].endswith(f":{self.name}")

    async def errors(self) -> None:
        errors = self.sqs.exceptions
        try:
            await self.sqs.get_queue_url(QueueName=f"{self.name}-absent")
        except errors.QueueDoesNotExist as error:
            assert error.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
        else:
            raise AssertionError("the queue should not exist")
        try:
            await self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle="nonsense")
        except errors.ReceiptHandleIsInvalid:
            pass
        else:
            raise AssertionError("the receipt handle should be invalid")

    async def long_poll(self) -> None:
        """Twenty polls wait on one event loop; each gets one of twenty messages."""
        started = time.monotonic()
        polls = [
            asyncio.ensure_future(
                self.sqs.receive_message(
                    QueueUrl=self.url, MaxNumberOfMessages=1, WaitTimeSeconds=20
                )
            )
            for _ in range(20)
        ]
        await asyncio.sleep(0.3)
        bodies = {f"wake {number}" for number in range(20)}
        for body in bodies:
            await self.sqs.send_message(QueueUrl=self.url, MessageBody=body)
        woken = [await poll for poll in polls]
        assert {answer["Messages"][0]["Body"] for answer in woken} == bodies
        assert time.monotonic() - started < 20


async def main() -> None:
    name = os.environ["CHECK_QUEUE"]
    config = Config(retries={"total_max_attempts": 1}, max_pool_connections=40)
    async with aioboto3.Session().client("sqs", config=config) as sqs:
        created = await sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "120"})
        check = Check(sqs, name, created["QueueUrl"])
        for run in (check.life_cycle, check.batch, check.attributes, check.errors, check.long_poll):
            await run()
            print("ok", run.__name__.replace("_", " "), flush=True)
        await sqs.delete_queue(QueueUrl=check.url)


if __name__ == "__main__":
    asyncio.run(main())
