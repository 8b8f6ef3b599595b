"""Tasks by Dramatiq with the broker of dramatiq-sqs: a worker in this process, its actors, and what
was run how often. A program, not a test.

Endpoint, credentials and queue name come from the environment; each check prints a line.
"""

import logging
import os
import threading
import time
from collections import Counter
from typing import Any

import dramatiq
from dramatiq.middleware import Retries
from dramatiq_sqs import SQSBroker

DEADLINE_SECONDS = 60
NAME = os.environ["CHECK_QUEUE"]
broker: Any = SQSBroker(
    namespace=NAME,
    middleware=[Retries(min_backoff=1_000, max_backoff=1_000)],
    visibility_timeout=60,
    dead_letter=True,
)
dramatiq.set_broker(broker)
runs: Counter[tuple[str, int]] = Counter()
started: dict[int, float] = {}
lock = threading.Lock()


def record(kind: str, number: int) -> int:
    """How often this one has run, with this time."""
    with lock:
        runs[kind, number] += 1
        return runs[kind, number]


@dramatiq.actor(queue_name="plain")  # type: ignore[untyped-decorator]  # no types
def plain(number: int) -> None:
    record("plain", number)


@dramatiq.actor(queue_name="late")  # type: ignore[untyped-decorator]  # no types
def late(number: int) -> None:
    started[number] = time.monotonic()
    record("late", number)


@dramatiq.actor(queue_name="failing", max_retries=3)  # type: ignore[untyped-decorator]  # no types
def failing(number: int) -> None:
    if record("failing", number) < 3:
        raise RuntimeError("twice in vain")


@dramatiq.actor(queue_name="hopeless", max_retries=1)  # type: ignore[untyped-decorator]  # no types
def hopeless(number: int) -> None:
    record("hopeless", number)
    raise RuntimeError("always")


def wait_until(expected: Counter[tuple[str, int]]) -> None:
    kind = next(iter(expected))[0]
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (seen := Counter({at: runs[at] for at in runs if at[0] == kind})) < expected:
        assert time.monotonic() < deadline, f"{seen} is not {expected}"
        time.sleep(0.05)
    broker.join(kind, timeout=DEADLINE_SECONDS)
    assert seen == expected


def tasks() -> None:
    for number in range(100):
        plain.send(number)
    wait_until(Counter({("plain", number): 1 for number in range(100)}))


def delays() -> None:
    sent = time.monotonic()
    for number in range(5):
        late.send_with_options(args=(number,), delay=2_000)
    wait_until(Counter({("late", number): 1 for number in range(5)}))
    assert min(started.values()) >= sent + 2


def retries() -> None:
    for number in range(5):
        failing.send(number)
    wait_until(Counter({("failing", number): 3 for number in range(5)}))


def dead_letters() -> None:
    hopeless.send(1)
    wait_until(Counter({("hopeless", 1): 2}))
    (letter,) = broker.dead_letter_queues["hopeless"].receive_messages(WaitTimeSeconds=20)
    letter.delete()


def main() -> None:
    logging.getLogger("dramatiq").setLevel(logging.CRITICAL)
    worker = dramatiq.Worker(broker, worker_timeout=1_000, worker_threads=4)
    worker.start()
    try:
        for check in (tasks, delays, retries, dead_letters):
            check()
            print("ok", check.__name__.replace("_", " "), flush=True)
    finally:
        worker.stop()
    for queue in (*broker.queues.values(), *broker.dead_letter_queues.values()):
        queue.delete()


if __name__ == "__main__":
    main()
