"""The clients of a soak: producers at a steady rate and consumers that behave like people's.

Everything they do and are told becomes the history that `soak_judge` judges, and the time of each
call is kept for `soak_watch`. Consumers delete, one by one or by batches, give back, extend, or let
a lease run out; a dead-letter queue counts as the same queue as its source.
"""

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

import msgspec
import uvloop

from bench.soak_client import Client
from bench.soak_traffic import (
    ABANDONED_SHARE,
    ATTRIBUTES,
    BATCH,
    BATCH_SHARE,
    CONSUMERS,
    EXTENDED_SECONDS,
    EXTENDED_SHARE,
    GIVEN_BACK_SHARE,
    LAST_LEASE_SECONDS,
    LEASE_SECONDS,
    ONE_BY_ONE_SHARE,
    PRODUCERS,
    SHARES,
    WAIT_SECONDS,
    Draft,
    chosen,
    draft,
    home_of,
    is_poison,
    named,
)
from tests.cluster.client import Refused, Unknown
from tests.cluster.history import Deleted, Drained, Event, Received, Sent
from tests.cluster.workload import COUNTERS, message_of, url_of

RETRY_SECONDS = 0.2
# A producer that is further behind gives up what it missed.
LATE_SECONDS_MAX = 1.0
JOIN_SECONDS, DRAIN_SECONDS = 30.0, 120.0
# What one client takes out in a moment.
REST_MAX = 200

Answer = TypeVar("Answer")


class Timed(msgspec.Struct, frozen=True):
    """A call that was answered."""

    action: str
    seconds: float


