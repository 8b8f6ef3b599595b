"""Producers and consumers that use all nodes of a cluster while a test does things to it.

Everything they do and are told becomes the history that `history.py` judges. They work until they
are ended, wait when they are told to, and fail on answers that no fault explains.
"""

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.cluster.client import (
    CALL_SECONDS,
    RETRY_SECONDS_MAX,
    Client,
    Refused,
    RepeatingClient,
    Unknown,
)
from tests.cluster.harness import SETTLE_SECONDS, Cluster, eventually
from tests.cluster.history import Deleted, Drained, Event, Message, Received, Sent, check

PLAIN = ("plain-a", "plain-b", "plain-c")
FIFO = ("order-a.fifo", "order-b.fifo")
# Its partitions are in different groups, so different nodes lead them.
WIDE = ("wide.fifo",)
ATTRIBUTES: dict[str, dict[str, str]] = (
    {name: {} for name in PLAIN}
    | {name: {"FifoQueue": "true"} for name in FIFO}
    | {
        name: {
            "FifoQueue": "true",
            "DeduplicationScope": "messageGroup",
            "FifoThroughputLimit": "perMessageGroupId",
        }
        for name in WIDE
    }
)
GROUPS_PER_PRODUCER = 3
CONSUMERS = 3
LEASE_SECONDS = 2
# Long enough to delete what was received, and over soon if an answer was lost.
LAST_LEASE_SECONDS = 30
WAIT_SECONDS = 1
# Enough to be under way at every moment, and room for three nodes on two cores.
PAUSE_SECONDS = 0.03
# The rest is left to its lease: delivered again, later.
DELETED_SHARE = 0.8
RETRY_SECONDS = 0.05
STEADY_SECONDS = 0.5
JOIN_SECONDS = 120.0
DRAIN_SECONDS = 120.0
COUNTERS = ("", "NotVisible", "Delayed")


def url_of(queue: str) -> str:
    return f"http://localhost/000000000000/{queue}"


