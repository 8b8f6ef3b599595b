"""A cluster backed up under load, restored to one node: what was acknowledged before is there, what
was deleted before is not, what happened meanwhile may be either way, and groups keep their order.
"""

import itertools
import json
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from fastnode import native
from tests.cluster.client import Client, Unknown
from tests.cluster.harness import (
    GROUPS,
    Cluster,
    Member,
    eventually,
    fetch,
    run_command,
    static_cluster,
)
from tests.cluster.history import Drained, Event, Received, Sent
from tests.cluster.network import Loopback
from tests.cluster.workload import Workload, url_of
from tests.nodes import ANSWER_SECONDS, REGION

BACKUP_SECONDS = 60.0
LETTERS_MIN = 60


class Span(NamedTuple):
    """When the backup was made, by the clock of the history."""

    began: float
    ended: float


def as_restored(history: list[Event], span: Span) -> list[Event]:
    """What the restored cluster's history is: what ended before the backup stands, what began after
    it never was, and what is between may have been or not.
    """
    certain = {
        event.message_id
        for event in history
        if isinstance(event, Sent) and event.ended <= span.began
    }
    known = [
        _as_restored(event, span, certain) for event in history if event_began(event) < span.ended
    ]
    return [event for event in known if event is not None]


def event_began(event: Event) -> float:
    assert not isinstance(event, Drained)
    return event.began


def _as_restored(event: Event, span: Span, certain: set[str]) -> Event | None:
    if isinstance(event, Received):
        if event.ended > span.began and event.queue.endswith(".fifo"):
            # Whatever was before its messages may have left the old cluster alone.
            return None
        # A message that was sent meanwhile was delivered by the old cluster, and may never have
        # been in this one.
        messages = tuple(one for one in event.messages if one.message_id in certain)
        return event._replace(messages=messages) if messages else None
    assert not isinstance(event, Drained)
    if event.ended <= span.began:
        return event
    if isinstance(event, Sent):
        return event._replace(message_id="", sequence="")
    return event._replace(is_acknowledged=False) if event.message_id in certain else None


# --- messages that change groups ------------------------------------------------------------------


def queue_in(group: int, label: str) -> str:
    """The name of a queue whose home is the group."""
    for number in itertools.count():
        name = f"{label}-{number}"
        if native.home_group(native.queue_segment("0" * 12, REGION, name), GROUPS) == group:
            return name
    raise AssertionError("some name is of the group")