class Clients:
    """All of them, on one loop. `events` and `calls` are to be emptied by whoever reads them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoints: Callable[[], Sequence[str]],
        rate: float,
        label: str,
    ) -> None:
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.calls: SimpleQueue[Timed] = SimpleQueue()
        self.answered = 0
        # Calls of which nobody knows whether they had an effect: no answer, or a 503.
        self.unknown: list[str] = []
        # Answers that nothing explains. Whoever got one has stopped.
        self.wrong: list[str] = []
        self._loop, self._endpoints, self._rate, self._label = loop, endpoints, rate, label
        self._is_sent = self._is_ending = False
        self._serial = itertools.count()
        self._producers: list[asyncio.Task[None]] = []
        self._consumers: list[asyncio.Task[None]] = []
        self._counting = self._client()

    # --- from outside of the loop -----------------------------------------------------------

    def create_queues(self) -> None:
        self._ask(self._create_queues())

    def start(self) -> None:
        self._ask(self._start())

    def stop(self) -> None:
        """Producers first; consumers when they have worked off what is waiting."""
        self._ask(self._stop())

    def drain(self) -> None:
        """After `stop`: takes everything out and tells the counters before and after."""
        self._ask(self._drain())

    def counters(self) -> tuple[int, int, int]:
        """Visible, in flight, delayed; of all queues together."""
        return self._ask(self._counters(self._counting, list(ATTRIBUTES)))

    def close(self) -> None:
        """The last thing to be asked for."""
        self._ask(self._counting.close())

    def _ask(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(3 * DRAIN_SECONDS)

    # --- on the loop ------------------------------------------------------------------------

    async def _create_queues(self) -> None:
        for name, attributes in ATTRIBUTES.items():
            await self._counting.call("CreateQueue", QueueName=name, Attributes=attributes)

    async def _start(self) -> None:
        for queue, share in SHARES.items():
            rate = self._rate * share / PRODUCERS
            self._producers += [self._begin(self._produce, queue, rate) for _ in range(PRODUCERS)]
        for queue in ATTRIBUTES:
            self._consumers += [self._begin(self._consume, queue, 0.0) for _ in range(CONSUMERS)]

    async def _stop(self) -> None:
        self._is_sent, deadline = True, time.monotonic() + DRAIN_SECONDS
        await self._join(self._producers)
        while not self.wrong and time.monotonic() < deadline:
            if (await self._counters(self._counting, list(ATTRIBUTES)))[0] <= REST_MAX:
                break
            await asyncio.sleep(RETRY_SECONDS)
        self._is_ending = True
        await self._join(self._consumers)

    async def _join(self, tasks: Sequence["asyncio.Task[None]"]) -> None:
        """Everybody finishes the call they are in."""
        if tasks:
            _, hanging = await asyncio.wait(tasks, timeout=JOIN_SECONDS)
            assert not hanging, f"{len(hanging)} clients hang"

    def _client(self) -> Client:
        return Client(self._endpoints, next(self._serial))

    def _begin(
        self, work: Callable[[Client, str, str, float], Awaitable[None]], queue: str, rate: float
    ) -> "asyncio.Task[None]":
        name = f"{self._label}{next(self._serial)}"

        async def run() -> None:
            client = self._client()
            try:
                await work(client, queue, name, rate)
            except (AssertionError, KeyError, ValueError, Refused) as error:
                self.wrong.append(f"{queue}: {error!r}")
            finally:
                await client.close()

        return asyncio.get_running_loop().create_task(run())

    async def _call(self, client: Client, action: str, queue: str, **members: object) -> Any:
        """One attempt, timed."""
        began = time.monotonic()
        try:
            answer = await client.call(action, QueueUrl=url_of(queue), **members)
        except Unknown as error:
            self.unknown.append(f"{queue}: {action}: {error}")
            raise
        self.answered += 1
        # How long a poll waits says nothing about the node.
        if not members.get("WaitTimeSeconds"):
            self.calls.put(Timed(action, time.monotonic() - began))
        return answer

    # --- producing --------------------------------------------------------------------------

    async def _produce(self, client: Client, queue: str, name: str, rate: float) -> None:
        chance, number = random.Random(name), 0
        due = time.monotonic() + chance.random() / rate
        while not self._is_sent:
            await asyncio.sleep(due - time.monotonic())
            count = BATCH if chance.random() < BATCH_SHARE else 1
            drafts = [draft(queue, name, number + at, chance) for at in range(count)]
            while not await self._send(client, queue, drafts) and queue.endswith(".fifo"):
                # A message that may or may not be there would hide what comes after it.
                await asyncio.sleep(RETRY_SECONDS)
                if self._is_sent:
                    return
            number += count
            due = max(due + count / rate, time.monotonic() - LATE_SECONDS_MAX)

    async def _send(self, client: Client, queue: str, drafts: Sequence[Draft]) -> bool:
        began = time.monotonic()
        answers: list[dict[str, str]] = [{} for _ in drafts]
        try:
            if len(drafts) == 1:
                answers = [await self._call(client, "SendMessage", queue, **drafts[0].members)]
            else:
                entries = [{"Id": str(at)} | each.members for at, each in enumerate(drafts)]
                answer = await self._call(client, "SendMessageBatch", queue, Entries=entries)
                assert not answer.get("Failed"), answer["Failed"]
                answers = sorted(answer["Successful"], key=lambda row: int(row["Id"]))
        except Unknown:
            pass
        ended = time.monotonic()
        for each, told in zip(drafts, answers, strict=True):
            ids = (
                told.get("MessageId", ""),
                each.group,
                each.number,
                told.get("SequenceNumber", ""),
            )
            self.events.put(Sent(queue, each.name, began, ended, *ids))
        return all(answers)

    # --- consuming --------------------------------------------------------------------------

    async def _consume(self, client: Client, queue: str, name: str, _rate: float) -> None:
        """Asks at once while there is something, and waits for more when there is nothing."""
        chance, wait = random.Random(name), 0
        while not self._is_ending:
            try:
                taken = await self._receive(client, queue, LEASE_SECONDS, wait)
                wait = 0 if taken else WAIT_SECONDS
                if taken:
                    await self._process(client, queue, *taken, chance)
            except Unknown:
                await asyncio.sleep(RETRY_SECONDS)

    async def _receive(
        self, client: Client, queue: str, lease: int, wait: int
    ) -> tuple[Received, list[str]] | None:
        """What an answer had, not yet told to anybody, and its handles."""
        began = time.monotonic()
        answer = await self._call(
            client,
            "ReceiveMessage",
            queue,
            MaxNumberOfMessages=10,
            VisibilityTimeout=lease,
            WaitTimeSeconds=wait,
            MessageSystemAttributeNames=["All"],
        )
        rows = answer.get("Messages", [])
        if not rows:
            return None
        messages = tuple(named(message_of(row)) for row in rows)
        event = Received(home_of(queue), began, time.monotonic(), lease, messages)
        return event, [row["ReceiptHandle"] for row in rows]

    async def _process(
        self, client: Client, queue: str, event: Received, handles: list[str], chance: random.Random
    ) -> None:
        """One of the things that consumers do. The event is told when its lease is known."""
        drawn = chance.random()
        if drawn < GIVEN_BACK_SHARE:
            await self._change(client, queue, event, handles, 0)
        elif drawn < GIVEN_BACK_SHARE + ABANDONED_SHARE:
            self.events.put(event)
        elif drawn < GIVEN_BACK_SHARE + ABANDONED_SHARE + EXTENDED_SHARE:
            event = await self._change(client, queue, event, handles, EXTENDED_SECONDS)
            await self._delete(client, queue, event, handles)
        else:
            self.events.put(event)
            fit = [at for at, one in enumerate(event.messages) if not is_poison(queue, one)]
            step = 1 if chance.random() < ONE_BY_ONE_SHARE else BATCH
            for first in range(0, len(fit), step):
                await self._delete(
                    client, queue, *chosen(event, handles, fit[first : first + step])
                )

    async def _change(
        self, client: Client, queue: str, event: Received, handles: list[str], seconds: int
    ) -> Received:
        """The same for all messages of the answer, so that it stays one."""
        began = time.monotonic()
        entries = [
            {"Id": str(at), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
            for at, handle in enumerate(handles)
        ]
        # Until the answer is there, either lease may count: the shorter one is certain.
        lease = began - event.began + seconds
        certain = event._replace(lease_seconds=min(lease, event.lease_seconds))
        try:
            answer = await self._call(
                client, "ChangeMessageVisibilityBatch", queue, Entries=entries
            )
        except Unknown:
            self.events.put(certain)
            raise
        self._expect(event, queue, answer.get("Failed", []))
        changed = certain if answer.get("Failed") else event._replace(lease_seconds=lease)
        self.events.put(changed)
        return changed

    async def _delete(
        self, client: Client, queue: str, event: Received, handles: list[str]
    ) -> None:
        """One by one when there is one, else as a batch."""
        began, done = time.monotonic(), list[str]()
        is_acknowledged = False
        try:
            done = await self._deleted(client, queue, event, handles)
            is_acknowledged = True
        except Unknown:
            done = [message.message_id for message in event.messages]
            raise
        finally:
            fixed = (event.began, event.lease_seconds, began, time.monotonic(), is_acknowledged)
            for message_id in done:
                self.events.put(Deleted(event.queue, message_id, *fixed))

    async def _deleted(
        self, client: Client, queue: str, event: Received, handles: list[str]
    ) -> list[str]:
        """The ids of those that were deleted."""
        ids = [message.message_id for message in event.messages]
        if len(handles) == 1:
            try:
                await self._call(client, "DeleteMessage", queue, ReceiptHandle=handles[0])
            except Refused as error:
                self._expect(event, queue, [error])
                return []
            return ids
        entries = [{"Id": str(at), "ReceiptHandle": text} for at, text in enumerate(handles)]
        answer = await self._call(client, "DeleteMessageBatch", queue, Entries=entries)
        self._expect(event, queue, answer.get("Failed", []))
        return [ids[int(row["Id"])] for row in answer.get("Successful", [])]

    def _expect(self, event: Received, queue: str, failed: Sequence[object]) -> None:
        """A FIFO queue refuses a handle whose lease is over, and a moved message has no handle."""
        is_over = time.monotonic() > event.began + event.lease_seconds
        assert is_over or not failed, f"{queue} refuses a handle within its lease: {failed}"

    # --- the end ----------------------------------------------------------------------------

    async def _drain(self) -> None:
        client, deadline = self._client(), time.monotonic() + DRAIN_SECONDS
        # Dead letters that are on their way are in no queue.
        await asyncio.sleep(WAIT_SECONDS)
        for home in SHARES:
            names = [name for name in ATTRIBUTES if home_of(name) == home]
            while sum((before := await self._counters(client, names))[1:]):
                assert time.monotonic() < deadline, f"{home} has messages in flight: {before}"
                await asyncio.sleep(RETRY_SECONDS)
            found: set[str] = set()
            while sum(await self._counters(client, names)):
                assert time.monotonic() < deadline, f"{home} does not become empty"
                for name in names:
                    found |= await self._take_out(client, name)
            after = await self._counters(client, names)
            self.events.put(Drained(home, before, len(found), after))
        await client.close()

    async def _take_out(self, client: Client, queue: str) -> set[str]:
        found: set[str] = set()
        while taken := await self._receive(client, queue, LAST_LEASE_SECONDS, 0):
            self.events.put(taken[0])
            await self._delete(client, queue, *taken)
            found |= {message.message_id for message in taken[0].messages}
        return found

    async def _counters(self, client: Client, queues: Sequence[str]) -> tuple[int, int, int]:
        names = [f"ApproximateNumberOfMessages{which}" for which in COUNTERS]
        sums = [0, 0, 0]
        for queue in queues:
            members = {"QueueUrl": url_of(queue), "AttributeNames": names}
            told = (await client.call("GetQueueAttributes", **members))["Attributes"]
            sums = [before + int(told[name]) for before, name in zip(sums, names, strict=True)]
        return sums[0], sums[1], sums[2]


@contextmanager
def clients(endpoints: Callable[[], Sequence[str]], rate: float, label: str) -> Iterator[Clients]:
    """Clients with a loop in a thread of its own, which ends with the context."""
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="soak clients", daemon=True)
    thread.start()
    everybody = Clients(loop, endpoints, rate, label)
    try:
        yield everybody
    finally:
        everybody.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
