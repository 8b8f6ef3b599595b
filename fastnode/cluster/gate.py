"""What stands between CreateQueue and a queue of more than one partition. Shell: it starts the
poll, waits for it and writes the reason of a refusal to the log.

A member that does not know partitions would look for their messages where there are none. So a
queue gets them only when this node and every other member has the capability, and each partition
has a group. The client learns no more than that it cannot be; a name or an address of a member is
nobody's business but the operator's.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from fastnode.cluster.capabilities import HTFIFO, Advertised, Report
from fastnode.cluster.partition_map import PartitionMap
from fastnode.errors import Unavailable
from fastnode.flow import Suspension
from fastnode.queue.errors import sqs_error

PUBLIC_TEXT: Final = (
    "High throughput for FIFO queues, with more than one partition, is not available at the moment."
)


class PartitionGate:
    """`ask` asks the members of the cluster, as it is now, for `htfifo`, at the addresses that they
    gave. Who answers there may be somebody else, so what they said on their links, where they have
    proved who they are, counts too: `advertised`.
    """

    def __init__(
        self,
        capabilities: Sequence[str],
        placement: PartitionMap,
        ask: Callable[[], Coroutine[Any, Any, Report]],
        log: logging.Logger,
        advertised: Callable[[], Advertised] = dict,
    ) -> None:
        self._capabilities = capabilities
        self._placement = placement
        self._ask = ask
        self._log = log
        self._advertised = advertised
        self._polling: asyncio.Task[Report] | None = None

    async def admit(self, name: str, count: int) -> None:
        """Return if a new queue of this name may have so many partitions; awaited by a handler."""
        assert count > 1
        reason = self._local_reason(name, count) or _reason(await self._poll())
        if reason:
            fields = {"queue": name, "partitions": count, "reason": reason}
            self._log.warning("a partitioned queue is refused", extra=fields)
            raise sqs_error("InvalidAttributeValue", PUBLIC_TEXT)

    def _local_reason(self, name: str, count: int) -> str:
        if HTFIFO not in self._capabilities:
            return f"this node runs without {HTFIFO}"
        if not self._placement.covers(name, count):
            return "the partition map has fewer groups for the queue"
        lacking = [
            f"node {node} does not advertise {HTFIFO}"
            for node, capabilities in self._advertised().items()
            if capabilities is not None and HTFIFO not in capabilities
        ]
        return "; ".join(lacking)

    def _poll(self) -> Suspension:
        """Calls that come while the members are being asked share the answer, so that many of them
        cost no more connections than one.
        """
        if self._polling is None or self._polling.done():
            self._polling = asyncio.get_running_loop().create_task(self._ask())
        waiting = Suspension()
        self._polling.add_done_callback(lambda polled: _settle(waiting, polled))
        return waiting


def _settle(waiting: Suspension, polled: asyncio.Task[Report]) -> None:
    if polled.cancelled():
        waiting.fail(Unavailable("the node stops"))
    elif (error := polled.exception()) is not None:
        waiting.fail(error)
    else:
        waiting.resume(polled.result())


def _reason(report: Report) -> str:
    return "" if report.all_capable else "; ".join(map(str, report.members))
