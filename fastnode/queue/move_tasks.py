"""StartMessageMoveTask, ListMessageMoveTasks and CancelMessageMoveTask."""

from fastnode.queue.api import (
    CancelMessageMoveTaskRequest,
    CancelMessageMoveTaskResponse,
    ListMessageMoveTasksRequest,
    ListMessageMoveTasksResponse,
    StartMessageMoveTaskRequest,
    StartMessageMoveTaskResponse,
)
from fastnode.queue.caller import Call
from fastnode.queue.errors import not_in_this_version
from fastnode.queue.service import Service


async def start_message_move_task(
    service: Service, call: Call, request: StartMessageMoveTaskRequest
) -> StartMessageMoveTaskResponse:
    raise not_in_this_version("StartMessageMoveTask")


async def list_message_move_tasks(
    service: Service, call: Call, request: ListMessageMoveTasksRequest
) -> ListMessageMoveTasksResponse:
    raise not_in_this_version("ListMessageMoveTasks")


async def cancel_message_move_task(
    service: Service, call: Call, request: CancelMessageMoveTaskRequest
) -> CancelMessageMoveTaskResponse:
    raise not_in_this_version("CancelMessageMoveTask")
