"""The contract, section 4: bodies, message attributes, digests."""

import base64
import hashlib
from typing import Any

import pytest

from tests.conformance import kinds
from tests.conformance.client import Client, Refused
from tests.conformance.contract import covers
from tests.conformance.kinds import INVALID_PARAMETER
from tests.conformance.kit import (
    Refusal,
    binary_attribute,
    each_refusal,
    new_queue,
    receive_one,
    send,
    text_attribute,
)

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
TRACE_ATTRIBUTE = {"AWSTraceHeader": text_attribute(TRACE)}
MIB = 1_048_576


def bad(rows: str, text: str | None, attributes: dict[str, Any], **fields: Any) -> Refusal:
    members = {"MessageBody": "x", "MessageAttributes": attributes}
    return Refusal(rows, "SendMessage", members, fields.get("kind", INVALID_PARAMETER), text)


def bad_name(rows: str, name: str, text: str | None = None) -> Refusal:
    return bad(rows, text, {name: text_attribute("x")})


def type_text(name: str) -> str:
    return (
        f"The type of message (user) attribute '{name}' is invalid. You must use only the "
        "following supported type prefixes: Binary, Number, String."
    )


def empty_text(kind: str) -> str:
    return f"Message (user) attribute 'k' must contain a non-empty value of type '{kind}'."


RESERVED_TEXT = (
    "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. "
    "These strings are reserved for internal use."
)
LIST_TEXT = "Message attribute list values in SendMessage operation are not supported."
NUMBER_TEXT = "Can't cast the value of message (user) attribute 'k' to a number."
REFUSALS = [
    bad(
        "4.2.ten 0.2.message-attributes",
        "Number of message attributes [11] exceeds the allowed maximum [10].",
        {f"k{number}": text_attribute("x") for number in range(11)},
    ),
    bad_name(
        "4.2.name-length",
        "n" * 257,
        "Message (user) attribute name must be shorter than 256 bytes.",
    ),
    *(bad_name("4.2.name-bad", f"a{character}b") for character in '!"§(? '),
    *(bad_name("4.2.name-dots", name) for name in (".a", "a.")),
    *(
        bad_name("4.2.name-reserved", name, RESERVED_TEXT)
        for name in ("AWS.x", "aws.x", "Amazon.x", "AMAZON.x", "AmAzOn.x")
    ),
    *(
        bad("4.2.type", type_text("k"), {"k": text_attribute("x", data_type)})
        for data_type in ("Text", "string", "Stringy", "", "Float")
    ),
    bad("4.2.type", type_text("k"), {"k": {"StringValue": "x"}}),
    bad("4.2.type-length", None, {"k": text_attribute("x", "String." + "l" * 249)}),
    bad("4.2.value-empty", empty_text("String"), {"k": text_attribute("")}),
    bad("4.2.value-empty", empty_text("String"), {"k": {"DataType": "String"}}),
    bad("4.2.value-empty", empty_text("Number"), {"k": text_attribute("", "Number")}),
    bad("4.2.value-empty", empty_text("Binary"), {"k": binary_attribute("")}),
    bad(
        "4.2.value-empty",
        empty_text("Binary"),
        {"k": {"DataType": "Binary", "StringValue": "x"}},
    ),
    *(
        bad("4.2.number", NUMBER_TEXT, {"k": text_attribute(text, "Number")})
        for text in ("abc", "1" * 39, "1e127", "1e-129", "0x10", "1,5", "1 2", "--1")
    ),
    *(
        bad("4.2.lists 1.6.unsupported-operation", LIST_TEXT, {"k": value}, kind=kinds.UNSUPPORTED)
        for value in (
            text_attribute("x") | {"StringListValues": ["a"]},
            binary_attribute("eA==") | {"BinaryListValues": ["eA=="]},
        )
    ),
    bad(
        "4.2.name-empty",
        "The request must contain non-empty message (user) attribute names.",
        {"": text_attribute("x")},
    ),
    *(
        bad("4.1.refused-attribute", None, {"k": text_attribute(f"a{character}b")})
        for character in ("\x00", "\x0b", "\x1f", "\ufffe", "\uffff")
    ),
    Refusal(
        "4.4.only-trace",
        "SendMessage",
        {"MessageBody": "x", "MessageSystemAttributes": {"SenderId": text_attribute("me")}},
        INVALID_PARAMETER,
        "Message system attribute name 'SenderId' is invalid.",
    ),
    Refusal(
        "4.4.trace-type",
        "SendMessage",
        {
            "MessageBody": "x",
            "MessageSystemAttributes": {"AWSTraceHeader": text_attribute("1", "Number")},
        },
        INVALID_PARAMETER,
        None,
    ),
]


