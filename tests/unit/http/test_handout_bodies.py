"""Whatever a body looks like: the short ways of receives and deletes answer as the long ways do."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.inspect import StructType, type_info

from fastnode import _reads_ref, native
from fastnode.queue import api
from tests.unit.http.handout_front import URL, Front, assert_alike, post_body
from tests.unit.native import json_bodies as bodies

# What a body calls the handles that the client has.
HANDLES: Final = [f"handle-{number}" for number in range(3)]
URLS: Final = st.one_of(*[st.just(f'"{URL}"')] * 6, bodies.ODD_STRINGS)
NAMED: Final = st.one_of(
    *[st.sampled_from([f'"{one}"' for one in HANDLES])] * 4, bodies.ODD_STRINGS
)
REQUESTS: Final = st.one_of(
    st.tuples(st.just("DeleteMessage"), bodies.as_bodies(bodies.deletes(URLS, NAMED))),
    st.tuples(st.just("DeleteMessageBatch"), bodies.as_bodies(bodies.delete_batches(URLS, NAMED))),
    st.tuples(st.just("ReceiveMessage"), bodies.as_bodies(bodies.receives(URLS))),
)
SHAPES: Final = [
    (_reads_ref.Delete, api.DeleteMessageRequest),
    (_reads_ref.DeleteBatch, api.DeleteMessageBatchRequest),
    (_reads_ref.Receive, api.ReceiveMessageRequest),
]


@given(st.lists(REQUESTS, min_size=1, max_size=4), st.booleans())
def test_any_body_is_answered_alike(requests: list[Any], settles: bool) -> None:
    fronts = [Front(uses_lane=uses_lane) for uses_lane in (True, False)]
    for front in fronts:
        front.send("a", "b", "c", "d")
        received = front.receive(MaxNumberOfMessages=3)
        for action, (body,) in requests:
            for name, handle in zip(HANDLES, received, strict=True):
                body = body.replace(name.encode(), handle.encode())
            front.connection.data_received(post_body(action, body))
            if settles:
                front.world.commit()
        front.world.commit()
        # Long polls end.
        front.world.advance(21_000)
        front.world.commit()
    assert_alike(*fronts)


@pytest.mark.parametrize(("shape", "wanted"), SHAPES)
def test_readers_have_the_shapes_of_the_api(shape: type, wanted: type) -> None:
    assert fields_of(type_info(shape)) == fields_of(type_info(wanted))


def fields_of(shape: Any) -> Any:
    """Names and types, those of Structs inside too."""
    if isinstance(shape, StructType):
        return [(one.encode_name, fields_of(one.type), one.default) for one in shape.fields]
    if hasattr(shape, "types"):
        return [fields_of(one) for one in shape.types]
    return fields_of(shape.item_type) if hasattr(shape, "item_type") else shape


@pytest.mark.parametrize(
    ("members", "is_plain"),
    [
        (b"", True),
        (b', "MaxNumberOfMessages": 10, "VisibilityTimeout": 43200, "WaitTimeSeconds": 20', True),
        (b', "MaxNumberOfMessages": null, "AttributeNames": [], "Other": {}', True),
        (b', "MaxNumberOfMessages": 11', False),
        (b', "VisibilityTimeout": 43201', False),
        (b', "WaitTimeSeconds": 21', False),
        (b', "AttributeNames": ["All"]', False),
        (b', "ReceiveRequestAttemptId": "again"', False),
    ],
)
def test_which_receives_are_plain(members: bytes, is_plain: bool) -> None:
    body = b'{"QueueUrl": "http://localhost/q"%b}' % members
    assert (native.read_receive(body) is not None) is is_plain


def test_of_two_members_with_one_name_the_last_one_counts() -> None:
    body = (
        b'{"QueueUrl": "a", "MaxNumberOfMessages": 11, "QueueUrl": "b", "MaxNumberOfMessages": 2}'
    )
    assert native.read_receive(body) == ("b", 2, None, None)


def test_a_plain_delete_comes_with_its_answer() -> None:
    body = b'{"Entries": [{"Id": "a", "ReceiptHandle": "x"}, {"ReceiptHandle": "y", "Id": "b"}]%b}'
    answer = b'{"Successful":[{"Id":"a"},{"Id":"b"}]}'
    found = native.read_delete_batch(body % b', "QueueUrl": "q"')
    assert found == ("q", [b"x", b"y"], answer)
    assert native.read_delete_batch(body % b"") is None
    assert native.read_delete(b'{"QueueUrl":"q","ReceiptHandle":"x"}') == ("q", [b"x"], b"")
