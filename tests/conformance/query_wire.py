"""The Query protocol by hand: members as JSON spells them → form fields, and XML → members.

Written from the tables of the contract, sections 1.3 and 1.4, so that a mistake in the server's own
tables shows. Whether an answer keeps the rules of its envelope is checked in `client.py`.
"""

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

NAMESPACE: Final = "{http://queue.amazonaws.com/doc/2012-11-05/}"
Field = tuple[str, str]

_LISTS: Final = {
    "AttributeNames": "AttributeName",
    "MessageSystemAttributeNames": "AttributeName",
    "MessageAttributeNames": "MessageAttributeName",
    "TagKeys": "TagKey",
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "StringListValues": "StringListValue",
    "BinaryListValues": "BinaryListValue",
}
_MAPS: Final = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "MessageSystemAttributes": ("MessageSystemAttribute", "Name"),
    "tags": ("Tag", "Key"),
    "Tags": ("Tag", "Key"),
}
_INTEGERS: Final = frozenset(
    {"ApproximateNumberOfMessagesMoved", "ApproximateNumberOfMessagesToMove"}
    | {"MaxNumberOfMessagesPerSecond", "StartedTimestamp"}
)
_REPEATED: Final = {
    "Message": "Messages",
    "SendMessageBatchResultEntry": "Successful",
    "DeleteMessageBatchResultEntry": "Successful",
    "ChangeMessageVisibilityBatchResultEntry": "Successful",
    "BatchResultErrorEntry": "Failed",
    "ListMessageMoveTasksResultEntry": "Results",
}
_PAIRS: Final = {
    "Attribute": ("Attributes", "Name"),
    "MessageAttribute": ("MessageAttributes", "Name"),
    "Tag": ("Tags", "Key"),
}
_URL_LISTS: Final = {"ListQueues": "QueueUrls", "ListDeadLetterSourceQueues": "queueUrls"}


# --- requests -----------------------------------------------------------------------------------


def form_fields(action: str, members: Mapping[str, Any]) -> list[Field]:
    fields = [("Action", action), ("Version", "2012-11-05")]
    return fields + list(_flatten("", members, f"{action}RequestEntry"))


def _flatten(prefix: str, members: Mapping[str, Any], entry: str) -> Iterator[Field]:
    next_index: dict[str, int] = {}
    for name, value in members.items():
        if name == "Entries":
            for index, one in enumerate(value, start=1):
                yield from _flatten(f"{prefix}{entry}.{index}.", one, entry)
        elif name in _LISTS:
            # Two members share one wire name: their values go into one list.
            first = next_index.get(_LISTS[name], 1)
            next_index[_LISTS[name]] = first + len(value)
            yield from _list(f"{prefix}{_LISTS[name]}", value, first)
        elif name in _MAPS:
            yield from _map(prefix, *_MAPS[name], value)
        else:
            yield prefix + name, str(value)


def _list(name: str, values: Sequence[str], first: int) -> Iterator[Field]:
    for index, value in enumerate(values, start=first):
        yield f"{name}.{index}", value


def _map(prefix: str, name: str, key: str, values: Mapping[str, Any]) -> Iterator[Field]:
    for index, (each, value) in enumerate(values.items(), start=1):
        yield f"{prefix}{name}.{index}.{key}", each
        if isinstance(value, str):
            yield f"{prefix}{name}.{index}.Value", value
        else:
            yield from _flatten(f"{prefix}{name}.{index}.Value.", value, "")


# --- answers ------------------------------------------------------------------------------------


def members_of(action: str, result: ET.Element) -> dict[str, Any]:
    """The children of a `…Result` as the members that JSON would carry."""
    if action in _URL_LISTS:
        return _url_page(_URL_LISTS[action], result)
    return _members(result)


def _url_page(name: str, result: ET.Element) -> dict[str, Any]:
    urls = [one.text or "" for one in result if local(one) == "QueueUrl"]
    rest = {local(one): one.text or "" for one in result if local(one) != "QueueUrl"}
    return rest | ({name: urls} if urls else {})


def _members(element: ET.Element) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for child in element:
        name = local(child)
        if name in _REPEATED and len(child):
            # A failed entry has a `Message` too, which is plain text.
            members.setdefault(_REPEATED[name], []).append(_members(child))
        elif name in _PAIRS:
            plural, key = _PAIRS[name]
            pair = {local(one): one for one in child}
            assert set(pair) == {key, "Value"}, ET.tostring(child)
            value = pair["Value"]
            members.setdefault(plural, {})[pair[key].text or ""] = (
                _members(value) if len(value) else value.text or ""
            )
        else:
            assert name not in members, f"{name} appears twice"
            members[name] = _SCALARS.get(name, _text)(child)
    return members


def _text(element: ET.Element) -> str:
    assert not len(element), ET.tostring(element)
    return element.text or ""


def _integer(element: ET.Element) -> int:
    return int(_text(element))


def _boolean(element: ET.Element) -> bool:
    return {"true": True, "false": False}[_text(element)]


_SCALARS: Final[Mapping[str, Callable[[ET.Element], object]]] = {
    "SenderFault": _boolean,
    **dict.fromkeys(_INTEGERS, _integer),
}


def local(element: ET.Element) -> str:
    """The name without its namespace, which must be the contract's."""
    assert element.tag.startswith(NAMESPACE), element.tag
    return element.tag.removeprefix(NAMESPACE)
