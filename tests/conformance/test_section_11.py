"""The contract, section 11, as far as no other section has it: fair queues."""

import pytest

from tests.conformance.client import Client
from tests.conformance.contract import covers
from tests.conformance.kit import bodies, new_queue, receive


@pytest.fixture
def fair(sqs: Client) -> str:
    """Whoever receives a message here keeps it for longer than a case lasts."""
    return new_queue(sqs, VisibilityTimeout="3600")


def send_as(sqs: Client, queue: str, tenant: str | None, name: str, count: int = 1) -> None:
    """Messages `name0`, `name1`, … of one tenant."""
    member = {} if tenant is None else {"MessageGroupId": tenant}
    for first in range(0, count, 10):
        entries = [
            {"Id": f"e{number}", "MessageBody": f"{name}{number}", **member}
            for number in range(first, min(first + 10, count))
        ]
        answer = sqs.call("SendMessageBatch", QueueUrl=queue, Entries=entries)
        assert len(answer["Successful"]) == len(entries)


def take(sqs: Client, queue: str, count: int) -> list[str]:
    taken: list[str] = []
    while len(taken) < count:
        left = min(count - len(taken), 10)
        taken += bodies(receive(sqs, queue, MaxNumberOfMessages=left))
    return taken


@covers("11.fair-noisy")
def test_a_tenant_is_noisy_from_thirty_messages_in_flight_on(sqs: Client, fair: str) -> None:
    send_as(sqs, fair, "loud", "loud", 40)
    take(sqs, fair, 29)
    send_as(sqs, fair, "quiet", "quiet", 2)
    assert take(sqs, fair, 1) == ["loud29"], "what was sent first"
    assert take(sqs, fair, 3) == ["quiet0", "quiet1", "loud30"]


@covers("11.fair-noisy")
def test_a_tenant_is_not_noisy_with_a_tenth_of_the_messages_in_flight(
    sqs: Client, fair: str
) -> None:
    send_as(sqs, fair, None, "other", 279)
    send_as(sqs, fair, "loud", "loud", 40)
    take(sqs, fair, 279 + 30)
    send_as(sqs, fair, "quiet", "quiet")
    assert take(sqs, fair, 2) == ["loud30", "loud31"], "31 of 310 are just a tenth"
    assert take(sqs, fair, 2) == ["quiet0", "loud32"], "32 of 311 are more"


@covers("11.fair-quiet")
def test_quiet_tenants_do_not_wait_behind_a_noisy_one(sqs: Client, fair: str) -> None:
    send_as(sqs, fair, "loud", "loud", 60)
    take(sqs, fair, 30)
    send_as(sqs, fair, "a", "a")
    send_as(sqs, fair, None, "nobody", 2)
    send_as(sqs, fair, "b", "b", 2)
    assert take(sqs, fair, 8) == ["a0", "nobody0", "nobody1", "b0", "b1", *_loud(30, 33)]
    send_as(sqs, fair, "a", "again")
    assert take(sqs, fair, 2) == ["again0", "loud33"]


@covers("11.fair-fewest")
def test_among_noisy_tenants_the_one_with_fewest_in_flight_comes_first(
    sqs: Client, fair: str
) -> None:
    send_as(sqs, fair, "loud", "loud", 60)
    take(sqs, fair, 34)
    send_as(sqs, fair, "shrill", "shrill", 60)
    shrill = [f"shrill{number}" for number in range(60)]
    assert take(sqs, fair, 30) == shrill[:30], "quiet until it holds thirty itself"
    assert take(sqs, fair, 4) == shrill[30:34], "30 in flight are fewer than 34"
    assert take(sqs, fair, 4) == ["loud34", "shrill34", "loud35", "shrill35"]


def _loud(first: int, end: int) -> list[str]:
    return [f"loud{number}" for number in range(first, end)]
