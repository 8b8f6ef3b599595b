"""StartMessageMoveTask, ListMessageMoveTasks and CancelMessageMoveTask. What a running task does is
in `move_runner.py`.
"""

from typing import Final

from msgspec.structs import replace

from fastnode import config, native
from fastnode.errors import OperationError
from fastnode.queue.api import (
    CancelMessageMoveTaskRequest,
    CancelMessageMoveTaskResponse,
    ListMessageMoveTasksRequest,
    ListMessageMoveTasksResponse,
    ListMessageMoveTasksResultEntry,
    StartMessageMoveTaskRequest,
    StartMessageMoveTaskResponse,
)
from fastnode.queue.caller import Call
from fastnode.queue.dead_letter_sources import has_sources
from fastnode.queue.errors import (
    SqsError,
    invalid_parameter,
    missing_parameter,
    over_limit,
    resource_not_found,
)
from fastnode.queue.live import LiveQueue
from fastnode.queue.move_record import (
    CANCELLING,
    RUNNING,
    MoveTask,
    combined,
    decode_handle,
    decode_task,
    encode_handle,
    encode_task,
)
from fastnode.queue.move_runner import task_parts
from fastnode.queue.partition_admin import counts_everywhere
from fastnode.queue.queue_url import build_arn, parse_arn
from fastnode.queue.service import Service
from fastnode.store.keyspace import task_key, tasks_prefix
from fastnode.store.txn import Txn

_TASKS_SCANNED: Final = 2 * config.MOVE_TASKS_KEPT


async def start_message_move_task(
    service: Service, call: Call, request: StartMessageMoveTaskRequest
) -> StartMessageMoveTaskResponse:
    source = await _source(service, call, request.source_arn)
    # Other nodes may have made the queues in question a moment ago.
    await service.readable(*service.groups)
    if not has_sources(service, source):
        raise invalid_parameter("Source queue must be configured as a Dead Letter Queue.")
    if request.destination_arn is not None:
        await _check_destination(service, call, request)
    rate = request.max_number_of_messages_per_second
    if rate is not None and not 1 <= rate <= config.MOVE_RATE_MAX:
        raise _bad_rate()
    to_move = (await counts_everywhere(service, source)).visible
    _check_active(service, source)
    service.move_tasks.reserve(source.keys.segment)
    task = await _store(service, source, request, to_move)
    service.move_tasks.run(source.keys.segment, task.started_at)
    return StartMessageMoveTaskResponse(encode_handle(task.task_id, _arn(source)))


async def list_message_move_tasks(
    service: Service, call: Call, request: ListMessageMoveTasksRequest
) -> ListMessageMoveTasksResponse:
    source = await _source(service, call, request.source_arn)
    limit = 1 if request.max_results is None else request.max_results
    if not 1 <= limit <= config.MOVE_TASKS_KEPT:
        reason = f"MaxResults must be an integer between 1 and {config.MOVE_TASKS_KEPT}."
        raise invalid_parameter(f"Value for parameter MaxResults is invalid. Reason: {reason}")
    parts = (service.groups[number] for number in source.record.partition_groups)
    await service.readable(source.group, *parts)
    newest = _tasks(source)[::-1][:limit]
    return ListMessageMoveTasksResponse([_shown(service, source, task) for task in newest])


async def cancel_message_move_task(
    service: Service, call: Call, request: CancelMessageMoveTaskRequest
) -> CancelMessageMoveTaskResponse:
    if not request.task_handle:
        raise missing_parameter("TaskHandle")
    handle = decode_handle(request.task_handle)
    source = await _source(service, call, handle.source_arn)
    group = source.group
    while True:
        task = next((one for one in _tasks(source) if one.task_id == handle.task_id), None)
        if task is None:
            raise resource_not_found("Task does not exist.")
        blocked = group.latches.wait_for((_key(source, task),))
        if blocked is None:
            break
        await blocked
    known = _whole(service, source, task)
    if known.status != RUNNING:
        raise invalid_parameter("Only active tasks can be cancelled.")
    txn = group.begin(service.new_request())
    txn.put(_key(source, task), encode_task(replace(task, status=CANCELLING)))
    await group.submit(txn)
    return CancelMessageMoveTaskResponse(known.moved)


# --- the queues of a task --------------------------------------------------------------------


