"""Errors that are no surprise to the clients of a simulation."""

from typing import Final

from tests.model.queues import QueueModel

GONE: Final = "QueueDoesNotExist"
BAD_HANDLE: Final = "ReceiptHandleIsInvalid"
BAD_VALUE: Final = "InvalidParameterValueException"


def no_partitions(queue: QueueModel) -> tuple[str, ...]:
    """A queue with partitions is refused while a member cannot say that it knows them."""
    return ("InvalidAttributeValue",) if queue.kind.partitions > 1 else ()


class About:
    """Errors that are no surprise when they come; a queue that was deleted by then may be gone."""

    def __init__(self, queue: QueueModel, *more: str) -> None:
        self._queue = queue
        self._more = more

    def __contains__(self, code: object) -> bool:
        return code in self._more or (bool(self._queue.wipes) and code in (GONE, BAD_HANDLE))
