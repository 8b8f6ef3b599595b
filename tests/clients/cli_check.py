"""The checks of a real client with the AWS CLI, as a person or a script would type them. A program,
not a test.

The endpoint, the credentials and the queue's name come from the environment, the path of `aws` from
the command line; one line per check is printed.
"""

import base64
import json
import os
import subprocess
import sys
import time
from typing import Any

BODY = 'a "body" <with> & 🐇\r\n'
ATTRIBUTES: dict[str, dict[str, str]] = {
    "text": {"DataType": "String", "StringValue": "grüße"},
    "count": {"DataType": "Number", "StringValue": "7"},
    "bytes": {"DataType": "Binary", "BinaryValue": "raw"},
}
# Version 1 of the CLI takes bytes as they are and shows them in base64.
SHOWN = ATTRIBUTES | {
    "bytes": {"DataType": "Binary", "BinaryValue": base64.b64encode(b"raw").decode()}
}
COMMAND_SECONDS = 60


class Cli:
    def __init__(self, aws: str) -> None:
        self._aws = aws

    def start(self, command: str, **options: object) -> "subprocess.Popen[str]":
        # Version 1 of the CLI replaces the endpoint of the environment, but never one it is told.
        endpoint = ["--endpoint-url", os.environ["AWS_ENDPOINT_URL"]]
        words = [self._aws, "sqs", command, "--output", "json", *endpoint]
        for name, value in options.items():
            text = value if isinstance(value, str) else json.dumps(value)
            words += ["--" + name.replace("_", "-"), text]
        return subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        )

    def run(self, command: str, **options: object) -> dict[str, Any]:
        return self.finish(self.start(command, **options))

    def finish(self, process: "subprocess.Popen[str]") -> dict[str, Any]:
        output, complaint = process.communicate(timeout=COMMAND_SECONDS)
        assert process.returncode == 0, complaint
        answer: dict[str, Any] = json.loads(output) if output.strip() else {}
        return answer

    def fail(self, command: str, **options: object) -> str:
        """What a command that must fail says."""
        process = self.start(command, **options)
        _, complaint = process.communicate(timeout=COMMAND_SECONDS)
        assert process.returncode != 0, f"{command} should have failed"
        return complaint


class Check:
    def __init__(self, name: str, cli: Cli) -> None:
        self.cli = cli
        self.name = name
        chosen = {"VisibilityTimeout": "120"}
        self.url: str = cli.run("create-queue", queue_name=name, attributes=chosen)["QueueUrl"]

    def receive(self, **options: object) -> list[dict[str, Any]]:
        answer = self.cli.run(
            "receive-message", queue_url=self.url, max_number_of_messages=10, **options
        )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    def shown(self) -> dict[str, str]:
        answer = self.cli.run("get-queue-attributes", queue_url=self.url, attribute_names="All")
        attributes: dict[str, str] = answer["Attributes"]
        return attributes

    def life_cycle(self) -> None:
        cli, url = self.cli, self.url
        assert cli.run("get-queue-url", queue_name=self.name)["QueueUrl"] == url
        sent = cli.run(
            "send-message", queue_url=url, message_body=BODY, message_attributes=ATTRIBUTES
        )
        (message,) = self.receive(
            message_attribute_names="All", message_system_attribute_names="All"
        )
        assert message["MessageId"] == sent["MessageId"]
        assert message["Body"] == BODY, message["Body"]
        assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
        assert message["MessageAttributes"] == SHOWN
        assert message["Attributes"]["ApproximateReceiveCount"] == "1"
        handle = message["ReceiptHandle"]
        cli.run(
            "change-message-visibility", queue_url=url, receipt_handle=handle, visibility_timeout=0
        )
        (again,) = self.receive()
        assert again["MessageId"] == sent["MessageId"]
        cli.run("delete-message", queue_url=url, receipt_handle=again["ReceiptHandle"])
        assert self.shown()["ApproximateNumberOfMessagesNotVisible"] == "0"

    def batch(self) -> None:
        bodies = ["first", "bad \x01", "third"]
        entries = [{"Id": f"e{at}", "MessageBody": body} for at, body in enumerate(bodies)]
        answer = self.cli.run("send-message-batch", queue_url=self.url, entries=entries)
        assert [entry["Id"] for entry in answer["Successful"]] == ["e0", "e2"]
        failed = [(entry["Id"], entry["Code"]) for entry in answer["Failed"]]
        assert failed == [("e1", "InvalidMessageContents")]
        messages = self.receive()
        assert [message["Body"] for message in messages] == ["first", "third"]
        doomed = [
            {"Id": f"d{at}", "ReceiptHandle": message["ReceiptHandle"]}
            for at, message in enumerate(messages)
        ]
        deleted = self.cli.run("delete-message-batch", queue_url=self.url, entries=doomed)
        assert [entry["Id"] for entry in deleted["Successful"]] == ["d0", "d1"]

    def attributes(self) -> None:
        changed = {"MessageRetentionPeriod": "300"}
        self.cli.run("set-queue-attributes", queue_url=self.url, attributes=changed)
        shown = self.shown()
        assert shown["VisibilityTimeout"] == "120"
        assert shown["MessageRetentionPeriod"] == "300"
        assert shown["QueueArn"].endswith(f":{self.name}")

    def errors(self) -> None:
        absent = self.cli.fail("get-queue-url", queue_name=f"{self.name}-absent")
        assert "(AWS.SimpleQueueService.NonExistentQueue)" in absent, absent
        refused = self.cli.fail("delete-message", queue_url=self.url, receipt_handle="nonsense")
        assert "(ReceiptHandleIsInvalid)" in refused, refused

    def long_poll(self) -> None:
        """The poll is a process of its own; it holds on until the message is there."""
        started = time.monotonic()
        poll = self.cli.start("receive-message", queue_url=self.url, wait_time_seconds=20)
        self.cli.run("send-message", queue_url=self.url, message_body="wake up")
        (message,) = self.cli.finish(poll)["Messages"]
        assert message["Body"] == "wake up"
        assert time.monotonic() - started < 20


def main() -> None:
    check = Check(os.environ["CHECK_QUEUE"], Cli(sys.argv[1]))
    for run in (check.life_cycle, check.batch, check.attributes, check.errors, check.long_poll):
        run()
        print("ok", run.__name__.replace("_", " "), flush=True)
    check.cli.run("delete-queue", queue_url=check.url)


if __name__ == "__main__":
    main()
