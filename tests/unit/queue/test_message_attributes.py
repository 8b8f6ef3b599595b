"""Section 4.2: what a sender may attach; 4.5: what a receiver selects; and the stored form."""

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fastnode import native
from fastnode.queue import message_attributes as subject
from fastnode.queue.api import MessageAttributeValue
from fastnode.queue.digest import Attribute
from fastnode.queue.errors import INVALID_CHARACTERS, SqsError
from fastnode.queue.message_attributes import MessageExtras
from tests.unit.conftest import Impl

IPV = "InvalidParameterValueException"


def string(text: str | None, data_type: str | None = "String") -> MessageAttributeValue:
    return MessageAttributeValue(data_type=data_type, string_value=text)


def binary(value: bytes | None, data_type: str = "Binary") -> MessageAttributeValue:
    return MessageAttributeValue(data_type=data_type, binary_value=value)


@pytest.mark.parametrize(
    "name",
    ["a", "A-b_9.c", "attr.1\u00f8\u00df\u00e4", "x" * 256, "a..b", "AWSx", "Amazon", "my.AWS.x"],
)
def test_name_is_accepted(name: str) -> None:
    assert subject.parse_attributes({name: string("v")}) == ((name, "String", b"v"),)


RESERVED = (
    "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. "
    "These strings are reserved for internal use."
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "The request must contain non-empty message (user) attribute names."),
        ("x" * 257, "Message (user) attribute name must be shorter than 256 bytes."),
        ("AWS.x", RESERVED),
        ("aws.x", RESERVED),
        ("aMaZoN.x", RESERVED),
        *((name, None) for name in (".a", "a.", ".", "a b", "a!", 'a"', "\u00a7", "(", "?", "a\n")),
    ],
)
def test_name_is_refused(name: str, text: str | None) -> None:
    with pytest.raises(SqsError) as refusal:
        subject.parse_attributes({name: string("v")})
    assert refusal.value.row.shape == IPV
    assert text is None or refusal.value.message == text


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (string("v", "String.custom"), ("String.custom", b"v")),
        (string("7", "Number.java.lang.Long"), ("Number.java.lang.Long", b"7")),
        (binary(b"\x00\xff", "Binary.png"), ("Binary.png", b"\x00\xff")),
        (string("v", "String." + "x" * 248), ("String." + "x" * 248, b"v")),
        (string("\u65e5\r\n"), ("String", "\u65e5\r\n".encode())),
    ],
)
def test_value_is_stored_with_its_full_type(
    value: MessageAttributeValue, stored: tuple[str, bytes]
) -> None:
    assert subject.parse_attributes({"a": value}) == (("a", *stored),)


NUMBERS = ["0", "-0.0", "1493147359900", "+1.50", ".5", "5.", "1e126", "-9.9E+126", "1e-128"]
NUMBERS += ["9" * 38, "0." + "0" * 127 + "1", "1" + "0" * 126, "000" + "1" * 38 + "000"]


@pytest.mark.parametrize("text", NUMBERS)
def test_number_keeps_its_text(text: str) -> None:
    parsed = subject.parse_attributes({"n": string(text, "Number")})
    assert parsed == (("n", "Number", text.encode()),)


NOT_NUMBERS = ["x", "1 ", " 1", "NaN", "Infinity", "1e127", "1e-129", "9" * 39, "1_0", "0x1"]
NOT_NUMBERS += ["\u0661", "--1", "1e", ".", "1e9999999999999999999", "0" * 513, "1\n"]
TYPE_TEXT = (
    "The type of message (user) attribute 'a' is invalid. You must use only the following "
    "supported type prefixes: Binary, Number, String."
)
EMPTY_TEXT = "Message (user) attribute 'a' must contain a non-empty value of type "
LISTS_TEXT = "Message attribute list values in SendMessage operation are not supported."

