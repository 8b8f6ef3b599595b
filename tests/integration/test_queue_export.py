"""`fastnode queue export` and `import` between two nodes that look at signatures: everything comes
out as it went in, nothing is consumed unless asked, and what is wrong is refused.
"""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastnode.__main__ import main
from fastnode.cli.node_client import SqsClient
from fastnode.cli.target import Keys, Target
from fastnode.http.credentials import read_credentials
from tests.conformance.signing import credentials_file
from tests.cut_proxy import CutProxy, LosesFirst
from tests.nodes import REGION, Node

Fastnode = Callable[..., tuple[int, str, str]]
# All that SQS allows in a body: tab, line ends, quotes, every plane, and the edges of each range.
BODIES = (
    "plain",
    '\t\r\n "quoted" \\ </script> \x7f\x85\u2028',
    "\ud7ff\ue000\ufffd\U00010000\U0010ffff",
    "x" * 300_000,
    "\u20ac" * 90_000,
)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Node]]:
    folder = tmp_path_factory.mktemp("export")
    flags = ("--groups", "2", "--credentials", str(credentials_file(folder)))
    with Node(folder / "one", *flags) as one, Node(folder / "two", *flags) as two:
        yield one, two


@pytest.fixture
def fastnode(
    nodes: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> Fastnode:
    """`fastnode(0, …)` asks the first node, `fastnode(1, …)` the second."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FASTNODE_CREDENTIALS", str(nodes[0].data_dir.parent / "credentials.json"))

    def run(which: int, *arguments: str) -> tuple[int, str, str]:
        node = nodes[which]
        monkeypatch.setenv("FASTNODE_LISTEN", node.sqs_url.removeprefix("http://"))
        monkeypatch.setenv("FASTNODE_ADMIN", node.admin_url.removeprefix("http://"))
        code = main(["queue", *arguments])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


class Sqs:
    """The same calls that the command makes, for tests to fill and to look."""

    def __init__(self, node: Node, credentials: Path) -> None:
        ((access, key),) = list(read_credentials(str(credentials)).items())[:1]
        target = Target(node.sqs_url, node.admin_url, REGION, Keys(access, key.secret))
        client = SqsClient(target)
        self.call, self.close = client.call, client.close

    def drain(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while rows := self.call(
            "ReceiveMessage",
            QueueUrl=name,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            AttributeNames=["All"],
        ).get("Messages"):
            found += rows
            for row in rows:
                self.call("DeleteMessage", QueueUrl=name, ReceiptHandle=row["ReceiptHandle"])
        return found


@pytest.fixture
def sqs(nodes: tuple[Node, Node]) -> Iterator[tuple[Sqs, Sqs]]:
    credentials = nodes[0].data_dir.parent / "credentials.json"
    one, two = (Sqs(node, credentials) for node in nodes)
    yield one, two
    for each in (one, two):
        for url in each.call("ListQueues").get("QueueUrls", []):
            each.call("DeleteQueue", QueueUrl=url)
        each.close()


ATTRIBUTES = {
    "Text": {"DataType": "String", "StringValue": "\u00e4\n\U0001f600"},
    "Count": {"DataType": "Number.int", "StringValue": "1.0"},
    "Bytes": {"DataType": "Binary", "BinaryValue": base64.b64encode(bytes(range(256))).decode()},
}
TRACE = {
    "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a9"}
}


def fill(sqs: Sqs) -> None:
    """A chain of dead-letter queues, a FIFO queue, messages with everything."""
    arns: dict[str, str] = {}
    for name, target in (("third", None), ("second", "third"), ("first", "second")):
        attributes = {"VisibilityTimeout": "45"}
        if target:
            policy = {"deadLetterTargetArn": arns[target], "maxReceiveCount": 3}
            attributes["RedrivePolicy"] = json.dumps(policy)
        sqs.call("CreateQueue", QueueName=name, Attributes=attributes, tags={"team": name})
        answer = sqs.call("GetQueueAttributes", QueueUrl=name, AttributeNames=["QueueArn"])
        arns[name] = answer["Attributes"]["QueueArn"]
    allow = {"redrivePermission": "byQueue", "sourceQueueArns": [arns["second"]]}
    sqs.call(
        "SetQueueAttributes",
        QueueUrl="third",
        Attributes={"RedriveAllowPolicy": json.dumps(allow)},
    )
    sqs.call(
        "AddPermission",
        QueueUrl="first",
        Label="all",
        AWSAccountIds=["123456789012"],
        Actions=["SendMessage"],
    )
    sqs.call("CreateQueue", QueueName="order.fifo", Attributes={"FifoQueue": "true"})
    for body in BODIES:
        sqs.call("SendMessage", QueueUrl="first", MessageBody=body)
    sqs.call(
        "SendMessage",
        QueueUrl="first",
        MessageBody="with all",
        MessageAttributes=ATTRIBUTES,
        MessageSystemAttributes=TRACE,
    )
    sqs.call("SendMessage", QueueUrl="second", MessageBody="late", DelaySeconds=900)
    for number in range(12):
        sqs.call(
            "SendMessage",
            QueueUrl="order.fifo",
            MessageBody=str(number),
            MessageGroupId=f"g{number % 2}",
            MessageDeduplicationId=f"d{number}",
        )


def shape(sqs: Sqs) -> dict[str, Any]:
    """All queues and what is told of them, without what belongs to the place."""
    found = {}
    for url in sqs.call("ListQueues")["QueueUrls"]:
        answer = sqs.call("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
        attributes = {
            name: value
            for name, value in answer["Attributes"].items()
            if not name.endswith("Timestamp")
        }
        tags = sqs.call("ListQueueTags", QueueUrl=url).get("Tags", {})
        found[url.rpartition("/")[2]] = attributes, tags
    return found


def content(rows: list[dict[str, Any]]) -> list[tuple[str, Any, str | None]]:
    trace = "AWSTraceHeader"
    return [
        (row["Body"], row.get("MessageAttributes"), row["Attributes"].get(trace)) for row in rows
    ]


def done(ended: tuple[int, str, str]) -> str:
    code, out, err = ended
    assert (code, err) == (0, ""), err
    return out


def test_everything_arrives_as_it_was_and_nothing_was_received(
    fastnode: Fastnode, sqs: tuple[Sqs, Sqs], tmp_path: Path
) -> None:
    one, two = sqs
    fill(one)
    before = shape(one)
    file = str(tmp_path / "all.jsonl")
    words = done(fastnode(0, "export", "--out", file))
    assert words == "exported 4 queues with 19 messages\n"
    assert shape(one) == before
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    names = [line["queue"]["name"] for line in lines if "queue" in line]
    assert names.index("third") < names.index("second") < names.index("first")
    assert Path(file).stat().st_mode & 0o077 == 0
    assert "imported 4 queues with 19 messages" in done(fastnode(1, "import", file))
    assert shape(two) == before
    old, new = one.drain("first"), two.drain("first")
    assert [row["Attributes"]["ApproximateReceiveCount"] for row in old] == ["1"] * len(old)
    assert content(new) == content(old)
    assert sorted(row["Body"] for row in new) == sorted([*BODIES, "with all"])
    assert new[-1]["MessageAttributes"] == ATTRIBUTES
    order = [
        (
            row["Body"],
            row["Attributes"]["MessageDeduplicationId"],
            row["Attributes"]["MessageGroupId"],
        )
        for row in two.drain("order.fifo")
    ]
    for group in range(2):
        numbers = range(group, 12, 2)
        expected = [(str(number), f"d{number}", f"g{group}") for number in numbers]
        assert [row for row in order if row[2] == f"g{group}"] == expected
    counts = two.call("GetQueueAttributes", QueueUrl="second", AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessagesDelayed"] == "1"


def test_a_fifo_import_can_be_repeated_and_a_used_deduplication_id_loses_no_message(
    fastnode: Fastnode, sqs: tuple[Sqs, Sqs], tmp_path: Path
) -> None:
    file = tmp_path / "fifo.jsonl"
    queue = {"name": "o.fifo", "arn": "arn:aws:sqs:r:0:o.fifo", "attributes": {"FifoQueue": "true"}}
    message = {"queue": "o.fifo", "group_id": "g", "deduplication_id": "same"}
    rows: list[dict[str, Any]] = [
        {"export": {"format": 1, "source": "", "began_ms": 0}},
        {"queue": queue},
        # Sent an hour apart: two messages.
        {"message": message | {"body": "1", "message_id": "a" * 36}},
        {"message": message | {"body": "2", "message_id": "b" * 36}},
        {"end": {"queues": 1, "messages": 2}},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for _ in range(2):
        words = done(fastnode(1, "import", str(file)))
        assert "with 2 messages; 1 of them under new deduplication ids" in words
    assert [row["Body"] for row in sqs[1].drain("o.fifo")] == ["1", "2"]


def test_by_receiving_messages_are_given_back_or_consumed(
    fastnode: Fastnode, sqs: tuple[Sqs, Sqs], tmp_path: Path
) -> None:
    one, two = sqs
    fill(one)
    line = refused(fastnode(0, "export", "--receive"), 2)
    assert "'order.fifo' gives the rest of a message group only when" in line
    code, out, err = fastnode(0, "export", "first", "--receive", "--json")
    assert code == 0 and json.loads(err)["messages"] == 6
    assert len(out.splitlines()) == 1 + 1 + 6 + 1
    counts = one.call("GetQueueAttributes", QueueUrl="first", AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "6"
    file = str(tmp_path / "taken.jsonl")
    done(fastnode(0, "export", "first", "order.fifo", "--receive", "--consume", "--out", file))
    assert one.drain("first") == one.drain("order.fifo") == []
    done(fastnode(1, "import", file, "--no-policies"))
    assert sorted(row["Body"] for row in two.drain("first")) == sorted([*BODIES, "with all"])
    rows = two.drain("order.fifo")
    for group in ("g0", "g1"):
        bodies = [int(row["Body"]) for row in rows if row["Attributes"]["MessageGroupId"] == group]
        assert len(bodies) == 6 and bodies == sorted(bodies)


def refused(ended: tuple[int, str, str], code: int = 1) -> str:
    assert ended[0] == code and ended[1] == "" and ended[2].count("\n") == 1, ended
    return ended[2]


def test_files_that_are_wrong_change_nothing(
    fastnode: Fastnode, sqs: tuple[Sqs, Sqs], tmp_path: Path
) -> None:
    one, two = sqs
    fill(one)
    file = tmp_path / "all.jsonl"
    done(fastnode(0, "export", "--out", str(file)))
    assert "exists: name a new file" in refused(fastnode(0, "export", "--out", str(file)), 2)
    lines = file.read_bytes().splitlines(keepends=True)
    spoiled = {
        b"".join(lines[:-1]): "cut short after line",
        b"".join(lines)[:-20]: "is cut short",
        b"".join([*lines[:6], *lines[7:]]): "messages, there are",
        b"".join(lines[1:]): "is not an export",
        b"".join([*lines, lines[1]]): "comes after the end",
        b"\x00\xff not json\n": "line 1 is none of an export",
        b"[1]\n": "line 1 is none of an export",
        b"": "cut short after line 0",
        lines[0].replace(b'"format": 1', b'"format": 7'): "is of export format 7",
        b"".join(lines).replace(b'"queue": "first"', b'"queue": "nowhere"'): "'nowhere' is not",
    }
    for number, (text, words) in enumerate(spoiled.items()):
        bad = tmp_path / f"bad{number}"
        bad.write_bytes(text)
        assert words in refused(fastnode(1, "import", str(bad)))
    assert not two.call("ListQueues").get("QueueUrls")
    assert "No such file" in refused(fastnode(1, "import", str(tmp_path / "none")), 2)
    for flags, words in {
        ("--consume",): "--consume is for --receive",
        ("--receive", "--consume"): "name a file with --out",
        ("--visibility", "0"): "--visibility must be from 1 to 43200",
    }.items():
        assert words in refused(fastnode(0, "export", *flags), 2)


def test_an_import_that_stopped_goes_on_and_a_queue_that_is_another_is_left_alone(
    fastnode: Fastnode, sqs: tuple[Sqs, Sqs], tmp_path: Path
) -> None:
    one, two = sqs
    one.call("CreateQueue", QueueName="q", Attributes={"VisibilityTimeout": "45"})
    for number in range(25):
        one.call("SendMessage", QueueUrl="q", MessageBody=str(number))
    file = tmp_path / "q.jsonl"
    done(fastnode(0, "export", "q", "--out", str(file)))
    two.call("CreateQueue", QueueName="q", Attributes={"VisibilityTimeout": "7"})
    assert "exists and is another" in refused(fastnode(1, "import", str(file)))
    assert two.drain("q") == []
    # Line 15 is one that no server takes.
    lines = file.read_text().splitlines(keepends=True)
    bad = tmp_path / "bad.jsonl"
    bad.write_text(
        "".join([*lines[:14], lines[14].replace('"body": "12"', '"body": ""'), *lines[15:]])
    )
    line = refused(fastnode(1, "import", str(bad), "--keep"))
    assert "then line 15 was not" in line and "go on with --from-line 15" in line
    done(fastnode(1, "import", str(file), "--keep", "--from-line", "15"))
    bodies = sorted({int(row["Body"]) for row in two.drain("q")})
    assert bodies == list(range(25))


def test_an_import_whose_answers_are_lost_doubles_nothing(
    nodes: tuple[Node, Node], fastnode: Fastnode, sqs: tuple[Sqs, Sqs], tmp_path: Path
) -> None:
    one, two = sqs
    one.call("CreateQueue", QueueName="q")
    for number in range(25):
        one.call("SendMessage", QueueUrl="q", MessageBody=str(number))
    file = tmp_path / "q.jsonl"
    done(fastnode(0, "export", "q", "--out", str(file)))
    lost = LosesFirst(2)
    with CutProxy(
        lambda: [nodes[1].sqs_url], lambda one: one.action == "SendMessageBatch" and lost(one)
    ) as proxy:
        assert "25 messages" in done(fastnode(1, "import", str(file), "--endpoint", proxy.url))
        assert proxy.lost == 2
    assert sorted(int(row["Body"]) for row in two.drain("q")) == list(range(25))
