"""A lane's operations, read ahead by a thread: Spark hands them on through a pipe that can block.

The thread only moves Arrow batches. They become Python values where they are taken, a few at once.
"""

import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from queue import Empty, Full, Queue
from typing import Final

import pyarrow as pa

from spark_load.replay.operations import Operation, read_operations

SLICE_ROWS: Final = 128
SLICES_WAITING_MAX: Final = 256
# How often the thread looks whether anybody still wants its operations.
LOOK_SECONDS: Final = 0.1


class Feed:
    """Operations in the order of the batches."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self._slices: Queue[pa.RecordBatch | BaseException | None] = Queue(SLICES_WAITING_MAX)
        self._current: Iterator[Operation] = iter(())
        self._is_closed = False
        self.is_ended = False
        self._thread = threading.Thread(target=self._read, name="feed", daemon=True)
        self._thread.start()

    def take(self, count: int) -> list[Operation]:
        """At most so many; fewer, or none, while the next are still on their way."""
        taken = list(islice(self._current, count))
        if len(taken) < count and not self.is_ended and self._next_slice():
            taken += islice(self._current, count - len(taken))
        return taken

    def close(self) -> None:
        """The rest is not wanted. The batches are read to their end, as Spark expects."""
        self._is_closed = True
        self._thread.join()

    def _next_slice(self) -> bool:
        try:
            found = self._slices.get_nowait()
        except Empty:
            return False
        if isinstance(found, BaseException):
            raise found
        if found is None:
            self.is_ended = True
            return False
        self._current = read_operations(found)
        return True

    def _read(self) -> None:
        try:
            for batch in self._batches:
                for first in range(0, batch.num_rows, SLICE_ROWS):
                    self._put(batch.slice(first, SLICE_ROWS))
        except Exception as error:
            # Raised again where operations are taken.
            self._put(error)
        self._put(None)

    def _put(self, item: pa.RecordBatch | BaseException | None) -> None:
        while not self._is_closed:
            try:
                self._slices.put(item, timeout=LOOK_SECONDS)
            except Full:
                continue
            return
