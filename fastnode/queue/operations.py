"""The table of actions: what each takes, what it gives, who does it. A new action is a new row."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from fastnode.flow import Suspension
from fastnode.queue import (
    api,
    dead_letter_sources,
    delete,
    move_tasks,
    permissions,
    queues,
    receive,
    send,
    tags,
    visibility,
)

Handler = Callable[..., Coroutine[Suspension, Any, Any]]


@dataclass(frozen=True)
class Operation:
    """`response` is None for an action without output."""

    name: str
    request: type[Struct]
    response: type[Struct] | None
    handler: Handler


_HANDLERS: Final[tuple[Handler, ...]] = (
    queues.create_queue,
    queues.delete_queue,
    queues.get_queue_url,
    queues.list_queues,
    queues.get_queue_attributes,
    queues.set_queue_attributes,
    queues.purge_queue,
    send.send_message,
    send.send_message_batch,
    receive.receive_message,
    delete.delete_message,
    delete.delete_message_batch,
    visibility.change_message_visibility,
    visibility.change_message_visibility_batch,
    tags.tag_queue,
    tags.untag_queue,
    tags.list_queue_tags,
    permissions.add_permission,
    permissions.remove_permission,
    dead_letter_sources.list_dead_letter_source_queues,
    move_tasks.start_message_move_task,
    move_tasks.list_message_move_tasks,
    move_tasks.cancel_message_move_task,
)


def _operation(handler: Handler) -> Operation:
    """A handler is named after its action, and so are the Structs of its request and answer."""
    name = "".join(word.capitalize() for word in handler.__name__.split("_"))
    return Operation(
        name, getattr(api, f"{name}Request"), getattr(api, f"{name}Response", None), handler
    )


OPERATIONS: Final = {row.name: row for row in map(_operation, _HANDLERS)}
assert len(OPERATIONS) == len(_HANDLERS), "an action has two rows"
# What makes room for others: turned away last by a node that has too much to do.
FREEING: Final = frozenset(
    f"{action}{suffix}"
    for action in ("DeleteMessage", "ChangeMessageVisibility")
    for suffix in ("", "Batch")
)
assert FREEING <= OPERATIONS.keys()
