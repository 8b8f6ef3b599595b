"""A node killed with -9 under load, again and again: what was acknowledged is true.

Clients write down what they were told. After a restart everything acknowledged must be there
exactly once, nothing deleted may come back, and no message may be in two hands within one
visibility timeout. A call whose connection broke may have happened or not, but not twice.

The moments of the kills come from a seed, printed with a failure; FASTNODE_TEST_SEED repeats it.
"""

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.nodes import ANSWER_SECONDS, JsonClient, Lost, Node, Refused

ROUNDS = 20
SENDERS = 16
CONSUMERS = 3
# Rounds between full checks, in which the queue is emptied and compared with what is known.
CHECK_EVERY = 4
LEASE_SECONDS = 1
# The node counts in milliseconds and the answer travels; a real double delivery is far off this.
LEASE_TOLERANCE_SECONDS = 0.05
DRAIN_SECONDS = 240.0
QUEUE = "http://localhost/000000000000/crash"

Message = dict[str, Any]


class History:
    """What the clients know, and the contradictions they met."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.acknowledged: set[str] = set()
        self.attempted: set[str] = set()
        self.ids: dict[str, str] = {}
        self.deleted_at: dict[str, float] = {}
        self.deletes_attempted: set[str] = set()
        self.lease_ends: dict[str, float] = {}
        self.contradictions: list[str] = []

    def attempt(self, body: str) -> None:
        with self.lock:
            self.attempted.add(body)

    def acknowledge(self, body: str, message_id: str) -> None:
        with self.lock:
            self.acknowledged.add(body)
            self._check_id(body, message_id)

    def receive(self, message: Message, asked_at: float, answered_at: float, lease: float) -> None:
        body = message["Body"]
        with self.lock:
            self._check_id(body, message["MessageId"])
            if body not in self.attempted:
                self.contradictions.append(f"{body} was never sent")
            if self.deleted_at.get(body, asked_at) < asked_at:
                self.contradictions.append(f"{body} came back after its delete was acknowledged")
            if self.lease_ends.get(body, 0.0) > answered_at + LEASE_TOLERANCE_SECONDS:
                self.contradictions.append(f"{body} was delivered twice within its timeout")
            # The lease began some time after the question: this end is the earliest possible.
            self.lease_ends[body] = asked_at + lease

    def attempt_delete(self, body: str) -> None:
        with self.lock:
            self.deletes_attempted.add(body)

    def acknowledge_delete(self, body: str) -> None:
        with self.lock:
            self.deleted_at[body] = time.monotonic()

    def must_remain(self) -> set[str]:
        with self.lock:
            return self.acknowledged - self.deletes_attempted

    def settle(self) -> None:
        """The queue was found empty: whatever is not in it now must never appear."""
        with self.lock:
            now = time.monotonic()
            for body in self.attempted:
                self.deletes_attempted.add(body)
                self.deleted_at.setdefault(body, now)

    def _check_id(self, body: str, message_id: str) -> None:
        if self.ids.setdefault(body, message_id) != message_id:
            self.contradictions.append(f"{body} exists twice, under two message ids")


class Load:
    """Senders and consumers that work until their connections break."""

    def __init__(self, url: str, history: History, round_number: int, seed: int) -> None:
        self._url = url
        self._history = history
        self._round = round_number
        self._ending = threading.Event()
        self._failures: list[BaseException] = []
        randoms = [random.Random(f"{seed} {round_number} {n}") for n in range(CONSUMERS)]
        self._threads = [self._thread(self._send, n) for n in range(SENDERS)]
        self._threads += [self._thread(self._consume, chance) for chance in randoms]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def await_progress(self) -> None:
        """So many sends are acknowledged as there are senders."""
        wanted = len(self._history.acknowledged) + SENDERS
        deadline = time.monotonic() + DRAIN_SECONDS
        while len(self._history.acknowledged) < wanted:
            assert time.monotonic() < deadline, "no send is acknowledged"
            time.sleep(0.005)

    def end(self) -> None:
        """Call after the node is gone."""
        self._ending.set()
        for thread in self._threads:
            thread.join(2 * ANSWER_SECONDS)
            assert not thread.is_alive(), "a client hangs"
        if self._failures:
            raise self._failures[0]

    def _thread(
        self, work: Callable[[JsonClient, Any], None], argument: object
    ) -> threading.Thread:
        def run() -> None:
            client = JsonClient(self._url)
            try:
                while not self._ending.is_set():
                    work(client, argument)
            except Lost:
                pass
            except (AssertionError, KeyError, Refused) as error:
                self._failures.append(error)
            finally:
                client.close()

        return threading.Thread(target=run, daemon=True)

    def _send(self, client: JsonClient, sender: int) -> None:
        """Every fourth sender sends batches."""
        count = 3 if sender % 4 == 0 else 1
        number = len(self._history.attempted)
        bodies = [f"{self._round}/{sender}/{number}/{entry}" for entry in range(count)]
        for body in bodies:
            self._history.attempt(body)
        if count == 1:
            answer = tolerant_call(client, "SendMessage", MessageBody=bodies[0])
            if answer is not None:
                self._history.acknowledge(bodies[0], answer["MessageId"])
            return
        entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies)]
        answer = tolerant_call(client, "SendMessageBatch", Entries=entries) or {}
        for entry in answer.get("Successful", []):
            self._history.acknowledge(bodies[int(entry["Id"])], entry["MessageId"])

    def _consume(self, client: JsonClient, chance: random.Random) -> None:
        for message in receive(client, self._history, LEASE_SECONDS, wait=1) or []:
            if chance.random() < 0.6:
                body = message["Body"]
                self._history.attempt_delete(body)
                handle = message["ReceiptHandle"]
                if tolerant_call(client, "DeleteMessage", ReceiptHandle=handle) is not None:
                    self._history.acknowledge_delete(body)


def create_queue(url: str) -> None:
    client = JsonClient(url)
    client.call("CreateQueue", QueueName="crash")
    client.close()


def tolerant_call(client: JsonClient, action: str, **members: object) -> dict[str, Any] | None:
    """None when the node says that it is unavailable: the outcome is open, as with a lost line."""
    try:
        return client.call(action, QueueUrl=QUEUE, **members)
    except Refused as refusal:
        if refusal.status != 503:
            raise
        return None


def receive(client: JsonClient, history: History, lease: int, wait: int) -> list[Message] | None:
    """None when the node says that it is unavailable."""
    asked_at = time.monotonic()
    answer = tolerant_call(
        client,
        "ReceiveMessage",
        MaxNumberOfMessages=10,
        VisibilityTimeout=lease,
        WaitTimeSeconds=wait,
    )
    answered_at = time.monotonic()
    if answer is None:
        return None
    messages: list[Message] = answer.get("Messages", [])
    for message in messages:
        history.receive(message, asked_at, answered_at, lease)
    return messages


def drain(url: str, history: History) -> set[str]:
    """Take and delete everything. Empty is a poll that outlasts every lease of the consumers."""
    client, found = JsonClient(url), set[str]()
    messages: list[Message] | None = None
    deadline = time.monotonic() + DRAIN_SECONDS
    while messages != []:
        messages = receive(client, history, lease=600, wait=2 * LEASE_SECONDS)
        assert time.monotonic() < deadline, "the queue does not become empty"
        if not messages:
            continue
        found |= {message["Body"] for message in messages}
        entries = [
            {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
            for number, message in enumerate(messages)
        ]
        answer = client.call("DeleteMessageBatch", QueueUrl=QUEUE, Entries=entries)
        assert len(answer["Successful"]) == len(messages), answer
        for message in messages:
            history.attempt_delete(message["Body"])
            history.acknowledge_delete(message["Body"])
    client.close()
    return found


def check(url: str, history: History, context: str) -> None:
    expected = history.must_remain()
    found = drain(url, history)
    lost = sorted(expected - found)
    assert not lost, f"{context}: {len(lost)} acknowledged messages are lost, first {lost[:3]}"
    assert not history.contradictions, f"{context}: {history.contradictions[:5]}"
    history.settle()


def kill_while_starting(node: Node, chance: random.Random) -> None:
    """Recovery can be cut short too, at any point up to readiness and a little beyond."""
    node.launch()
    time.sleep(chance.uniform(0.0, 0.6))
    node.kill()


def run_round(node: Node, load: Load, chance: random.Random, *, is_graceful: bool) -> None:
    load.start()
    load.await_progress()
    time.sleep(chance.uniform(0.02, 0.6))
    if is_graceful:
        # A graceful stop flushes, so the next rounds recover from a flushed state and a tail.
        assert node.stop() == 0, node.stderr_tail()
    else:
        node.kill()
    load.end()


@pytest.mark.timeout(900)
def test_acknowledged_work_survives_kills_at_random_moments(tmp_path: Path) -> None:
    seed = int(os.environ.get("FASTNODE_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"FASTNODE_TEST_SEED={seed}")
    chance, history, started = random.Random(seed), History(), time.monotonic()
    with Node(tmp_path / "data") as node:
        create_queue(node.sqs_url)
        for number in range(ROUNDS):
            context = f"seed {seed}, round {number}"
            load = Load(node.sqs_url, history, number, seed)
            run_round(node, load, chance, is_graceful=number % 7 == 5)
            if number % 5 == 3:
                kill_while_starting(node, chance)
            node.start()
            assert not history.contradictions, f"{context}: {history.contradictions[:5]}"
            if number % CHECK_EVERY == CHECK_EVERY - 1:
                check(node.sqs_url, history, context)
        check(node.sqs_url, history, f"seed {seed}, end")
    print(
        f"{len(history.acknowledged)} of {len(history.attempted)} sends acknowledged in "
        f"{ROUNDS} rounds, {time.monotonic() - started:.0f} s"
    )
    assert len(history.acknowledged) >= ROUNDS * SENDERS, "hardly any load was applied"
