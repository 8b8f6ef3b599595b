"""Any text where the node expects back what it once gave out, or a document of its own: receipt
handles, page tokens, task handles, policies.

The first byte says where the text goes. What a forged token may do is nothing: a message in flight
is deleted by its own handle alone.
"""

import json
from collections.abc import Mapping
from typing import Final

from tests.fuzz.wire_world import Answer, WireWorld, member

Members = Mapping[str, object]

ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_= "


def _delete(world: WireWorld, text: str) -> None:
    ask(world, "DeleteMessage", {"QueueUrl": world.queue_url, "ReceiptHandle": text})
    assert text == world.handle or _in_flight(world) == 1, "a forged handle deleted a message"


def _delete_damaged(world: WireWorld, text: str) -> None:
    """The true handle with one letter changed in every way; the text says which."""
    handle = world.handle
    at = len(text) % len(handle)
    for letter in ALPHABET.replace(handle[at], ""):
        _delete(world, handle[:at] + letter + handle[at + 1 :])


def _hide(world: WireWorld, text: str) -> None:
    members = {"QueueUrl": world.queue_url, "ReceiptHandle": text, "VisibilityTimeout": 0}
    ask(world, "ChangeMessageVisibility", members)
    assert text == world.handle or _in_flight(world) == 1, "a forged handle gave a message back"


def _delete_many(world: WireWorld, text: str) -> None:
    entries = [{"Id": "a", "ReceiptHandle": text}, {"Id": "b", "ReceiptHandle": text[::-1]}]
    ask(world, "DeleteMessageBatch", {"QueueUrl": world.queue_url, "Entries": entries})
    assert text == world.handle or _in_flight(world) == 1, "a forged handle deleted a message"


def _list(world: WireWorld, text: str) -> None:
    for name in ("q", "r", "s"):
        world.world.create(name)
    first = ask(world, "ListQueues", {"MaxResults": 1})
    token = member(first, "NextToken")
    ask(world, "ListQueues", {"MaxResults": 1, "NextToken": text})
    ask(world, "ListQueues", {"MaxResults": 1, "NextToken": text, "QueueNamePrefix": "q"})
    ask(world, "ListQueues", {"MaxResults": 1, "NextToken": token + text})


def _list_sources(world: WireWorld, text: str) -> None:
    members = {"QueueUrl": world.queue_url, "MaxResults": 1, "NextToken": text}
    ask(world, "ListDeadLetterSourceQueues", members)


def _cancel(world: WireWorld, text: str) -> None:
    assert ask(world, "CancelMessageMoveTask", {"TaskHandle": text})[0] != 200


def _start(world: WireWorld, text: str) -> None:
    ask(world, "StartMessageMoveTask", {"SourceArn": text})
    ask(world, "ListMessageMoveTasks", {"SourceArn": text})


def _set(name: str, world: WireWorld, text: str) -> None:
    """What was accepted is shown again, and can be set again."""
    url = world.queue_url
    if ask(world, "SetQueueAttributes", {"QueueUrl": url, "Attributes": {name: text}})[0] != 200:
        return
    answer = ask(world, "GetQueueAttributes", {"QueueUrl": url, "AttributeNames": [name]})
    shown = (member(answer, "Attributes") or {}).get(name)
    if shown is not None:
        again = {"QueueUrl": url, "Attributes": {name: shown}}
        assert ask(world, "SetQueueAttributes", again)[0] == 200, shown
    stranger = ask(world, "SendMessage", {"QueueUrl": url, "MessageBody": "judged"})
    assert stranger[0] in (200, 403), stranger


def _set_policy(world: WireWorld, text: str) -> None:
    _set("Policy", world, text)


def _set_redrive(world: WireWorld, text: str) -> None:
    _set("RedrivePolicy", world, text)


def _set_redrive_allow(world: WireWorld, text: str) -> None:
    _set("RedriveAllowPolicy", world, text)


def _find(world: WireWorld, text: str) -> None:
    ask(world, "GetQueueAttributes", {"QueueUrl": text, "AttributeNames": ["All"]})


PLACES: Final = {
    "d": _delete,
    "x": _delete_damaged,
    "h": _hide,
    "b": _delete_many,
    "l": _list,
    "s": _list_sources,
    "c": _cancel,
    "m": _start,
    "p": _set_policy,
    "r": _set_redrive,
    "a": _set_redrive_allow,
    "u": _find,
}


def check(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    place = PLACES.get(text[:1])
    if place is not None:
        world = WireWorld()
        place(world, text[1:].replace("$H", world.handle))


def ask(world: WireWorld, action: str, members: Members) -> Answer:
    return world.ask_json(action.encode(), json.dumps(members).encode())


def _in_flight(world: WireWorld) -> int:
    return world.world.counts(world.queue_url)[1]
