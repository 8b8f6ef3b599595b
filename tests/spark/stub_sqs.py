"""An SQS server in memory, on a thread of the test's own process, that can be told to misbehave.

It knows what a replay calls, no more. Right unless told otherwise: `Faults` is what a test plants.
"""

import asyncio
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from types import TracebackType
from typing import Any, Final

ACCESS_KEY: Final = re.compile(r"Credential=([^/]+)/")
ARN: Final = "arn:aws:sqs:us-east-1:000000000000:"
HELD_BACK_SECONDS: Final = 1.0
COUNTERS: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


@dataclass
class Faults:
    """What the server does wrong. Numbers count messages, or answers, from 1."""

    drop_every: int = 0  # acknowledged and not stored
    reorder_group: str | None = None  # every tenth message is held back: others overtake it
    pause_after_seconds: float | None = None  # from the first send
    pause_seconds: float = 0.0
    lose_every: int = 0  # carried out, but the connection is closed instead of an answer
    refuse_every: int = 0  # sends, by `refusal`
    refusal: tuple[int, str] = (403, "com.amazonaws.sqs#RequestThrottled")
    access_key: str | None = None  # the only one that is accepted
    clock_ahead_ms: int = 0
    hold_deleted: bool = False  # deletes are acknowledged and forgotten


@dataclass
class Message:
    message_id: str
    body: str
    group: str | None
    sequence: str | None
    sent_ms: int
    visible_at: float
    receives: int = 0
    receipt: str = ""


@dataclass
class StubQueue:
    name: str
    attributes: dict[str, str]
    messages: dict[str, Message] = field(default_factory=dict)
    known: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def is_fifo(self) -> bool:
        return self.name.endswith(".fifo")


class Refusal(Exception):
    def __init__(self, status: int, kind: str) -> None:
        super().__init__(kind)
        self.status = status
        self.kind = kind


@dataclass
class Seen:
    """One request, as the server saw it."""

    action: str
    headers: dict[str, str]
    members: dict[str, Any]


