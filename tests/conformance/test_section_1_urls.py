"""The contract, sections 1.5 and 1.6: which URLs name a queue; errors that other cases lack."""

import pytest

from tests.conformance import kinds
from tests.conformance.client import ACCOUNT, Client, claim
from tests.conformance.contract import covers
from tests.conformance.kit import ABSENT_QUEUE, name_of, new_name, new_queue, send

PATHS = [
    "https://sqs.us-east-1.amazonaws.com/{account}/{name}",
    "https://us-east-1.queue.amazonaws.com/{account}/{name}",
    "https://queue.amazonaws.com/{account}/{name}",
]


@covers("1.5.issued")
@pytest.mark.parametrize("host", ["localhost:9324", "127.0.0.1", "sqs.localhost:80"])
def test_a_url_is_issued_with_the_host_of_the_request(sqs: Client, host: str) -> None:
    name = new_name()
    reply = sqs.send("CreateQueue", {"QueueName": name}, headers={"Host": host})
    url = sqs.read("CreateQueue", reply)["QueueUrl"]
    assert url == f"http://{host}/{ACCOUNT}/{name}"


@covers("1.5.aws-hosts")
@pytest.mark.parametrize("form", PATHS)
def test_the_host_of_a_queue_url_is_ignored(sqs: Client, queue: str, form: str) -> None:
    assert send(sqs, form.format(account=ACCOUNT, name=name_of(queue)))["MessageId"]


@covers("1.5.path-style")
def test_a_path_with_a_region_names_the_queue(sqs: Client, queue: str) -> None:
    assert send(sqs, f"{sqs.url}/queue/us-east-1/{ACCOUNT}/{name_of(queue)}")["MessageId"]


@covers("1.5.bare-name")
def test_a_bare_name_is_a_queue_of_the_caller(sqs: Client, queue: str) -> None:
    assert send(sqs, name_of(queue))["MessageId"]
    other = sqs.another(claim("111111111111"))
    other.refused("PurgeQueue", QueueUrl=name_of(queue)).assert_is(kinds.NO_QUEUE)
    elsewhere = sqs.another(claim("test", "eu-west-1"))
    elsewhere.refused("PurgeQueue", QueueUrl=name_of(queue)).assert_is(kinds.NO_QUEUE)


@covers("1.5.trailing-slash")
def test_a_trailing_slash_is_stripped(sqs: Client, queue: str) -> None:
    assert send(sqs, queue + "/")["MessageId"]


@covers("1.5.unknown-queue", "1.5.no-path", "1.6.queue-does-not-exist")
@pytest.mark.parametrize(
    "url",
    [ABSENT_QUEUE, "http://whatever-incorrect", "http://whatever-incorrect/", "no-such-name", "//"],
)
def test_a_url_without_a_queue_is_a_queue_that_does_not_exist(sqs: Client, url: str) -> None:
    sqs.refused("GetQueueAttributes", QueueUrl=url).assert_is(kinds.NO_QUEUE)


@covers("1.5.url-missing", only="json")
def test_a_missing_url_is_a_queue_that_does_not_exist(sqs: Client) -> None:
    sqs.refused("PurgeQueue").assert_is(kinds.NO_QUEUE, "The specified queue does not exist.")


@covers("1.6.unknown-operation")
def test_an_unknown_action_is_an_unknown_operation(sqs: Client) -> None:
    sqs.refused("Frobnicate").assert_is(kinds.UNKNOWN_ACTION)


@covers("1.6.request-throttled")
def test_a_throttled_call_is_refused_for_a_while(sqs: Client) -> None:
    queue = new_queue(sqs, ThrottleSendCapacity="10", ThrottleSendRefillPerSecond="1")
    entries = [{"Id": str(number), "MessageBody": "x"} for number in range(10)]
    sqs.call("SendMessageBatch", QueueUrl=queue, Entries=entries)
    refusal = sqs.refused("SendMessage", QueueUrl=queue, MessageBody="x")
    refusal.assert_is(kinds.THROTTLED)
    assert int(refusal.reply.headers["retry-after"]) >= 1
