"""The compiled Query kernel against its twin: the same members of any form, the same XML of any
Struct, the same refusals.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import _query_ref, native
from fastnode.http.query_plans import read_plan, write_plan
from fastnode.native import FormError, FormReader, XmlWriter, escape_xml, find_parameter
from fastnode.queue import api

REQUESTS = (
    api.CreateQueueRequest,
    api.TagQueueRequest,
    api.SendMessageRequest,
    api.SendMessageBatchRequest,
    api.ReceiveMessageRequest,
    api.AddPermissionRequest,
)
NAME_PARTS = (
    "Action QueueUrl DelaySeconds MessageBody AttributeName MessageAttributeName ActionName Label "
    "Attribute Tag Tags MessageAttribute SendMessageBatchRequestEntry Id Name Key Value DataType "
    "StringValue BinaryValue StringListValue MaxNumberOfMessages 0 1 2 01 10 1000000000 10000000000"
).split()
names = st.lists(st.sampled_from([*NAME_PARTS, "", "x"]), min_size=1, max_size=7).map(".".join)
entry_names = st.tuples(
    st.sampled_from(["Attribute", "Tag", "MessageAttribute", "SendMessageBatchRequestEntry"]),
    st.sampled_from(["", ".1", ".2", ".01"]),
    st.sampled_from(["", ".Id", ".Name", ".Key", ".Value", ".Value.DataType", ".MessageBody"]),
).map("".join)
values = st.one_of(
    st.sampled_from(["", "7", "-1", "+3", "0007", "9" * 18, "9" * 31, "seven", "a+b", "%zz", "%4"]),
    st.text(max_size=8),
    st.binary(max_size=4).map(lambda octets: "".join(f"%{octet:02X}" for octet in octets)),
)
pairs = st.tuples(
    st.one_of(names, entry_names).map(
        lambda name: name.replace("e", "%65", 1) if "Key" in name else name
    ),
    st.sampled_from(["=", "=", "=", ""]),
    values,
).map("".join)
forms = st.one_of(
    st.lists(pairs, max_size=8).map("&".join).map(str.encode),
    st.binary(max_size=40),
)
texts = st.one_of(
    st.text(
        st.sampled_from("ab&<>\"'\r\n\t\0\x1f\x7f\x85é\ud7ff\ud800\ue000\ufffd\ufffe\uffff\uff01😀")
    ),
    st.text(max_size=20),
)


def outcome(function: Callable[..., Any], *arguments: object) -> object:
    try:
        return function(*arguments)
    except FormError:
        return FormError


@given(form=forms, kind=st.sampled_from(REQUESTS))
def test_both_read_the_same_members(form: bytes, kind: type[api.Request]) -> None:
    plan = read_plan(kind)
    ours = outcome(FormReader(plan).read, form)
    assert ours == outcome(_query_ref.FormReader(plan).read, form)


@given(form=forms, name=st.sampled_from([b"Action", b"", b"x", b"QueueUrl"]))
def test_both_find_the_same_parameter(form: bytes, name: bytes) -> None:
    assert outcome(find_parameter, form, name) == outcome(_query_ref.find_parameter, form, name)


@given(texts)
def test_both_escape_alike(text: str) -> None:
    assert escape_xml(text) == _query_ref.escape_xml(text)


attributes = st.dictionaries(texts, texts, max_size=3)
attribute_values = st.builds(
    api.MessageAttributeValue, texts, st.none() | texts, st.none() | st.binary(max_size=5)
)
messages = st.builds(
    api.Message,
    *(texts for _ in range(4)),
    attributes,
    st.none() | texts,
    st.dictionaries(texts, attribute_values, max_size=2),
)
failures = st.builds(api.BatchResultErrorEntry, texts, st.booleans(), texts, st.none() | texts)
answers = st.one_of(
    st.builds(api.ReceiveMessageResponse, st.lists(messages, max_size=3)),
    st.builds(api.DeleteMessageBatchResponse, st.just([]), st.lists(failures, max_size=3)),
    st.builds(api.ListQueuesResponse, st.lists(texts, max_size=3), st.none() | texts),
    st.builds(api.ListQueueTagsResponse, attributes),
    st.builds(api.CancelMessageMoveTaskResponse, st.integers()),
)


@given(answers)
def test_both_write_the_same_xml(answer: api.Response) -> None:
    plan = write_plan(type(answer))
    assert XmlWriter(plan).write(answer) == _query_ref.XmlWriter(plan).write(answer)


# --- what both do -------------------------------------------------------------------------------


def members(form: bytes, kind: type[api.Request] = api.SendMessageBatchRequest) -> dict[str, Any]:
    return FormReader(read_plan(kind)).read(form)


def test_entries_come_by_index_whatever_their_order_and_gaps() -> None:
    form = b"&".join(
        b"SendMessageBatchRequestEntry.%d.Id=%d" % (index, index)
        for index in (10, 9, 1_000_000_000)
    )
    assert [entry["Id"] for entry in members(form)["Entries"]] == ["9", "10", "1000000000"]


def test_an_index_beyond_ten_digits_names_nothing() -> None:
    assert members(b"SendMessageBatchRequestEntry.%s.Id=1" % (b"1" * 5_000)) == {"Entries": []}


def test_spellings_of_one_index_are_one_entry() -> None:
    form = b"SendMessageBatchRequestEntry.01.Id=a&SendMessageBatchRequestEntry.1.Id=b"
    form += b"&SendMessageBatchRequestEntry.1.MessageBody=c"
    assert members(form)["Entries"] == [{"Id": "a", "MessageBody": "c"}]


def test_a_single_entry_needs_no_index() -> None:
    form = b"Attribute.Name=VisibilityTimeout&Attribute.Value=35"
    assert members(form, api.SetQueueAttributesRequest) == {
        "Attributes": {"VisibilityTimeout": "35"}
    }
    assert members(b"AttributeName=All", api.GetQueueAttributesRequest) == {
        "AttributeNames": ["All"]
    }


def test_of_two_values_the_first_counts() -> None:
    assert members(b"DelaySeconds=1&DelaySeconds=x", api.SendMessageRequest) == {"DelaySeconds": 1}


def test_of_two_entries_with_one_key_the_lower_index_counts() -> None:
    form = b"Tag.2.Key=a&Tag.2.Value=second&Tag.1.Key=a&Tag.1.Value=first"
    assert members(form, api.CreateQueueRequest) == {"tags": {"a": "first"}}


@pytest.mark.parametrize(
    "value", [b"", b"x", b"1.0", b"1e3", b" 1", b"null", b"\xd9\xa3", b"9" * 31]
)
def test_what_is_no_number_is_refused(value: bytes) -> None:
    with pytest.raises(FormError, match="STRING_VALUE can not be converted to an Integer"):
        members(b"DelaySeconds=" + value, api.SendMessageRequest)


@pytest.mark.parametrize(
    ("form", "missing"),
    [
        (b"Attribute.1.Value=x", "Attribute.Name"),
        (b"Attribute.1.Name=x", "Attribute.Value"),
        (b"Tag.7.Value=x", "Tag.Key"),
        (b"Tags.1.Key=x", "Tags.Value"),
    ],
)
def test_half_an_entry_of_a_map_is_refused(form: bytes, missing: str) -> None:
    with pytest.raises(FormError) as caught:
        members(form, api.CreateQueueRequest)
    assert caught.value.missing == missing


@pytest.mark.parametrize(
    "value", [b"%", b"%4", b"%zz", b"%4g", b"%+1", b"%FF", b"\xff", b"%ED%A0%80", b"%C0%80"]
)
def test_bad_escapes_and_bad_utf8_are_refused(value: bytes) -> None:
    with pytest.raises(FormError):
        members(b"MessageBody=" + value, api.SendMessageRequest)


def test_escapes_of_all_kinds_are_read() -> None:
    form = b"Message%42ody=a+b%2Bc%26d%3De%e2%82%ac\\x41\xc3\xa9&x=%ff"
    assert members(form, api.SendMessageRequest) == {"MessageBody": "a b+c&d=e€\\x41é"}


@pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")
def test_the_compiled_kernel_is_the_one_tested() -> None:
    assert FormReader.__module__ == XmlWriter.__module__ == "fastnode._query"
