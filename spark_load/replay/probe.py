"""Measures how far this host's clock is from the cluster's, by messages that the cluster stamps.

A lane sends some messages to a queue of its own and reads their SentTimestamps: that works with
whatever speaks SQS. Nothing of it is in the history.
"""

import json
from typing import Final

from spark_load.replay.answers import BLANK, parse
from spark_load.replay.caller import Call, Caller
from spark_load.replay.clock import Bounds, bounds_of, narrow

SAMPLES: Final = 12
RECEIVES_MAX: Final = 8
GRAIN_US: Final = 1_000


async def measure(caller: Caller, queue: str) -> Bounds:
    """Bounds by a queue of that name, which exists only meanwhile. Unknown ones if the server does
    not say when a message was sent: then every host's own clock has to do.
    """
    created = await _call(caller, "CreateQueue", {"QueueName": queue})
    if created.outcome != "ok":
        return Bounds()
    url = parse(created.answer)["QueueUrl"]
    sent = await _send(caller, url)
    stamps = await _stamps(caller, url, len(sent))
    await _call(caller, "DeleteQueue", {"QueueUrl": url})
    return narrow(
        bounds_of(
            asked_us=call.started_us,
            answered_us=call.ended_us,
            told_us=stamps[message_id] * 1_000,
            grain_us=GRAIN_US,
        )
        for message_id, call in sent.items()
        if message_id in stamps
    )


async def _send(caller: Caller, url: str) -> dict[str, Call]:
    """Message id → the call that sent it. A repeated attempt says too little about when."""
    sent: dict[str, Call] = {}
    for _ in range(SAMPLES):
        body = json.dumps({"QueueUrl": url, "MessageBody": "clock"}).encode()
        call = await caller.perform("control", "SendMessage", "", body, messages=[BLANK])
        if call.outcome == "ok" and call.attempt == 0:
            sent[parse(call.answer)["MessageId"]] = call
    return sent


async def _stamps(caller: Caller, url: str, count: int) -> dict[str, int]:
    """Message id → when the server stamped it, ms."""
    stamps: dict[str, int] = {}
    members = {
        "QueueUrl": url,
        "MaxNumberOfMessages": 10,
        "AttributeNames": ["SentTimestamp"],
        "WaitTimeSeconds": 0,
    }
    for _ in range(RECEIVES_MAX):
        if len(stamps) >= count:
            break
        call = await _call(caller, "ReceiveMessage", members)
        messages = parse(call.answer).get("Messages", ()) if call.outcome == "ok" else ()
        for message in messages:
            told = message.get("Attributes", {}).get("SentTimestamp")
            if told is not None:
                stamps[message["MessageId"]] = int(told)
    return stamps


async def _call(caller: Caller, action: str, members: dict[str, object]) -> Call:
    return await caller.perform("control", action, "", json.dumps(members).encode())
