"""A Celery application as people write them, with its broker taken from the environment. Not a
test: `test_celery.py` runs its worker and sends its tasks.

Every execution adds a line to a journal, so that what ran, how often and when can be counted.
"""

import os
import time
from typing import Any

from celery import Celery

app = Celery("journal", broker=os.environ["CELERY_TEST_BROKER"])
app.conf.update(
    broker_transport_options={
        "region": "us-east-1",
        "wait_time_seconds": 5,
        "visibility_timeout": 600,
    },
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=10,
)


def record(kind: str, number: int, attempt: int) -> None:
    """One line in one write: two workers share the journal."""
    line = f"{kind} {number} {attempt} {time.time()}\n"
    descriptor = os.open(os.environ["CELERY_TEST_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@app.task(name="plain")  # type: ignore[untyped-decorator]  # Celery ships no types
def plain(number: int) -> None:
    record("plain", number, 0)


@app.task(name="late", acks_late=True)  # type: ignore[untyped-decorator]  # Celery ships no types
def late(number: int) -> None:
    record("late", number, 0)


@app.task(name="failing", bind=True, max_retries=5)  # type: ignore[untyped-decorator]  # no types
def failing(self: Any, number: int) -> None:
    """Fails twice before it succeeds."""
    attempt = self.request.retries
    record("failing", number, attempt)
    if attempt < 2:
        raise self.retry(countdown=1)