async def _source(service: Service, call: Call, arn: str | None) -> LiveQueue:
    if not arn:
        raise missing_parameter("SourceArn")
    return await _queue_at(service, call, arn, "SourceArn")


async def _check_destination(
    service: Service, call: Call, request: StartMessageMoveTaskRequest
) -> None:
    assert request.destination_arn is not None and request.source_arn is not None
    target = await _queue_at(service, call, request.destination_arn, "DestinationArn")
    if request.destination_arn == request.source_arn:
        raise invalid_parameter("Source queue arn and destination queue arn cannot be the same.")
    if request.source_arn.endswith(".fifo") != target.name.endswith(".fifo"):
        raise invalid_parameter(
            "The source queue and destination queue must be of the same queue type."
        )


async def _queue_at(service: Service, call: Call, arn: str, member: str) -> LiveQueue:
    if arn.count(":") < _ARN_COLONS or not arn.startswith("arn:"):
        wanted = "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        raise invalid_parameter(f"You must use this format to specify the {member}: {wanted}")
    named = parse_arn(arn)
    queue = None if named is None else await service.queue_named(call, *named)
    if queue is None:
        raise _missing_resource(member)
    return queue


_ARN_COLONS: Final = 5


def _missing_resource(member: str) -> SqsError:
    text = f"The resource that you specified for the {member} parameter doesn't exist."
    return resource_not_found(text)


# --- tasks -----------------------------------------------------------------------------------


def _check_active(service: Service, source: LiveQueue) -> None:
    if service.move_tasks.is_active(source.keys.segment):
        raise invalid_parameter(
            "There is already a task running. Only one active task is allowed for a source queue "
            "arn at a given time."
        )
    if service.move_tasks.active_count(source.account) >= config.MOVE_TASKS_ACTIVE_MAX:
        raise over_limit("The maximum number of active message movement tasks is reached.")


async def _store(
    service: Service, source: LiveQueue, request: StartMessageMoveTaskRequest, to_move: int
) -> MoveTask:
    """The task, durable, in place of the oldest that is still remembered."""
    try:
        txn = source.group.begin(service.new_request())
        task = _planned(txn, request, to_move)
        txn.check(source.keys.generation)
        for old in _tasks(source)[: 1 - config.MOVE_TASKS_KEPT]:
            txn.delete(_key(source, old))
        txn.put(_key(source, task), encode_task(task))
        await source.group.submit(txn)
    except OperationError:
        service.move_tasks.release(source.keys.segment)
        raise
    return task


def _planned(txn: Txn, request: StartMessageMoveTaskRequest, to_move: int) -> MoveTask:
    return MoveTask(
        started_at=txn.commit_ts,
        task_id=native.message_id_text(txn.request),
        destination_arn=request.destination_arn,
        rate=request.max_number_of_messages_per_second,
        status=RUNNING,
        moved=0,
        to_move=to_move,
    )


def _tasks(source: LiveQueue) -> list[MoveTask]:
    """What is remembered of the source's tasks, oldest first."""
    prefix = tasks_prefix(source.keys.segment)
    rows = source.group.scan(prefix, native.prefix_end(prefix), _TASKS_SCANNED)
    return [decode_task(stored) for _, stored in rows]


def _key(source: LiveQueue, task: MoveTask) -> bytes:
    return task_key(source.keys.segment, task.started_at)


def _arn(queue: LiveQueue) -> str:
    return build_arn(queue.region, queue.account, queue.name)


def _whole(service: Service, source: LiveQueue, task: MoveTask) -> MoveTask:
    """With what its partitions know of it."""
    return combined(task, task_parts(service.groups, source, task.started_at))


def _shown(
    service: Service, source: LiveQueue, stored: MoveTask
) -> ListMessageMoveTasksResultEntry:
    arn, task = _arn(source), _whole(service, source, stored)
    return ListMessageMoveTasksResultEntry(
        task_handle=encode_handle(task.task_id, arn) if task.status == RUNNING else None,
        status=task.status,
        source_arn=arn,
        destination_arn=task.destination_arn,
        max_number_of_messages_per_second=task.rate,
        approximate_number_of_messages_moved=task.moved,
        approximate_number_of_messages_to_move=task.to_move,
        failure_reason=task.failure_reason,
        started_timestamp=task.started_at >> 16,
    )


def _bad_rate() -> SqsError:
    return invalid_parameter(
        "Value for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: You must enter a "
        "number that's between 1 and 500."
    )
