"""Queues by name, for the commands about them: found, counted, or missed with a suggestion."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from fastnode.cli.node_client import Refusal, SqsClient
from fastnode.errors import FastnodeError

_MISSING: Final = "QueueDoesNotExist"
_PAGE: Final = 1_000
_COUNTS: Final = {
    "visible": "ApproximateNumberOfMessages",
    "in_flight": "ApproximateNumberOfMessagesNotVisible",
    "delayed": "ApproximateNumberOfMessagesDelayed",
}


class NoSuchQueue(FastnodeError):
    exit_code = 4


class Depth(NamedTuple):
    name: str
    visible: int
    in_flight: int
    delayed: int

    @property
    def total(self) -> int:
        return self.visible + self.in_flight + self.delayed


class Queues:
    def __init__(self, client: SqsClient) -> None:
        self.client = client

    def urls(self, prefix: str = "") -> Iterator[str]:
        more: dict[str, object] = {"QueueNamePrefix": prefix} if prefix else {}
        while True:
            page = self.client.call("ListQueues", MaxResults=_PAGE, **more)
            yield from page.get("QueueUrls", ())
            if not page.get("NextToken"):
                return
            more["NextToken"] = page["NextToken"]

    def url(self, name: str) -> str:
        """Of a queue by its name, or by its URL."""
        if "://" in name:
            name = name_of(name)
        try:
            return str(self.client.call("GetQueueUrl", QueueName=name)["QueueUrl"])
        except Refusal as error:
            if error.code != _MISSING:
                raise
            raise NoSuchQueue(self._missed(name)) from error

    def arn(self, name: str) -> str:
        return self.attributes(self.url(name), "QueueArn")["QueueArn"]

    def attributes(self, url: str, *names: str) -> dict[str, str]:
        try:
            answer = self.client.call(
                "GetQueueAttributes", QueueUrl=url, AttributeNames=list(names) or ["All"]
            )
        except Refusal as error:
            if error.code != _MISSING:
                raise
            raise NoSuchQueue(f"queue {name_of(url)!r} is gone") from error
        found: dict[str, str] = answer.get("Attributes", {})
        return found

    def depth(self, url: str) -> Depth:
        return depth_of(name_of(url), self.attributes(url, *_COUNTS.values()))

    def _missed(self, name: str) -> str:
        names = [name_of(url) for url in self.urls()]
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        if near:
            return f"no queue {name!r}, did you mean {near[0]!r}?"
        if not names:
            return f"no queue {name!r}, and no other; 'fastnode queue create {name}' makes it"
        return f"no queue {name!r}; 'fastnode queue ls' shows those that exist"


def depth_of(name: str, attributes: Mapping[str, Any]) -> Depth:
    return Depth(name, *(int(attributes.get(key, 0)) for key in _COUNTS.values()))


def name_of(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]
