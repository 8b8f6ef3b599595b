"""The queues that the configuration file declares: there before the first client is.

A queue that exists with other attributes stays as it is, and that is reported: what clients have
changed on purpose, a restart must not undo.
"""

import difflib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from fastnode.errors import UsageError
from fastnode.flow import Suspension
from fastnode.queue.api import CreateQueueRequest, SetQueueAttributesRequest
from fastnode.queue.attributes import RULES
from fastnode.queue.caller import Call, Caller
from fastnode.queue.errors import SqsError, queue_name_exists
from fastnode.queue.operations import OPERATIONS, Operation
from fastnode.queue.queue_url import build_url
from fastnode.queue.validate_queues import create_queue

_CREATE: Final = "CreateQueue"
_SET: Final = "SetQueueAttributes"
_CONFLICT: Final = queue_name_exists("").row

# Runs an operation for a call, wherever its queue is led.
Handle = Callable[[Operation, Call, Any], Coroutine[Suspension, Any, Any]]


class Declaration(Struct, frozen=True):
    """Queues of one account and region: name → attributes, name → tags."""

    account: str
    region: str
    queues: Mapping[str, Mapping[str, str]]
    tags: Mapping[str, Mapping[str, str]] = {}

    def request_for(self, name: str) -> CreateQueueRequest:
        return CreateQueueRequest(
            queue_name=name, attributes=dict(self.queues[name]), tags=dict(self.tags.get(name, {}))
        )


def check_declared(declared: Declaration) -> None:
    """As far as it can be known without a node. Raises `UsageError`."""
    for name, attributes in declared.queues.items():
        _check_names(name, attributes)
        try:
            create_queue(declared.request_for(name))
        except SqsError as error:
            raise _refused(name, error) from error


def _check_names(queue: str, attributes: Iterable[str]) -> None:
    for attribute in attributes:
        if attribute not in RULES:
            near = difflib.get_close_matches(attribute, RULES, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else ": remove it"
            raise UsageError(f"unknown attribute {attribute} in [queues.{queue}]{hint}")


async def declare_queues(
    handle: Handle, declared: Declaration, report: Callable[[str], object]
) -> None:
    """As if the account's owner had created them; `report` is told of each that is otherwise."""
    check_declared(declared)
    call = Call(Caller(declared.account, declared.region, "", declared.account), _CREATE, "")
    for name in declared.queues:
        try:
            await handle(OPERATIONS[_CREATE], call, declared.request_for(name))
        except SqsError as error:
            if error.row != _CONFLICT:
                raise _refused(name, error) from error
            report(
                f"[queues.{name}] is not what exists, which stays as it is: {error.message}:"
                " correct the file, or the queue with SetQueueAttributes"
            )


async def set_throttles(
    handle: Handle, declared: Declaration, report: Callable[[str], object]
) -> None:
    """The attributes of `declared` are limits; queues that are gone are reported."""
    call = Call(Caller(declared.account, declared.region, "", declared.account), _SET, "")
    for name, limits in declared.queues.items():
        url = build_url("http://localhost", declared.account, name)
        request = SetQueueAttributesRequest(queue_url=url, attributes=dict(limits))
        try:
            await handle(OPERATIONS[_SET], call, request)
        except SqsError as error:
            report(f"[queues.{name}]: {error.message}")


def _refused(name: str, error: SqsError) -> UsageError:
    return UsageError(f"[queues.{name}]: {error.message}")
