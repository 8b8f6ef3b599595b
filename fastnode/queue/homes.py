"""Which group's leader has to answer a call: the home of the queue that it is about.

Calls about messages of a queue with partitions have no home: any node answers them, with the help
of those that lead the partitions. Nor have calls about no queue, and those that are refused
wherever they arrive.
"""

from typing import Any, Final

from fastnode import native
from fastnode.queue.caller import Caller
from fastnode.queue.errors import SqsError
from fastnode.queue.move_record import decode_handle
from fastnode.queue.queue_url import is_account, is_fifo_name, is_queue_name, parse_arn
from fastnode.queue.service import Service
from fastnode.store.group import Group

_ABOUT_MESSAGES: Final = frozenset(
    {
        "SendMessage",
        "SendMessageBatch",
        "ReceiveMessage",
        "DeleteMessage",
        "DeleteMessageBatch",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
    }
)


def home_of(service: Service, caller: Caller, action: str, request: Any) -> Group | None:
    """None: it may be answered here."""
    name = queue_of(service, caller, request)
    if name is None or not all(name):
        return None
    groups = service.groups
    home = groups[native.home_group(native.queue_segment(*name), len(groups))]
    if home.is_ready or action not in _ABOUT_MESSAGES or not is_fifo_name(name[2]):
        return home
    # No other queue has partitions.
    queue = service.find(*name)
    return None if queue is not None and queue.record.partition_groups else home


def queue_of(service: Service, caller: Caller, request: Any) -> tuple[str, str, str] | None:
    """Account, region and name of the queue, if the request names one properly."""
    if hasattr(request, "queue_url"):
        try:
            account, name = service.resolve(request.queue_url)
        except SqsError:
            return None
        return account or caller.account, caller.region, name
    if hasattr(request, "queue_name"):
        name = request.queue_name or ""
        owner = getattr(request, "queue_owner_aws_account_id", None) or caller.account
        is_proper = is_queue_name(name) and is_account(owner)
        return (owner, caller.region, name) if is_proper else None
    if hasattr(request, "source_arn"):
        return parse_arn(request.source_arn or "")
    if hasattr(request, "task_handle"):
        try:
            return parse_arn(decode_handle(request.task_handle or "").source_arn)
        except SqsError:
            return None
    return None
