"""The queues that the configuration file declares: there before the first client is."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastnode.errors import UsageError
from fastnode.flow import Suspension
from fastnode.queue.api import CreateQueueRequest
from fastnode.queue.caller import Call, Caller
from fastnode.queue.errors import SqsError
from fastnode.queue.operations import OPERATIONS, Operation

_CREATE = "CreateQueue"

# Runs an operation for a call, wherever its queue is led.
Handle = Callable[[Operation, Call, Any], Coroutine[Suspension, Any, Any]]


async def declare_queues(
    handle: Handle, account: str, region: str, queues: Mapping[str, Mapping[str, str]]
) -> None:
    """As if the account's owner had created them."""
    call = Call(Caller(account, region, "", account), _CREATE, "")
    for name, attributes in queues.items():
        request = CreateQueueRequest(queue_name=name, attributes=dict(attributes))
        try:
            await handle(OPERATIONS[_CREATE], call, request)
        except SqsError as error:
            raise UsageError(f"[queues.{name}]: {error.message}") from error
