"""AddPermission and RemovePermission: statements of a queue's policy, one label each."""

from fastnode.queue.api import AddPermissionRequest, RemovePermissionRequest
from fastnode.queue.caller import Call
from fastnode.queue.errors import not_in_this_version
from fastnode.queue.service import Service


async def add_permission(service: Service, call: Call, request: AddPermissionRequest) -> None:
    raise not_in_this_version("AddPermission")


async def remove_permission(service: Service, call: Call, request: RemovePermissionRequest) -> None:
    raise not_in_this_version("RemovePermission")
