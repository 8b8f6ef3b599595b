"""Queues of an ElasticMQ file: what becomes of them, what is said about the rest."""

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.__main__ import main
from fastnode.cli.elasticmq import convert, seconds
from fastnode.cli.hocon import parse_hocon
from fastnode.queue.predeclared import check_declared
from fastnode.serve import declaration
from fastnode.settings import load_settings

# The shape of the example in ElasticMQ's documentation.
FILE = """
include classpath("application.conf")

node-address { protocol = http, host = ${?HOST}, port = 9324 }

queues {
  queue1 {
    defaultVisibilityTimeout = 10 seconds
    delay = 5 seconds
    receiveMessageWait = 0 seconds
    deadLettersQueue {
      name = "queue1-dead-letters"
      maxReceiveCount = 3 // from 1 to 1000
    }
    fifo = false
    contentBasedDeduplication = false
    copyTo = "audit-queue-name"
    tags { tag1 = "tagged1", tag2: "tagged \\"2\\"" }
  }
  queue1-dead-letters { }
  "orders" { fifo = true, contentBasedDeduplication = true }  # becomes orders.fifo
}
queues.late.delay = 1500 millis
aws { region = eu-west-1, accountId = 000000000000 }
"""


def test_the_documented_example(tmp_path: Path) -> None:
    converted = convert(FILE)
    path = tmp_path / "node.toml"
    path.write_text(converted.toml)
    settings = load_settings({}, {}, config=str(path))
    check_declared(declaration(settings))
    assert settings.region == "eu-west-1"
    assert list(settings.queues) == ["queue1-dead-letters", "orders.fifo", "late", "queue1"]
    queue = dict(settings.queues["queue1"])
    assert json.loads(queue.pop("RedrivePolicy")) == {
        "deadLetterTargetArn": "arn:aws:sqs:eu-west-1:000000000000:queue1-dead-letters",
        "maxReceiveCount": 3,
    }
    assert queue == {
        "VisibilityTimeout": "10",
        "DelaySeconds": "5",
        "ReceiveMessageWaitTimeSeconds": "0",
    }
    assert settings.queue_tags == {"queue1": {"tag1": "tagged1", "tag2": 'tagged "2"'}}
    assert settings.queues["orders.fifo"] == {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "true",
    }
    assert settings.queues["late"] == {"DelaySeconds": "2"}
    assert converted.warnings == [
        "queues.queue1.copyTo is left out: send to both queues, or let a consumer copy",
        "queues.orders is called orders.fifo, as ElasticMQ does",
        "node-address is left out: see fastnode config init for our settings",
    ]


def test_a_dead_letter_queue_that_is_missing_is_added() -> None:
    converted = convert("queues { a { deadLettersQueue { name = b } } }")
    assert list(tomllib.loads(converted.toml)["queues"]) == ["b", "a"]
    assert "b is not in the file and was added" in converted.warnings[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no queues"),
        ("queues = 3", "it has no queues"),
        ("queues {\n a {", "line 2: a } is missing"),
        ("queues {\n a = \n}", "line 3: a value was expected"),
        ('queues {\n "a }', "line 2: a text in quotes does not end"),
        ("queues { a { dealy = 1s } }", "unknown key dealy; did you mean delay?"),
        ("queues { a { delay = soon } }", "must be a duration such as 10 seconds, not 'soon'"),
        ("queues { a { delay = ${D} } }", "is a substitution, ${D}: write the value itself"),
        ("queues { a { delay = [1] } }", "must be a single value"),
        ("queues { a { fifo = perhaps } }", "must be true or false"),
        ("queues { a = 3 }", "queues.a must be an object"),
        ("queues { a { tags = 1 } }", "queues.a.tags must be an object"),
        ("queues { a { deadLettersQueue { name = b, maxReceiveCount = x } } }", "must be a number"),
        (
            "queues { a { deadLettersQueue.name = b }, b { deadLettersQueue.name = a } }",
            "lead round in a circle: a, b",
        ),
        ("queues " + "{a" * 5_000, "nested too deeply"),
        ("queues { a = " + "[" * 5_000, "nested too deeply"),
        ("queues {} }", "a key was expected"),
    ],
)
def test_what_cannot_be_understood_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        convert(text)
    assert reason in str(caught.value)


@given(st.text(alphabet='a.{}[]"=:,\n #/$\\ 1s', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(parse_hocon(text), dict)
    except ValueError as error:
        assert str(error).startswith("line ")


@pytest.mark.parametrize(
    ("text", "whole"),
    [("0", 0), ("1", 1), ("10s", 10), ("1.5 minutes", 90), ("2 h", 7200), ("1001 ms", 2)],
)
def test_durations_are_never_shortened(text: str, whole: int) -> None:
    assert seconds(text, "x") == whole


def test_the_command_shows_toml_and_warns_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "elasticmq.conf"
    path.write_text(FILE)
    assert main(["config", "from-elasticmq", str(path)]) == 0
    shown = capsys.readouterr()
    assert list(tomllib.loads(shown.out)["queues"]) == list(
        tomllib.loads(convert(FILE).toml)["queues"]
    )
    assert shown.err.count("\n") == 3
    path.write_text("queues {")
    assert main(["config", "from-elasticmq", str(path)]) == 2
    assert capsys.readouterr() == ("", f"fastnode: {path}: line 1: a }} is missing\n")