class StubSqs:
    """Serves while the context lasts; everything it saw is in `seen`."""

    def __init__(self, faults: Faults | None = None, context: ssl.SSLContext | None = None) -> None:
        self.faults = faults or Faults()
        self._context = context
        self.queues: dict[str, StubQueue] = {}
        self.seen: list[Seen] = []
        self.url = ""
        self.connections_max = 0
        self._serial = 0
        self._sends = 0
        self._answers = 0
        self._first_send: float | None = None
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.StreamWriter] = set()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stub", daemon=True)

    def __enter__(self) -> "StubSqs":
        self._thread.start()
        assert self._is_ready.wait(60)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    def actions(self, action: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.action == action]

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(
            self._connected, "127.0.0.1", 0, backlog=512, ssl=self._context
        )
        scheme = "http" if self._context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._is_ready.set()
        await self._stop.wait()
        server.close()
        for writer in list(self._connections):
            writer.transport.abort()
        await asyncio.sleep(0.01)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        self.connections_max = max(self.connections_max, len(self._connections))
        try:
            while True:
                await self._exchange(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = [line.partition(": ") for line in head.split("\r\n")[1:] if line]
        headers = {name.lower(): value for name, _, value in lines}
        body = await reader.readexactly(int(headers["content-length"]))
        action = headers["x-amz-target"].rpartition(".")[2]
        members = json.loads(body)
        self.seen.append(Seen(action, headers, members))
        status, answer = await self._answer(action, headers, members)
        self._answers += 1
        if self.faults.lose_every and self._answers % self.faults.lose_every == 0:
            raise ConnectionResetError
        extra = "X-Fastnode-Receive: partitions=2;rows=7;us=90;remote=1\r\n"
        explained = extra if "x-fastnode-explain" in headers else ""
        text = json.dumps(answer).encode()
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n{explained}\r\n".encode() + text
        )

    async def _answer(
        self, action: str, headers: dict[str, str], members: dict[str, Any]
    ) -> tuple[int, Any]:
        try:
            self._check_key(headers)
            await self._pause(action)
            return 200, await self._carry_out(action, members)
        except Refusal as refusal:
            return refusal.status, {"__type": refusal.kind, "message": "no"}

    def _check_key(self, headers: dict[str, str]) -> None:
        found = ACCESS_KEY.search(headers.get("authorization", ""))
        if self.faults.access_key not in (None, found and found[1]):
            raise Refusal(403, "com.amazon.coral.service#InvalidClientTokenId")

    async def _pause(self, action: str) -> None:
        after = self.faults.pause_after_seconds
        if after is None:
            return
        now = time.monotonic()
        if action == "SendMessage" and self._first_send is None:
            self._first_send = now
        begin = (self._first_send or float("inf")) + after
        if begin <= now < begin + self.faults.pause_seconds:
            await asyncio.sleep(begin + self.faults.pause_seconds - now)

    async def _carry_out(self, action: str, members: dict[str, Any]) -> Any:
        if action == "ReceiveMessage":
            return await self._receive(members)
        handlers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "CreateQueue": self._create,
            "DeleteQueue": lambda members: self.queues.pop(self._find(members).name) and {},
            "ListQueues": lambda members: {"QueueUrls": []},
            "GetQueueUrl": lambda members: {"QueueUrl": self._url(members["QueueName"])},
            "GetQueueAttributes": self._attributes,
            "SendMessage": lambda members: self._send(self._find(members), members),
            "SendMessageBatch": lambda members: self._batch(
                members, lambda entry: self._send(self._find(members), entry)
            ),
            "DeleteMessage": lambda members: self._delete(self._find(members), members),
            "DeleteMessageBatch": lambda members: self._batch(
                members, lambda entry: self._delete(self._find(members), entry)
            ),
            "ChangeMessageVisibility": self._extend,
        }
        return handlers[action](members)

    def _find(self, members: dict[str, Any]) -> StubQueue:
        name = str(members["QueueUrl"]).rpartition("/")[2]
        if name not in self.queues:
            raise Refusal(400, "com.amazonaws.sqs#QueueDoesNotExist")
        return self.queues[name]

    def _url(self, name: str) -> str:
        return f"{self.url}/000000000000/{name}"

    def _create(self, members: dict[str, Any]) -> Any:
        name = members["QueueName"]
        self.queues.setdefault(name, StubQueue(name, members.get("Attributes", {})))
        return {"QueueUrl": self._url(name)}

    def _attributes(self, members: dict[str, Any]) -> Any:
        queue, now = self._find(members), time.monotonic()
        hidden = [message for message in queue.messages.values() if message.visible_at > now]
        flying = sum(message.receives > 0 for message in hidden)
        counts = (len(queue.messages) - len(hidden), flying, len(hidden) - flying)
        values = dict(zip(COUNTERS, map(str, counts), strict=True)) | {"QueueArn": ARN + queue.name}
        return {"Attributes": {name: values[name] for name in members["AttributeNames"]}}

    def _batch(self, members: dict[str, Any], one: Callable[[dict[str, Any]], Any]) -> Any:
        return {
            "Successful": [{"Id": entry["Id"], **one(entry)} for entry in members["Entries"]],
            "Failed": [],
        }

    def _send(self, queue: StubQueue, members: dict[str, Any]) -> Any:
        self._sends += 1
        if self.faults.refuse_every and self._sends % self.faults.refuse_every == 0:
            raise Refusal(*self.faults.refusal)
        dedup = members.get("MessageDeduplicationId")
        if dedup is not None and dedup in queue.known:
            return queue.known[dedup]
        message = self._store(queue, members)
        answer = {"MessageId": message.message_id, "MD5OfMessageBody": "0" * 32}
        if message.sequence is not None:
            answer["SequenceNumber"] = message.sequence
        if dedup is not None:
            queue.known[dedup] = answer
        return answer

    def _store(self, queue: StubQueue, members: dict[str, Any]) -> Message:
        self._serial += 1
        message = Message(
            message_id=f"00000000-0000-4000-8000-{self._serial:012d}",
            body=members["MessageBody"],
            group=members.get("MessageGroupId"),
            sequence=f"{self._serial:020d}" if queue.is_fifo else None,
            sent_ms=time.time_ns() // 1_000_000 + self.faults.clock_ahead_ms,
            visible_at=time.monotonic() + members.get("DelaySeconds", 0),
        )
        if not self.faults.drop_every or self._sends % self.faults.drop_every:
            if message.group == self.faults.reorder_group and self._sends % 10 == 0:
                message.visible_at += HELD_BACK_SECONDS if queue.is_fifo else 0
            queue.messages[message.message_id] = message
        return message

    async def _receive(self, members: dict[str, Any]) -> Any:
        deadline = time.monotonic() + members.get("WaitTimeSeconds", 0)
        while True:
            taken = self._take(self._find(members), members)
            if taken or time.monotonic() >= deadline:
                return {"Messages": [described(message) for message in taken]} if taken else {}
            await asyncio.sleep(0.01)

    def _take(self, queue: StubQueue, members: dict[str, Any]) -> list[Message]:
        now = time.monotonic()
        free = available(queue, now)
        taken = list(islice(free, members.get("MaxNumberOfMessages", 1)))
        for message in taken:
            message.receives += 1
            message.visible_at = now + members.get("VisibilityTimeout", 30)
            self._serial += 1
            message.receipt = f"{message.message_id}/{self._serial}"
        return taken

    def _delete(self, queue: StubQueue, members: dict[str, Any]) -> Any:
        if not self.faults.hold_deleted:
            message = queue.messages.get(members["ReceiptHandle"].partition("/")[0])
            if message is not None and message.receipt == members["ReceiptHandle"]:
                del queue.messages[message.message_id]
        return {}

    def _extend(self, members: dict[str, Any]) -> Any:
        for message in self._find(members).messages.values():
            if message.receipt == members["ReceiptHandle"]:
                message.visible_at = time.monotonic() + members["VisibilityTimeout"]
        return {}


def available(queue: StubQueue, now: float) -> Iterator[Message]:
    """In order; of a group that has messages in flight none."""
    locked: set[str | None] = set()
    for message in queue.messages.values():
        if message.visible_at <= now:
            if message.group not in locked:
                yield message
        elif queue.is_fifo and message.receives:
            locked.add(message.group)


def described(message: Message) -> dict[str, Any]:
    attributes = {
        "ApproximateReceiveCount": str(message.receives),
        "SentTimestamp": str(message.sent_ms),
    }
    if message.group is not None:
        attributes["MessageGroupId"] = message.group
    if message.sequence is not None:
        attributes["SequenceNumber"] = message.sequence
    return {
        "MessageId": message.message_id,
        "ReceiptHandle": message.receipt,
        "Body": message.body,
        "Attributes": attributes,
    }