class Letters:
    """Messages that become dead letters in another group, all the time. `sent` has the time at
    which each body was acknowledged.
    """

    def __init__(self, cluster: Cluster, source: int, target: int) -> None:
        self.queues = queue_in(source, "failing"), queue_in(target, "dead")
        self.sent: dict[str, float] = {}
        self.tried: set[str] = set()
        self._client = Client(cluster.endpoints, source)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        failing, dead = self.queues
        self._client.insist("CreateQueue", QueueName=dead)
        arn = f"arn:aws:sqs:{REGION}:000000000000:{dead}"
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
        self._client.insist("CreateQueue", QueueName=failing, Attributes={"RedrivePolicy": policy})
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._thread.join(BACKUP_SECONDS)
        assert not self._thread.is_alive()
        self._client.close()

    def _run(self) -> None:
        url = url_of(self.queues[0])
        for number in itertools.count():
            if self._ending.is_set():
                return
            body = f"{self.queues[0]}/{number}"
            self.tried.add(body)
            try:
                self._client.call("SendMessage", QueueUrl=url, MessageBody=body)
                self.sent[body] = time.monotonic()
                # The second receive finds it received often enough.
                for _ in range(2):
                    self._client.call(
                        "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0
                    )
            except Unknown:
                continue

    def check(self, restored: Member, span: Span) -> None:
        """Each is in one of the two queues, and in one only."""
        found = Counter[str]()
        with closing(Client(lambda: [restored.sqs_url], seconds=ANSWER_SECONDS)) as client:
            eventually("its letters have arrived", lambda: self._is_quiet(client))
            for queue in self.queues:
                url = url_of(queue)
                while rows := client.call(
                    "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600
                ).get("Messages"):
                    found.update(row["Body"] for row in rows)
                    entries = [
                        {"Id": str(at), "ReceiptHandle": row["ReceiptHandle"]}
                        for at, row in enumerate(rows)
                    ]
                    client.call("DeleteMessageBatch", QueueUrl=url, Entries=entries)
        before = {body for body, at in self.sent.items() if at <= span.began}
        assert len(before) >= LETTERS_MIN
        assert before <= found.keys(), f"lost: {sorted(before - found.keys())[:5]}"
        assert found.keys() <= self.tried
        doubled = [body for body, count in found.items() if count > 1]
        assert not doubled, f"doubled: {doubled[:5]}"

    def _is_quiet(self, client: Client) -> bool:
        """Nothing is in flight, and no letter is under way: the sum stays as it is."""
        totals = []
        for _ in range(3):
            totals.append([self._total(client, queue) for queue in self.queues])
            time.sleep(1.2)
        return totals[0] == totals[1] == totals[2]

    def _total(self, client: Client, queue: str) -> tuple[str, ...]:
        answer = client.call("GetQueueAttributes", QueueUrl=url_of(queue), AttributeNames=["All"])
        names = ("", "NotVisible", "Delayed")
        return tuple(answer["Attributes"][f"ApproximateNumberOfMessages{name}"] for name in names)


# --- the test -------------------------------------------------------------------------------------


def back_up(cluster: Cluster, number: int, directory: Path) -> Span:
    began = time.monotonic()
    admin = cluster.members[number].place.admin
    ended = run_command("backup", str(directory), "--admin", admin, "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["groups"] == GROUPS
    return Span(began, time.monotonic())


@pytest.mark.timeout(900)
def test_a_backup_under_load_restored_to_one_node_is_a_history_that_could_be(
    tmp_path: Path,
) -> None:
    target = tmp_path / "backup"
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    with static_cluster(tmp_path / "old", Loopback()) as cluster:
        load = Workload(cluster.endpoints, "backup")
        # Both ways, so that no order of the groups would do.
        letters = [Letters(cluster, 0, 3), Letters(cluster, 3, 0)]
        load.create_queues()
        load.start()
        try:
            for each in letters:
                each.start()
            load.await_progress(100)
            eventually(
                "letters are under way", lambda: min(len(e.sent) for e in letters) > LETTERS_MIN
            )
            back_up(cluster, 1, target)
            span = back_up(cluster, 2, target)
            load.await_progress()
            load.end()
        finally:
            load.abandon()
            for each in letters:
                each.end()
        ended = run_command("check", str(target))
        assert ended.returncode == 0, ended.stderr
        restored_dir = tmp_path / "new" / "node7"
        ended = run_command(
            "restore", str(target), "--data-dir", str(restored_dir), "--node-id", "7"
        )
        assert ended.returncode == 0, ended.stderr
        network = Loopback()
        # The old cluster runs on, and both know the same secret.
        with closing(network), Cluster(tmp_path / "new", network) as made:
            made.secret.write_text(cluster.secret.read_text())
            restored = made.add(7, directory=restored_dir)
            restored.start()
            made.await_ready()
            assert restored.voters() == [({7}, set())] * GROUPS
            known = json.loads(fetch(restored.admin_url, "/api/v1/cluster")[1])["nodes"]
            assert [node["id"] for node in known] == [7]
            judged = Workload(made.endpoints, "restored", load.queues)
            judged.history = as_restored(load.history, span)
            judged.judge()
            for each in letters:
                each.check(restored, span)
            joined = made.add(8, "--join", network.place(7).raft)
            joined.start()
            made.await_voters({7, 8})
            cluster.await_voters({1, 2, 3})