class Workload:
    """`history` grows while it runs; `acknowledged` counts sends that were answered with 200."""

    def __init__(
        self,
        endpoints: Callable[[], Sequence[str]],
        label: str,
        queues: Sequence[str] = (),
        *,
        client: type[Client] | type[RepeatingClient] = Client,
    ) -> None:
        self._kind = client
        self.history: list[Event] = []
        self.acknowledged = 0
        self.unknown: list[str] = []
        self.queues = queues or tuple(ATTRIBUTES)
        self._endpoints = endpoints
        self._label = label
        self._ending = threading.Event()
        self._failures: list[BaseException] = []
        self._clients = itertools.count()
        self._threads = [self._thread(self._produce, queue) for queue in self.queues]
        self._threads += [self._thread(self._consume, str(n)) for n in range(CONSUMERS)]

    # --- running ----------------------------------------------------------------------------

    def create_queues(self) -> None:
        """Empty ones: a test that failed may have left something behind."""
        client = self._client()
        for name in self.queues:
            client.insist("CreateQueue", QueueName=name, Attributes=ATTRIBUTES[name])
            client.insist("PurgeQueue", QueueUrl=url_of(name))
        client.close()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Idempotent. Producers and consumers finish the call they are in."""
        self._ending.set()

    def abandon(self) -> None:
        """Idempotent. Whoever still works after this hangs in a call to a node that does."""
        self.stop()
        for thread in self._threads:
            thread.join(CALL_SECONDS)

    def end(self) -> None:
        """Idempotent. Raises what a producer or consumer failed with."""
        self.stop()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
            assert not thread.is_alive(), f"{thread.name} hangs"
        self.raise_failure()

    def await_progress(self, count: int = 50, seconds: float = SETTLE_SECONDS) -> float:
        """Until so many more sends were acknowledged; how long the first took."""
        self.raise_failure()
        began, base = time.monotonic(), self.acknowledged
        eventually("a send is acknowledged", lambda: self.acknowledged > base, seconds)
        first = time.monotonic() - began
        eventually(
            f"{count} sends are acknowledged", lambda: self.acknowledged >= base + count, seconds
        )
        self.raise_failure()
        return first

    def raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]

    def verify(self) -> None:
        """Call when the cluster is whole: take everything out, and judge the history."""
        self.end()
        self.judge()

    def judge(self) -> None:
        """As `verify`, of a history that somebody else has made."""
        client = self._client()
        for queue, before in self._steady_counters(client).items():
            self._drain(client, queue, before)
        client.close()
        complaints = check(self.history)
        assert not complaints, f"{len(complaints)} complaints: " + "; ".join(complaints[:8])
        assert any(isinstance(event, Sent) and event.message_id for event in self.history), (
            "no load"
        )

    def _thread(self, work: Callable[[Client, str], None], argument: str) -> threading.Thread:
        def run() -> None:
            client = self._client()
            try:
                work(client, argument)
            except (AssertionError, KeyError, ValueError, Refused) as error:
                self._failures.append(error)
            finally:
                client.close()

        return threading.Thread(target=run, name=f"{work.__name__} {argument}", daemon=True)

    def _client(self) -> Client:
        return self._kind(self._endpoints, next(self._clients))

    def _pause(self, error: Unknown) -> None:
        """What the answer asks for, within reason: the test's time is bounded."""
        self.unknown.append(str(error))
        seconds = RETRY_SECONDS if error.retry_after is None else error.retry_after
        self._ending.wait(min(seconds, RETRY_SECONDS_MAX))

    # --- producing --------------------------------------------------------------------------

    def _produce(self, client: Client, queue: str) -> None:
        is_fifo = queue.endswith(".fifo")
        for number in itertools.count():
            if self._ending.wait(PAUSE_SECONDS):
                return
            body = f"{self._label}/{queue}/{number}"
            if is_fifo:
                group = f"{self._label}-{number % GROUPS_PER_PRODUCER}"
                members = {"MessageGroupId": group, "MessageDeduplicationId": body}
                in_group = number // GROUPS_PER_PRODUCER
                while not self._send(client, queue, body, in_group, **members):
                    # A message that may or may not be there would hide what comes after it.
                    if self._ending.is_set():
                        return
            else:
                self._send(client, queue, body, -1)

    def _send(self, client: Client, queue: str, body: str, number: int, **members: str) -> bool:
        began, group = time.monotonic(), members.get("MessageGroupId", "")
        answer: dict[str, str] = {}
        repeats = client.repeats
        try:
            answer = client.call("SendMessage", QueueUrl=url_of(queue), MessageBody=body, **members)
        except Unknown as error:
            self._pause(error)
        sent = Sent(queue, body, began, time.monotonic(), "", group, number)
        # An attempt that was repeated may have left a message of its own.
        self.history += [sent] * (client.repeats - repeats)
        message_id, sequence = answer.get("MessageId", ""), answer.get("SequenceNumber", "")
        self.history.append(sent._replace(message_id=message_id, sequence=sequence))
        self.acknowledged += bool(answer)
        return bool(answer)

    # --- consuming --------------------------------------------------------------------------

    def _consume(self, client: Client, number: str) -> None:
        chance = random.Random(f"{self._label} {number}")
        for queue in itertools.cycle(chance.sample(self.queues, len(self.queues))):
            if self._ending.is_set():
                return
            # A long poll now and then: it has to survive a change of leaders too.
            wait = WAIT_SECONDS if chance.random() < 0.1 else 0
            try:
                received = self._receive(client, queue, LEASE_SECONDS, wait)
                if received is not None:
                    self._delete_some(client, *received, chance)
            except Unknown as error:
                self._pause(error)

    def _receive(
        self, client: Client, queue: str, lease: int, wait: int
    ) -> tuple[Received, list[str]] | None:
        """The event, and the handles of its messages in their order."""
        began = time.monotonic()
        answer = client.call(
            "ReceiveMessage",
            QueueUrl=url_of(queue),
            MaxNumberOfMessages=10,
            VisibilityTimeout=lease,
            WaitTimeSeconds=wait,
            MessageSystemAttributeNames=["All"],
        )
        rows = answer.get("Messages", [])
        if not rows:
            return None
        messages = tuple(message_of(row) for row in rows)
        event = Received(queue, began, time.monotonic(), lease, messages)
        self.history.append(event)
        return event, [row["ReceiptHandle"] for row in rows]

    def _delete_some(
        self, client: Client, event: Received, handles: list[str], chance: random.Random
    ) -> None:
        for message, handle in zip(event.messages, handles, strict=True):
            if chance.random() < DELETED_SHARE:
                self._delete(client, event, message, handle)
            elif message.group:
                # Those behind it in its group may be deleted as well, but a user would not.
                return

    def _delete(self, client: Client, event: Received, message: Message, handle: str) -> bool:
        began, is_acknowledged = time.monotonic(), False
        try:
            client.call("DeleteMessage", QueueUrl=url_of(event.queue), ReceiptHandle=handle)
            is_acknowledged = True
        except Unknown as error:
            self._pause(error)
        except Refused:
            # A FIFO queue refuses a handle whose lease is over; then nothing was deleted.
            if time.monotonic() < event.began + event.lease_seconds or not message.group:
                raise
            return False
        self.history.append(
            Deleted(
                event.queue,
                message.message_id,
                event.began,
                event.lease_seconds,
                began,
                time.monotonic(),
                is_acknowledged,
            )
        )
        return is_acknowledged

    # --- the end ----------------------------------------------------------------------------

    def _steady_counters(self, client: Client) -> dict[str, tuple[int, int, int]]:
        """Of every queue, when nothing is in flight any more."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while True:
            counters = {queue: self._counters(client, queue) for queue in self.queues}
            if not any(in_flight for _, in_flight, _ in counters.values()):
                return counters
            assert time.monotonic() < deadline, f"counters do not come to rest: {counters}"
            time.sleep(STEADY_SECONDS)

    def _drain(self, client: Client, queue: str, before: tuple[int, int, int]) -> None:
        deadline, found = time.monotonic() + DRAIN_SECONDS, set[str]()
        counters = partial(self._counters, client, queue)
        # A FIFO queue holds its groups back while their first messages are in flight, so what was
        # found is deleted before more is asked for. A receive that does not wait passes over a
        # partition whose lead is just being handed on: empty is what the counters call so too.
        while (received := self._last_receive(client, queue)) or any(counters()[:2]):
            assert time.monotonic() < deadline, f"{queue} does not become empty"
            if received is None:
                time.sleep(RETRY_SECONDS)
                continue
            self._delete_all(client, *received)
            found |= {message.message_id for message in received[0].messages}
        self.history.append(Drained(queue, before, len(found), counters()))

    def _delete_all(self, client: Client, event: Received, handles: list[str]) -> None:
        began = time.monotonic()
        entries = [{"Id": str(at), "ReceiptHandle": text} for at, text in enumerate(handles)]
        members = {"QueueUrl": url_of(event.queue), "Entries": entries}
        answer = client.insist("DeleteMessageBatch", **members)
        assert len(answer.get("Successful", [])) == len(handles), answer
        ended, fixed = time.monotonic(), (event.began, event.lease_seconds)
        self.history += [
            Deleted(event.queue, message.message_id, *fixed, began, ended, True)
            for message in event.messages
        ]

    def _last_receive(self, client: Client, queue: str) -> tuple[Received, list[str]] | None:
        """What a lost answer holds is in flight, and comes again when its lease is over."""
        try:
            return self._receive(client, queue, LAST_LEASE_SECONDS, 0)
        except Unknown:
            return None

    def _counters(self, client: Client, queue: str) -> tuple[int, int, int]:
        names = [f"ApproximateNumberOfMessages{which}" for which in COUNTERS]
        members = {"QueueUrl": url_of(queue), "AttributeNames": names}
        attributes = client.insist("GetQueueAttributes", **members)["Attributes"]
        visible, in_flight, delayed = (int(attributes[name]) for name in names)
        return visible, in_flight, delayed


def message_of(row: dict[str, Any]) -> Message:
    attributes = row.get("Attributes", {})
    return Message(
        row["MessageId"],
        row["Body"],
        attributes.get("MessageGroupId", ""),
        attributes.get("SequenceNumber", ""),
    )


@contextmanager
def under_load(
    cluster: Cluster, label: str, *, client: type[Client] | type[RepeatingClient] = Client
) -> Iterator[Workload]:
    """Load before, during and after what the test does; then the history is judged."""
    workload = Workload(cluster.endpoints, label, client=client)
    workload.create_queues()
    workload.start()
    try:
        workload.await_progress()
        yield workload
        workload.await_progress()
        workload.verify()
    finally:
        workload.abandon()