VALUE_REFUSALS = [
    *(
        (string("v", bad), IPV, TYPE_TEXT)
        for bad in (None, "", "string", "Stringy", "String.", "Int", "String." + "x" * 249)
    ),
    (string("v", "String.\x00"), IPV, TYPE_TEXT),
    *(
        (string(bad, "Number"), IPV,
         "Can't cast the value of message (user) attribute 'a' to a number.")
        for bad in NOT_NUMBERS
    ),
    (string(""), IPV, EMPTY_TEXT + "'String'."),
    (string(None), IPV, EMPTY_TEXT + "'String'."),
    (binary(b"x", "String"), IPV, EMPTY_TEXT + "'String'."),
    (string("", "Number"), IPV, EMPTY_TEXT + "'Number'."),
    (binary(b""), IPV, EMPTY_TEXT + "'Binary'."),
    (string("x", "Binary"), IPV, EMPTY_TEXT + "'Binary'."),
    (string("\x00"), IPV, INVALID_CHARACTERS),
    (string("\uffff"), IPV, INVALID_CHARACTERS),
    (MessageAttributeValue("String", "v", string_list_values=["v"]), "UnsupportedOperation",
     LISTS_TEXT),
    (MessageAttributeValue("Binary", binary_list_values=[b"v"]), "UnsupportedOperation",
     LISTS_TEXT),
]  # fmt: skip


@pytest.mark.parametrize(("value", "shape", "text"), VALUE_REFUSALS)
def test_value_is_refused(value: MessageAttributeValue, shape: str, text: str) -> None:
    with pytest.raises(SqsError) as refusal:
        subject.parse_attributes({"a": value})
    assert (refusal.value.row.shape, refusal.value.message) == (shape, text)


def test_ten_attributes_are_accepted_and_eleven_refused() -> None:
    values = {f"a{n}": string("v") for n in range(10)}
    assert len(subject.parse_attributes(values)) == 10
    with pytest.raises(SqsError) as refusal:
        subject.parse_attributes(values | {"more": string("v")})
    expected = "Number of message attributes [11] exceeds the allowed maximum [10]."
    assert refusal.value.message == expected


@pytest.mark.parametrize("values", [None, {}])
def test_no_attributes(values: dict[str, MessageAttributeValue] | None) -> None:
    assert subject.parse_attributes(values) == ()
    assert subject.parse_system_attributes(values) == ()
    assert subject.attributes_size(values) == 0


def test_size_counts_bytes_of_name_type_and_value() -> None:
    # Section 4.1.
    values = {"\u00e9": string("\u65e5"), "b": binary(b"123", "Binary.x")}
    assert subject.attributes_size(values) == (2 + 6 + 3) + (1 + 8 + 3)


def test_size_is_known_for_what_will_be_refused() -> None:
    values = {"a": string(None, None), "\ud800": string("\ud800")}
    assert subject.attributes_size(values) == 1 + (3 + 6 + 3)


# Section 4.4.
def test_trace_header_is_the_only_system_attribute() -> None:
    header = {"AWSTraceHeader": string("Root=1")}
    expected = (("AWSTraceHeader", "String", b"Root=1"),)
    assert subject.parse_system_attributes(header) == expected
    with pytest.raises(SqsError) as refusal:
        subject.parse_system_attributes(header | {"SenderId": string("x")})
    assert refusal.value.message == "Message system attribute name 'SenderId' is invalid."


@pytest.mark.parametrize(
    "value", [string("1", "Number"), string("v", "String.x"), string(""), string("x" * 2_049)]
)
def test_trace_header_is_a_plain_bounded_string(value: MessageAttributeValue) -> None:
    with pytest.raises(SqsError) as refusal:
        subject.parse_system_attributes({"AWSTraceHeader": value})
    assert refusal.value.row.shape == IPV


GREETING: tuple[Attribute, ...] = (
    ("General", "String", b"Kenobi"),
    ("Hello", "String", b"There"),
    ("Help.Me", "String", b"Me"),
)


