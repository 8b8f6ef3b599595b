"""One queue of a node, and loads of signed requests to it.

Signatures are good for 15 minutes, so the files are written again when they have become old.
"""

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from bench import load, server_process, sqs_requests
from bench.load import Load, LoadError, Outcome
from bench.rig import REQUESTS_PER_FILE, Rig
from bench.server_process import Server
from bench.sqs_requests import Signer, message_body

BATCH = 10
FILLING_CONNECTIONS = 64
CONSUMERS = 16
EMPTY_STREAK = 3
LOAD_SECONDS_MAX = 600.0
FILE_SECONDS_MAX = 300.0


class Writer(Protocol):
    """How a file of requests is made."""

    def __call__(self, signer: Signer, queue_url: str, *, count: int) -> bytes: ...


class QueueLoad:
    """A queue that is created if there is none."""

    def __init__(
        self,
        rig: Rig,
        node: Server,
        name: str = "bench",
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        self.rig, self.node = rig, node
        self._name = name
        self._files: dict[str, tuple[Path, float]] = {}
        self.url = create_queue(node, name, attributes or {})

    def call(self, action: str, **members: object) -> dict[str, object]:
        request = signer_of(self.node).request(action, {"QueueUrl": self.url} | members)
        answer = server_process.exchange(self.node.address, request)
        return msgspec.json.decode(answer, type=dict[str, object]) if answer else {}

    def request(self, action: str, serial: int | None = None, **members: object) -> bytes:
        return signer_of(self.node).request(action, {"QueueUrl": self.url} | members, serial)

    # --- files of requests ---

    def singles(self) -> Path:
        """SendMessage."""
        return self._file("single", sqs_requests.sends)

    def batches(self) -> Path:
        """SendMessageBatch of ten."""
        return self._file("batch", sqs_requests.batch_sends)

    def consumer(self, wait_seconds: int = 0) -> Path:
        """Receive of ten, batch delete."""
        return self._file(
            f"consumer-{wait_seconds}",
            lambda signer, queue_url, *, count: sqs_requests.consumer_script(
                signer, queue_url, wait_seconds=wait_seconds
            ),
        )

    def _file(self, kind: str, write: Writer) -> Path:
        path, written = self._files.get(kind, (self.path(kind), -FILE_SECONDS_MAX))
        if time.monotonic() - written >= FILE_SECONDS_MAX:
            path.write_bytes(write(signer_of(self.node), self.url, count=REQUESTS_PER_FILE))
            self._files[kind] = path, time.monotonic()
        return path

    def path(self, kind: str) -> Path:
        """A file of its own for each node and queue."""
        port = self.node.address.rpartition(":")[2]
        return self.rig.directory / f"{port}-{self._name}.{kind}.http"

    # --- loads ---

    def run(self, bounds: Load) -> Outcome:
        """To its end, with every answer a 200."""
        watched = self.node.process_ids()
        outcome = load.run(
            msgspec.structs.replace(bounds, core=self.rig.load_core, watched=watched)
        )
        outcome.check()
        return outcome

    def cycle(
        self, cycles: Sequence[tuple[int, Path]], count: int, seconds: float = LOAD_SECONDS_MAX
    ) -> Outcome:
        """So many requests."""
        return self.run(Load(self.node.address, seconds, cycles, count=count))

    def send(self, messages: int, connections: int) -> Outcome:
        """So many, one by one."""
        return self.cycle([(connections, self.singles())], messages)

    def fill(self, messages: int) -> None:
        """So many more wait; in parts, whose signatures stay fresh."""
        part = 1_000_000
        for begin in range(0, messages, part):
            count = min(part, messages - begin) // BATCH
            self.cycle([(FILLING_CONNECTIONS, self.batches())], count)

    def empty(self, consumers: int = CONSUMERS) -> Outcome:
        """Receive and delete until nothing is found."""
        return self.run(
            Load(
                self.node.address,
                LOAD_SECONDS_MAX,
                consumers=[(consumers, self.consumer())],
                stop_empty=EMPTY_STREAK,
            )
        )

    def drain(self, messages: int) -> Outcome:
        """Receive and delete until it is empty; that must be exactly so many."""
        outcome = self.empty()
        found = outcome.groups[0].messages_deleted
        if found != messages:
            raise LoadError(f"{found} messages deleted, {messages} sent")
        return outcome

    def take(self, messages: int, consumers: int = CONSUMERS) -> Outcome:
        """Receive and delete about so many of more."""
        consuming = [(consumers, self.consumer())]
        requests = 2 * messages // BATCH
        return self.run(
            Load(self.node.address, LOAD_SECONDS_MAX, consumers=consuming, count=requests)
        )

    def consume(self, seconds: float, consumers: int = CONSUMERS) -> Outcome:
        """Receive and delete for so long."""
        return self.run(Load(self.node.address, seconds, consumers=[(consumers, self.consumer())]))


class FifoLoad(QueueLoad):
    """A FIFO queue, and requests to it that never repeat: a repeated send would be a duplicate."""

    def __init__(self, rig: Rig, node: Server, groups: int, name: str = "bench.fifo") -> None:
        super().__init__(rig, node, name, {"FifoQueue": "true"})
        self._groups = groups
        self._serials = itertools.count()

    def _message(self) -> dict[str, str]:
        serial = next(self._serials)
        return {
            "MessageBody": message_body(serial),
            "MessageGroupId": f"group-{serial % self._groups:04d}",
            "MessageDeduplicationId": f"id-{serial:08d}",
        }

    def write_sends(self, count: int, connections: int) -> list[tuple[int, Path]]:
        """A file for each connection, with room for one that is faster than the others."""
        each = count // connections * 3 // 2 + 1
        return [
            (1, self._write(f"send{number}", (self._send() for _ in range(each))))
            for number in range(connections)
        ]

    def _send(self) -> bytes:
        return self.request("SendMessage", 0, **self._message())

    def fill(self, messages: int) -> None:
        """By one connection, in batches: a batch holds messages of ten groups."""
        requests = (self._batch() for _ in range(messages // BATCH))
        self.cycle([(1, self._write("fill", requests))], messages // BATCH)

    def _batch(self) -> bytes:
        entries = [{"Id": str(number)} | self._message() for number in range(BATCH)]
        return self.request("SendMessageBatch", 0, Entries=entries)

    def _write(self, kind: str, requests: Iterable[bytes]) -> Path:
        path = self.path(kind)
        path.write_bytes(b"".join(requests))
        return path


def signer_of(node: Server) -> Signer:
    """Signs as of now."""
    return Signer(host=node.address, signed_at=datetime.now(UTC))


def create_queue(node: Server, name: str, attributes: Mapping[str, str]) -> str:
    """Its URL."""
    members: dict[str, object] = {"QueueName": name}
    if attributes:
        members["Attributes"] = dict(attributes)
    request = signer_of(node).request("CreateQueue", members)
    return str(msgspec.json.decode(server_process.exchange(node.address, request))["QueueUrl"])
