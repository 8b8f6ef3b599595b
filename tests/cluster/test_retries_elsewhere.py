"""Attempts of one call that reach different nodes, as behind a load balancer: whichever node gets
the second one finds what the first one did, also when the leader that did it is dead by then.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.cluster.batch_senders import BATCH, Stored, Told, batch_client, batch_entries, judge
from tests.cluster.harness import Cluster, eventually, static_cluster, tolerant
from tests.cluster.network import Loopback
from tests.cluster.workload import ATTRIBUTES, url_of
from tests.cut_proxy import CutProxy, LosesFirst

QUEUES = ("plain-a", "order-a.fifo", "wide.fifo")
# With two attempts for each call, so many calls meet every pair of three nodes.
ROUNDS = 3
ATTEMPTS = 12
LEASE_SECONDS = 600
Message = dict[str, Any]


class Balanced(NamedTuple):
    """A client of all nodes in turn, whose connections can be cut."""

    cluster: Cluster
    proxy: CutProxy
    sqs: Any

    def losing(self, call: Callable[[], Any], meanwhile: Callable[[], object] = int) -> Any:
        """The answer of a call whose first answer is lost, and that one."""
        self.proxy.exchanges.clear()
        self.proxy.loses = LosesFirst(1, meanwhile)
        answer = call()
        self.proxy.check()
        lost = next(each for each in self.proxy.exchanges if each.status != 503)
        assert lost.invocation == self.proxy.exchanges[-1].invocation
        assert lost.status == 200, lost
        return answer, json.loads(lost.answer or b"{}")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Balanced]:
    with static_cluster(tmp_path_factory.mktemp("elsewhere"), Loopback()) as cluster:
        members = cluster.members.values()
        eventually("the gates are open", tolerant(lambda: {1} == set().union(*gates(members))))
        with CutProxy(cluster.endpoints) as proxy:
            sqs = batch_client(proxy.url, attempts=ATTEMPTS)
            for name in QUEUES:
                sqs.create_queue(QueueName=name, Attributes=ATTRIBUTES[name])
            yield Balanced(cluster, proxy, sqs)
            sqs.close()


def gates(members: Any) -> list[set[int]]:
    return [member.gates() for member in members]


@pytest.fixture
def balanced(started: Balanced) -> Balanced:
    started.cluster.make_whole()
    return started


def sender(balanced: Balanced, queue: str, label: str) -> tuple[list[str], Callable[[], Any]]:
    bodies = [f"{label}/{at}" for at in range(BATCH)]
    send = partial(balanced.sqs.send_message_batch, QueueUrl=url_of(queue))
    return bodies, partial(send, Entries=batch_entries(queue, bodies))


def receive(balanced: Balanced, queue: str) -> Any:
    return balanced.sqs.receive_message(
        QueueUrl=url_of(queue),
        MaxNumberOfMessages=10,
        VisibilityTimeout=LEASE_SECONDS,
        WaitTimeSeconds=1,
    )


def by_id(answer: Any) -> list[Message]:
    """Places answer in any order; within a group there is one message."""
    return sorted(answer.get("Messages", []), key=lambda message: str(message["MessageId"]))


def handles(messages: list[Message], **members: int) -> list[dict[str, Any]]:
    return [
        {"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]} | members
        for at, message in enumerate(messages)
    ]


def take_all(balanced: Balanced, queue: str) -> list[Stored]:
    """Every receive and every delete loses its first answer."""
    found: list[Stored] = []
    while True:
        answer, lost = balanced.losing(partial(receive, balanced, queue))
        messages = by_id(answer)
        assert messages == by_id(lost)
        if not messages:
            return found
        found += [Stored(message["Body"], message["MessageId"]) for message in messages]
        delete = partial(balanced.sqs.delete_message_batch, QueueUrl=url_of(queue))
        deleted, lost = balanced.losing(partial(delete, Entries=handles(messages)))
        assert len(deleted["Successful"]) == len(lost["Successful"]) == len(messages)


def told_of(bodies: list[str], answer: Any) -> list[Told]:
    return [Told(bodies[int(row["Id"])], row["MessageId"]) for row in answer["Successful"]]


@pytest.mark.parametrize("queue", QUEUES)
def test_every_node_finds_what_another_one_did(balanced: Balanced, queue: str) -> None:
    told: list[Told] = []
    for number in range(ROUNDS):
        bodies, send = sender(balanced, queue, f"found-{number}")
        answer, lost = balanced.losing(send)
        assert answer["Successful"] == lost["Successful"]
        told += told_of(bodies, answer)
    assert judge(told, take_all(balanced, queue)) == []


@pytest.mark.parametrize("queue", QUEUES)
def test_every_node_finds_a_single_message_that_another_one_sent(
    balanced: Balanced, queue: str
) -> None:
    told: list[Told] = []
    for number in range(ROUNDS):
        body = f"single-{number}"
        (members,) = batch_entries(queue, [body])
        del members["Id"]
        send = partial(balanced.sqs.send_message, QueueUrl=url_of(queue), **members)
        answer, lost = balanced.losing(send)
        assert answer["MessageId"] == lost["MessageId"]
        assert answer.get("SequenceNumber") == lost.get("SequenceNumber")
        told.append(Told(body, answer["MessageId"]))
    assert judge(told, take_all(balanced, queue)) == []


@pytest.mark.parametrize("queue", QUEUES)
def test_messages_given_back_through_one_node_stay_with_who_took_them(
    balanced: Balanced, queue: str
) -> None:
    bodies, send = sender(balanced, queue, "given")
    told = told_of(bodies, send())
    first = by_id(receive(balanced, queue))
    direct = batch_client(balanced.cluster.endpoints()[0], attempts=1)
    others: list[Message] = []

    def take() -> None:
        while messages := direct.receive_message(
            QueueUrl=url_of(queue), MaxNumberOfMessages=10, VisibilityTimeout=LEASE_SECONDS
        ).get("Messages"):
            others.extend(messages)

    change = partial(balanced.sqs.change_message_visibility_batch, QueueUrl=url_of(queue))
    entries = handles(first, VisibilityTimeout=0)
    answer, lost = balanced.losing(partial(change, Entries=entries), take)
    assert len(answer["Successful"]) == len(lost["Successful"]) == len(first)
    assert {message["MessageId"] for message in first} <= {one["MessageId"] for one in others}
    assert by_id(receive(balanced, queue)) == [], "a lease was taken away"
    direct.close()
    assert judge(told, [Stored(one["Body"], one["MessageId"]) for one in others]) == []
    balanced.sqs.purge_queue(QueueUrl=url_of(queue))


@pytest.mark.parametrize("queue", QUEUES)
def test_a_leader_that_died_after_its_answer_is_not_needed(balanced: Balanced, queue: str) -> None:
    leader = balanced.cluster.leader_of(queue)
    bodies, send = sender(balanced, queue, f"died-{leader.number}")
    answer, lost = balanced.losing(send, leader.kill)
    assert answer["Successful"] == lost["Successful"]
    leader.start()
    balanced.cluster.await_leaders()
    assert judge(told_of(bodies, answer), take_all(balanced, queue)) == []