# Section 4.5; the odd names are from 2.2.
@pytest.mark.parametrize(
    ("names", "selected"),
    [
        (None, []),
        ([], []),
        (["All"], ["General", "Hello", "Help.Me"]),
        ([".*"], ["General", "Hello", "Help.Me"]),
        (["*"], ["General", "Hello", "Help.Me"]),
        (["Hello", "All"], ["General", "Hello", "Help.Me"]),
        (["Hel.*"], ["Hello", "Help.Me"]),
        (["Help.*"], ["Help.Me"]),
        (["Help"], []),
        (["Help.Me", "General"], ["General", "Help.Me"]),
        (["Hel*", "AWS.", "..foo", "", "hello", "all"], []),
        (["Gen.*", "Hello"], ["General", "Hello"]),
    ],
)
def test_selection_of_message_attributes(names: list[str] | None, selected: list[str]) -> None:
    chosen = subject.attribute_selector(names).select(GREETING)
    assert [name for name, _, _ in chosen] == selected


@pytest.mark.parametrize(
    ("names", "deprecated", "expected"),
    [
        (None, None, set()),
        ([], [], set()),
        (["SenderId"], None, {"SenderId"}),
        (None, ["SenderId"], {"SenderId"}),
        (["SenderId"], ["SentTimestamp"], {"SenderId", "SentTimestamp"}),
        (["Nonsense", "SenderId"], None, {"SenderId"}),
        (["All"], ["SenderId"], subject.SYSTEM_ATTRIBUTE_NAMES),
        (["SenderId"], ["All"], subject.SYSTEM_ATTRIBUTE_NAMES),
    ],
)
def test_selection_of_system_attributes(
    names: list[str] | None, deprecated: list[str] | None, expected: set[str]
) -> None:
    assert subject.system_names(names, deprecated) == expected


def test_received_values_are_what_was_sent() -> None:
    values = {"s": string("\u65e5"), "n": string("1.0", "Number.x"), "b": binary(b"\x00\xff")}
    assert subject.wire_values(subject.parse_attributes(values)) == values


ATTRIBUTES = st.lists(st.tuples(st.text(), st.text(), st.binary()), max_size=10).map(tuple)
IDS = st.none() | st.text()
EXTRAS = st.builds(MessageExtras, IDS, IDS, ATTRIBUTES, deduplication_id=IDS)


@given(EXTRAS)
def test_extras_round_trip(extras: MessageExtras) -> None:
    assert subject.decode_extras(subject.encode_extras(extras)) == extras


def test_a_plain_message_stores_no_extras() -> None:
    assert subject.encode_extras(MessageExtras()) == b""
    assert subject.decode_extras(b"") is subject.NO_EXTRAS
    assert subject.encode_extras(MessageExtras(group_id="")) != b""


def test_extras_with_fewer_or_more_members_are_readable() -> None:
    shorter = msgspec.msgpack.encode(["g"])
    longer = msgspec.msgpack.encode(["g", None, [], None, None, "later"])
    assert subject.decode_extras(shorter) == MessageExtras(group_id="g")
    assert subject.decode_extras(longer) == MessageExtras(group_id="g")


TOKENS = st.text([chr(code) for code in range(0x21, 0x7F)], min_size=1, max_size=128)


@given(TOKENS, TOKENS, st.booleans())
def test_plain_draft_of_a_fifo_message_has_the_stored_form_of_its_ids(
    impl: Impl, group_id: str, deduplication_id: str, is_per_group: bool
) -> None:
    filed = [(group_id, deduplication_id), (group_id, "other")]
    drafts = impl.plan.plain_drafts(b"prefix", is_per_group, filed, [b"body", b"more"])
    assume(drafts is not None)
    draft, other = drafts
    scope = group_id if is_per_group else ""
    extras = MessageExtras(group_id, deduplication_id=deduplication_id)
    assert draft == native.FifoDraft(
        entry=0,
        group_id=group_id,
        dedup_key=native.dedup_key(b"prefix", scope, deduplication_id),
        extras=subject.encode_extras(extras),
        body=b"body",
    )
    assert type(draft) is native.FifoDraft
    assert (other.entry, other.body) == (1, b"more")
