"""Any request, encoded as an old SDK would and decoded again, is the same request.

The encoder here knows the names of the contract, section 1.3, from its own table and shares nothing
with the codec.
"""

import base64
import types
import typing
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from fastnode.http.http1 import Request
from fastnode.http.query_codec import QueryCodec
from fastnode.queue.operations import OPERATIONS

CODEC = QueryCodec(OPERATIONS)
# Members that are spelled otherwise as parameters; a map's with the names of key and value.
PARAMETERS = {
    "Attributes": "Attribute",
    "AttributeNames": "AttributeName",
    "MessageSystemAttributeNames": "AttributeName",
    "MessageAttributeNames": "MessageAttributeName",
    "MessageAttributes": "MessageAttribute",
    "MessageSystemAttributes": "MessageSystemAttribute",
    "tags": "Tag",
    "Tags": "Tags",
    "TagKeys": "TagKey",
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "StringListValues": "StringListValue",
    "BinaryListValues": "BinaryListValue",
}

texts = st.text(max_size=6)
indexes = st.lists(st.integers(1, 10**9), min_size=5, max_size=5, unique=True).map(sorted)


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a member's type. An empty collection looks like none, so there is none."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return st.none() | values(arguments[0])
    if origin is list:
        return st.lists(values(arguments[0]), min_size=1, max_size=4)
    if origin is dict:
        return st.dictionaries(texts, values(arguments[1]), min_size=1, max_size=3)
    if hint is int:
        return st.integers(-(10**12), 10**12)
    if hint is bytes:
        return st.binary(max_size=4)
    return texts if hint is str else structs(hint)


def structs(kind: type[Struct]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{name: values(hint) for name, hint in hints.items()})


requests = st.sampled_from(sorted(OPERATIONS)).flatmap(
    lambda action: st.tuples(st.just(action), structs(OPERATIONS[action].request))
)


def normal(request: Any) -> Any:
    """What the protocol cannot express is left out of a request."""
    changes: dict[str, Any] = {}
    if "queue_url" in request.__struct_fields__ and request.queue_url is None:
        changes["queue_url"] = ""
    if "entries" in request.__struct_fields__:
        entries = request.entries or []
        changes["entries"] = [msgspec.structs.replace(each, id=each.id or "") for each in entries]
    if "message_system_attribute_names" in request.__struct_fields__:
        changes["message_system_attribute_names"] = request.attribute_names
    return msgspec.structs.replace(request, **changes)


def parameters(struct: Struct, index: list[int]) -> Iterator[tuple[str, str]]:
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        name = PARAMETERS.get(field.encode_name, field.encode_name)
        if field.name == "entries":
            name = f"{type(struct).__name__}Entry"
        yield from flattened(name, value, index)


def flattened(name: str, value: Any, index: list[int]) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for position, each in zip(index, value, strict=False):
            yield from flattened(f"{name}.{position}", each, index)
    elif isinstance(value, dict):
        key = "Key" if name.startswith("Tag") else "Name"
        for position, (each, inner) in zip(index, value.items(), strict=False):
            yield f"{name}.{position}.{key}", each
            yield from flattened(f"{name}.{position}.Value", inner, index)
    elif isinstance(value, Struct):
        for inner_name, text in parameters(value, index):
            yield f"{name}.{inner_name}", text
    elif isinstance(value, bytes):
        yield name, base64.b64encode(value).decode()
    elif value is not None:
        yield name, str(value)


@given(
    drawn=requests,
    index=indexes,
    quoted=st.sampled_from([quote, quote_plus]),
    data=st.data(),
)
def test_any_request_survives_the_form(
    drawn: tuple[str, Struct], index: list[int], quoted: Any, data: st.DataObject
) -> None:
    action, request = drawn[0], normal(drawn[1])
    pairs = data.draw(st.permutations([("Action", action), *parameters(request, index)]))
    cut = data.draw(st.integers(0, len(pairs)))
    query = urlencode(pairs[:cut], quote_via=quoted).encode()
    body = urlencode(pairs[cut:], quote_via=quoted).encode()
    asked = Request(b"POST", b"/?" + query, "1.1", {}, True, body)
    assert CODEC.operation_of(asked).name == action
    assert CODEC.decode(OPERATIONS[action], asked) == request
