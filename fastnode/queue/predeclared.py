"""The queues that the configuration file declares: there before the first client is."""

from collections.abc import Mapping

from fastnode.errors import UsageError
from fastnode.queue import validate_queues
from fastnode.queue.api import CreateQueueRequest
from fastnode.queue.errors import SqsError
from fastnode.queue.queues import ensure_queue
from fastnode.queue.service import Service


async def declare_queues(
    service: Service, account: str, region: str, queues: Mapping[str, Mapping[str, str]]
) -> None:
    for name, attributes in queues.items():
        request = CreateQueueRequest(queue_name=name, attributes=dict(attributes))
        try:
            await ensure_queue(service, account, region, validate_queues.create_queue(request))
        except SqsError as error:
            raise UsageError(f"[queues.{name}]: {error.message}") from error