@each_refusal(REFUSALS)
def test_refused(sqs: Client, refusal: Refusal) -> None:
    refusal.check(sqs)


def sent(sqs: Client, queue: str, **members: Any) -> dict[str, Any]:
    """Send it and receive it with everything it has."""
    send(sqs, queue, **members)
    every = {"MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}
    return receive_one(sqs, queue, **every)


# --- bodies and sizes ---------------------------------------------------------------------------


@covers("4.1.characters", "4.1.exact", "4.3.body")
@pytest.mark.parametrize(
    "body",
    [
        "\t\n\r",
        "\r\n",
        "a\rb",
        " leading and trailing ",
        '<tag attribute="value">&amp;\'</tag>]]>',
        "\x7f\x80\x9f",
        "\ud7ff\ue000\ufffd\U00010000\U0010ffff",
        '{"json": "\\u0041"}',
        "a+b%20c&d=e;f",
    ],
)
def test_a_body_comes_back_exactly(sqs: Client, queue: str, body: str) -> None:
    digest = hashlib.md5(body.encode()).hexdigest()
    assert send(sqs, queue, body)["MD5OfMessageBody"] == digest
    message = receive_one(sqs, queue)
    assert (message["Body"], message["MD5OfBody"]) == (body, digest)


@covers("4.1.size", "4.2.labels-size")
@pytest.mark.parametrize(
    ("attribute", "size"),
    [
        (text_attribute("\u00e9" * 10), len("name") + len("String") + 20),
        (text_attribute("12", "Number.label"), len("name") + len("Number.label") + 2),
        (binary_attribute(base64.b64encode(bytes(30)).decode()), len("name") + len("Binary") + 30),
    ],
    ids=["string", "label", "binary"],
)
def test_size_counts_bytes_of_body_and_attributes(
    sqs: Client, attribute: dict[str, str], size: int
) -> None:
    queue = new_queue(sqs, MaximumMessageSize="1024")
    named = {"MessageAttributes": {"name": attribute}}
    odd = (1_024 - size) % 2
    body = "\u00e9" * ((1_024 - size) // 2) + "x" * odd
    send(sqs, queue, body, **named)
    refusal = sqs.refused("SendMessage", QueueUrl=queue, MessageBody=body + "x", **named)
    refusal.assert_is(INVALID_PARAMETER)


@covers("4.1.size-excludes")
def test_system_attributes_and_groups_do_not_count(sqs: Client) -> None:
    queue = new_queue(sqs, MaximumMessageSize="1024")
    members = {"MessageSystemAttributes": TRACE_ATTRIBUTE, "MessageGroupId": "g" * 128}
    send(sqs, queue, "x" * 1_024, **members)


# --- message attributes -------------------------------------------------------------------------


@covers("4.2.ten", "0.2.message-attributes", "4.2.name-letters", "12.non-ascii-names")
def test_ten_attributes_with_odd_letters_are_kept(sqs: Client, queue: str) -> None:
    names = ["a", "Z9", "_", "-", "a.b", "attr.1\u00f8\u00df\u00e4", "\u65e5", "1", "a-b_c", "AWSx"]
    attributes = {name: text_attribute(f"value of {name}") for name in names}
    assert sent(sqs, queue, MessageAttributes=attributes)["MessageAttributes"] == attributes


@covers("4.2.name-length", "4.2.type-length")
def test_the_longest_name_and_type_are_kept(sqs: Client, queue: str) -> None:
    attributes = {"n" * 256: text_attribute("x", "String." + "l" * 248)}
    assert sent(sqs, queue, MessageAttributes=attributes)["MessageAttributes"] == attributes


@covers("4.2.type", "4.2.labels", "4.2.number-text", "4.2.number")
@pytest.mark.parametrize(
    "attribute",
    [
        text_attribute("x", "String.custom"),
        text_attribute("1493147359900", "Number.java.lang.Long"),
        binary_attribute("AQID", "Binary.png"),
        text_attribute("1" * 38, "Number"),
        text_attribute("-0.500", "Number"),
        text_attribute("+1e126", "Number"),
        text_attribute("1E-128", "Number"),
        text_attribute("007", "Number"),
    ],
    ids=lambda attribute: attribute["DataType"] + attribute.get("StringValue", "")[:8],
)
def test_types_keep_their_label_and_numbers_their_text(
    sqs: Client, queue: str, attribute: dict[str, str]
) -> None:
    assert sent(sqs, queue, MessageAttributes={"k": attribute})["MessageAttributes"] == {
        "k": attribute
    }


@covers("4.2.name-two-dots")
def test_two_dots_in_a_row_are_kept_or_refused(sqs: Client, queue: str) -> None:
    attributes = {"a..b": text_attribute("x")}
    try:
        message = sent(sqs, queue, MessageAttributes=attributes)
    except Refused as refusal:
        refusal.assert_is(INVALID_PARAMETER)
    else:
        assert message["MessageAttributes"] == attributes


@covers("4.2.value-empty")
def test_a_single_space_is_a_value(sqs: Client, queue: str) -> None:
    attributes = {"k": text_attribute(" ")}
    assert sent(sqs, queue, MessageAttributes=attributes)["MessageAttributes"] == attributes


# --- digests ------------------------------------------------------------------------------------

THREE = {
    "General": text_attribute("Kenobi"),
    "Hello": text_attribute("There"),
    "Help.Me": text_attribute("Me"),
}
SPAN = b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01"
VECTORS: list[tuple[dict[str, Any], str]] = [
    ({"k": text_attribute("x")}, "a45daa70926828a2f0a1db3418e6feb4"),
    ({"timestamp": text_attribute("1493147359900", "Number")}, "235c5c510d26fb653d073faed50ae77c"),
    (
        {"attr1": binary_attribute(base64.b64encode(SPAN).decode())},
        "8cbe4db156db8a94db8b801b7addb984",
    ),
    (
        {
            "color": text_attribute("blue"),
            "count": text_attribute("3", "Number"),
            "blob": binary_attribute("AQID"),
        },
        "d838729972a4b70e2d2acd9d59ac847c",
    ),
    (THREE, "4c360f3fdafd970e05fae2f149d997f5"),
    (
        {"timestamp": text_attribute("1493147359900", "Number.java.lang.Long")},
        "2e2e4876d8e0bd6b8c2c8f556831c349",
    ),
    (
        {
            "\u00e9": text_attribute("\u65e5\u672c"),
            "z": text_attribute("1", "Number"),
            "Z": text_attribute("up"),
        },
        "58ce5b56f2ce8055d3d5b93803209933",
    ),
]


@covers("4.3.attributes")
@pytest.mark.parametrize(("attributes", "digest"), VECTORS, ids=["1", "2", "3", "4", "5", "7", "9"])
def test_attribute_digests(
    sqs: Client, queue: str, attributes: dict[str, Any], digest: str
) -> None:
    answer = send(sqs, queue, MessageAttributes=attributes)
    assert answer["MD5OfMessageAttributes"] == digest
    message = receive_one(sqs, queue, MessageAttributeNames=["All"])
    assert message["MD5OfMessageAttributes"] == digest


@covers("4.3.selected", "4.5.attributes-prefix")
def test_the_digest_covers_what_is_returned(sqs: Client, queue: str) -> None:
    send(sqs, queue, MessageAttributes=THREE)
    message = receive_one(sqs, queue, MessageAttributeNames=["Hel.*"])
    assert set(message["MessageAttributes"]) == {"Hello", "Help.Me"}
    assert message["MD5OfMessageAttributes"] == "83fee93c1bcd8b9a5a923ffacdc636c7"


@covers("4.3.system")
def test_system_attribute_digest(sqs: Client, queue: str) -> None:
    answer = send(sqs, queue, MessageSystemAttributes=TRACE_ATTRIBUTE)
    assert answer["MD5OfMessageSystemAttributes"] == "5ae4d5d7636402d80f4eb6d213245a88"
    assert "MD5OfMessageAttributes" not in answer


@covers("4.3.bodies", "4.3.body")
@pytest.mark.parametrize(
    ("body", "digest"),
    [
        ("message", "78e731027d8fd50ed642340b7c9a63b3"),
        ("H\u00e9llo!\U0001f600", "ac1e18dd3ff02748b22f26c67aca823b"),
    ],
)
def test_body_digests(sqs: Client, queue: str, body: str, digest: str) -> None:
    assert send(sqs, queue, body)["MD5OfMessageBody"] == digest
    assert receive_one(sqs, queue)["MD5OfBody"] == digest
