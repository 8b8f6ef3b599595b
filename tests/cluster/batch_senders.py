"""Threads that send batches with boto3 while a test does things to the cluster, and the judge of
what is stored in the end.

Every body is sent by one call only, so what exists more than once was stored more than once. An
entry is known to be stored, known to be refused, or unknown: then the client gave up.
"""

import itertools
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.cluster.harness import eventually
from tests.nodes import REGION

BATCH = 10
SENDERS = 4
# Enough to be under way at every moment, and room for three nodes on two cores.
PAUSE_SECONDS = 0.05
# Shorter than a node tries: an attempt that the client gave up may still be at work.
READ_SECONDS = 4.0
JOIN_SECONDS = 180.0


class Told(NamedTuple):
    """What the client knows of one entry."""

    body: str
    message_id: str = ""
    is_refused: bool = False


class Stored(NamedTuple):
    body: str
    message_id: str


def judge(told: Iterable[Told], stored: Sequence[Stored]) -> list[str]:
    """What is wrong; empty when every acknowledged entry is stored once with its id, every unknown
    one at most once, and nothing else is.
    """
    return list(_complaints(list(told), stored))


def _complaints(told: Sequence[Told], stored: Sequence[Stored]) -> Iterator[str]:
    copies: dict[str, list[str]] = defaultdict(list)
    for message in stored:
        copies[message.body].append(message.message_id)
    for entry in told:
        found = copies.pop(entry.body, [])
        if len(found) > 1:
            yield f"{entry.body} is stored {len(found)} times"
        if entry.message_id and entry.message_id not in found:
            yield f"{entry.body} was acknowledged as {entry.message_id}, stored is {found}"
        if entry.is_refused and found:
            yield f"{entry.body} was refused and is stored"
    yield from (f"{body} was never sent" for body in copies)


def duplicates(stored: Sequence[Stored]) -> int:
    """Messages beyond the first of each body."""
    return sum(count - 1 for count in Counter(message.body for message in stored).values())


def batch_client(url: str, *, attempts: int) -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(
            retries={"total_max_attempts": attempts, "mode": "standard"},
            connect_timeout=2,
            read_timeout=READ_SECONDS,
        ),
    )


def batch_entries(queue: str, bodies: Sequence[str]) -> list[dict[str, str]]:
    entries = [{"Id": str(at), "MessageBody": body} for at, body in enumerate(bodies)]
    if queue.endswith(".fifo"):
        # A group for each: none holds another message back when all are taken out.
        for entry, body in zip(entries, bodies, strict=True):
            entry |= {"MessageGroupId": body, "MessageDeduplicationId": body}
    return entries


class Senders:
    """They run within the context; `told` grows meanwhile."""

    def __init__(self, url: str, queue: str, *, attempts: int) -> None:
        self.told: list[Told] = []
        self.gave_up = 0
        self._url, self._queue, self._attempts = url, queue, attempts
        self._ending = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(SENDERS)
        ]

    def __enter__(self) -> "Senders":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)

    @property
    def acknowledged(self) -> int:
        return sum(1 for entry in list(self.told) if entry.message_id)

    def await_progress(self) -> None:
        """A batch that began now or later was acknowledged."""
        base = self.acknowledged
        eventually("batches are acknowledged", lambda: self.acknowledged > base + SENDERS * BATCH)

    def check(self) -> None:
        assert not any(thread.is_alive() for thread in self._threads), "a sender hangs"
        if self._failures:
            raise self._failures[0]

    def _run(self, number: int) -> None:
        client = batch_client(self._url, attempts=self._attempts)
        try:
            for serial in itertools.count():
                if self._ending.wait(PAUSE_SECONDS):
                    return
                self.told += self._send(client, [f"{number}/{serial}/{at}" for at in range(BATCH)])
        except (AssertionError, KeyError, ClientError) as error:
            self._failures.append(error)
        finally:
            client.close()

    def _send(self, client: Any, bodies: list[str]) -> list[Told]:
        entries = batch_entries(self._queue, bodies)
        try:
            answer = client.send_message_batch(QueueUrl=self._queue, Entries=entries)
        except ClientError as error:
            # Whatever is no 503 is an answer that no fault explains.
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 503:
                raise
            answer = {}
        except BotoCoreError:
            answer = {}
        if not answer:
            self.gave_up += 1
            return [Told(body) for body in bodies]
        refused = [Told(bodies[int(row["Id"])], "", True) for row in answer.get("Failed", [])]
        return refused + [
            Told(bodies[int(row["Id"])], row["MessageId"]) for row in answer.get("Successful", [])
        ]
