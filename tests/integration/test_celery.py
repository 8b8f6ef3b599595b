"""Celery over kombu's SQS transport: two workers and one node, which verifies their signatures, run
200 tasks, each as often as it should and not once more.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import boto3
import pytest

from tests.clients.keys import (
    ACCESS_KEY,
    SECRET_KEY,
    client_environment,
    credentials_file,
)
from tests.nodes import REGION, ROOT, Node

TASKS = {"plain": 100, "late": 20, "failing": 40, "eta": 40}
ETA_SECONDS = 4
DEADLINE_SECONDS = 240
APPLICATION = "tests.integration.celery_app"
SENDER = f"""
import {APPLICATION} as tasks
for number in range({TASKS["failing"]}):
    tasks.failing.delay(number)
for number in range({TASKS["eta"]}):
    tasks.plain.apply_async(args=[1000 + number], countdown={ETA_SECONDS})
for number in range({TASKS["plain"]}):
    tasks.plain.delay(number)
for number in range({TASKS["late"]}):
    tasks.late.delay(number)
"""
EXPECTED = Counter(
    [("plain", number, 0) for number in range(TASKS["plain"])]
    + [("plain", 1_000 + number, 0) for number in range(TASKS["eta"])]
    + [("late", number, 0) for number in range(TASKS["late"])]
    + [("failing", number, attempt) for number in range(TASKS["failing"]) for attempt in range(3)]
)


class Run(NamedTuple):
    kind: str
    number: int
    attempt: int
    at: float


def runs_in(journal: Path) -> list[Run]:
    if not journal.exists():
        return []
    lines = [line.split() for line in journal.read_text().splitlines()]
    return [Run(kind, int(number), int(attempt), float(at)) for kind, number, attempt, at in lines]


def counts_of(runs: list[Run]) -> Counter[tuple[str, int, int]]:
    return Counter((run.kind, run.number, run.attempt) for run in runs)


@contextmanager
def worker(name: str, environment: dict[str, str], log: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "celery", "--app", APPLICATION, "worker", "--pool", "solo"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *quiet, "--hostname", f"{name}@localhost"],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(expected: Counter[tuple[str, int, int]], journal: Path, logs: list[Path]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while counts_of(runs_in(journal)) < expected:
        if time.monotonic() > deadline:
            missing = expected - counts_of(runs_in(journal))
            said = "\n".join(log.read_text(errors="replace")[-3_000:] for log in logs)
            raise AssertionError(f"missing {sorted(missing)[:20]}\n{said}")
        time.sleep(0.1)


def environment_for(url: str, journal: Path) -> dict[str, str]:
    keys = f"{quote(ACCESS_KEY, safe='')}:{quote(SECRET_KEY, safe='')}"
    return {
        **os.environ,
        **client_environment(),
        "PYTHONPATH": str(ROOT),
        "CELERY_TEST_BROKER": url.replace("http://", f"sqs://{keys}@"),
        "CELERY_TEST_JOURNAL": str(journal),
    }


def run_tasks(url: str, folder: Path) -> None:
    """By two workers of the node at the address; also what `make clients` does."""
    journal, logs = folder / "journal", [folder / "first.log", folder / "second.log"]
    environment = environment_for(url, journal)
    with worker("first", environment, logs[0]), worker("second", environment, logs[1]):
        sent_at = time.time()
        subprocess.run(
            [sys.executable, "-c", SENDER], env=environment, check=True, timeout=DEADLINE_SECONDS
        )
        wait_for(EXPECTED, journal, logs)
        require_empty_queue(url)
    runs = runs_in(journal)
    assert counts_of(runs) == EXPECTED
    assert_times(runs, sent_at)


@pytest.mark.timeout(900)
def test_celery_runs_every_task_as_often_as_it_should(tmp_path: Path) -> None:
    with Node(tmp_path / "data", "--credentials", str(credentials_file(tmp_path))) as node:
        run_tasks(node.sqs_url, tmp_path)
        assert "Traceback" not in node.stderr_tail()


def require_empty_queue(url: str) -> None:
    """A task is deleted after it ran; a queue that stays filled would run tasks again."""
    names = [f"ApproximateNumberOfMessages{which}" for which in ("", "NotVisible", "Delayed")]
    sqs = boto3.client(
        "sqs",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )
    try:
        queue = sqs.get_queue_url(QueueName="celery")["QueueUrl"]
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
            if set(shown.values()) == {"0"}:
                return
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)
    finally:
        sqs.close()


def assert_times(runs: list[Run], sent_at: float) -> None:
    """Tasks with a time ran after it, and a retry came after its countdown."""
    assert all(run.at >= sent_at + ETA_SECONDS for run in runs if run.number >= 1_000)
    at = {(run.number, run.attempt): run.at for run in runs if run.kind == "failing"}
    waits = [at[n, a + 1] - at[n, a] for n in range(TASKS["failing"]) for a in range(2)]
    assert min(waits) >= 0.99
