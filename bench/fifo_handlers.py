"""The real handlers of one FIFO queue on RocksDB, without sockets, log and fsync.

What is left is what a call costs the event loop: choosing, planning, judging, applying.
"""

from pathlib import Path
from typing import Any

from fastnode.clock import GroupClock, SystemClock, SystemIdSource
from fastnode.flow import start
from fastnode.queue import api
from fastnode.queue.caller import Call, Caller
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.service import Service
from fastnode.raft.groups import LEADER
from fastnode.store.engine import RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.group import Group

ACCOUNT, REGION = "000000000000", "us-east-1"
BATCH = 10
HOURS_SECONDS = 43_200


class LocalQueue:
    """`close` it."""

    def __init__(self, directory: Path, *, is_fifo: bool = True, partitions: int = 1) -> None:
        self._engine = RocksEngine(directory, EngineShared())
        self._group = Group(0, self._engine, GroupClock(SystemClock()))
        self._group.change_role(LEADER, 1)
        self._index = 1
        self._group.commit(self._index, 1, [])
        assert self._group.apply()
        self._service = Service([self._group], SystemIdSource(), NoAlarm, is_strict=False)
        self._caller = Caller(ACCOUNT, REGION, "http://localhost", "bench")
        self._serial = 0
        self.url = "bench.fifo" if is_fifo else "bench"
        attributes = fifo_attributes(partitions) if is_fifo else {}
        self.call("CreateQueue", api.CreateQueueRequest(self.url, attributes))

    def close(self) -> None:
        self._engine.close()

    def call(self, action: str, request: Any) -> Any:
        """One call, whose transaction is an entry of its own."""
        answers: list[Any] = []
        call = Call(self._caller, action, "id")
        handler = OPERATIONS[action].handler(self._service, call, request)
        start(handler, lambda result, error: answers.append((result, error)))
        while (entry := self._group.take_entry()) is not None:
            self._index += 1
            self._group.commit(self._index, 1, [entry])
            assert self._group.apply()
        ((result, error),) = answers
        if error is not None:
            raise error
        return result

    def send(self, group: str, count: int) -> None:
        """So many messages in one batch of at most ten."""
        entries = []
        for number in range(count):
            self._serial += 1
            entries.append(
                api.SendMessageBatchRequestEntry(
                    str(number),
                    f"{self._serial:0200d}",
                    message_group_id=group,
                    message_deduplication_id=str(self._serial),
                )
            )
        self.call("SendMessageBatch", api.SendMessageBatchRequest(self.url, entries))

    def receive(self, limit: int, timeout: int) -> list[api.Message]:
        request = api.ReceiveMessageRequest(
            self.url, max_number_of_messages=limit, visibility_timeout=timeout
        )
        messages: list[api.Message] = self.call("ReceiveMessage", request).messages
        return messages

    def delete(self, handle: str) -> None:
        self.call("DeleteMessage", api.DeleteMessageRequest(self.url, handle))

    def lock(self, messages: int, groups: int) -> None:
        """So many messages in so many groups, each with its first message in flight for hours."""
        per_group = messages // groups
        for group in range(groups):
            for begin in range(0, per_group, BATCH):
                self.send(f"locked-{group:06d}", min(BATCH, per_group - begin))
            assert len(self.receive(1, HOURS_SECONDS)) == 1
        assert self.receive(1, 0) == []


def fifo_attributes(partitions: int) -> dict[str, str]:
    """Of a FIFO queue with so many partitions."""
    if partitions == 1:
        return {"FifoQueue": "true"}
    return {
        "FifoQueue": "true",
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
        "PartitionCount": str(partitions),
    }


class NoAlarm:
    """Nobody waits here, so nothing has to ring."""

    def set(self, at_ms: int, now_ms: int, ring: Any) -> None:
        pass

    def clear(self) -> None:
        pass
