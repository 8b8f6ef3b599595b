"""One page of queue names, merged from all groups in the order of names. Pages are what ListQueues
and ListDeadLetterSourceQueues give.
"""

from fastnode import native
from fastnode.queue.service import Service
from fastnode.queue.validate_queues import ValidList, encode_next_token


def names_page(
    service: Service, valid: ValidList, *, family_size: int, prefix: bytes, start: bytes
) -> tuple[list[str], str | None]:
    """The names, and the token for those after them. Keys begin with the prefix; after
    `family_size` bytes a queue segment follows.
    """
    end = native.prefix_end(prefix)
    names: list[str] = []
    for group in service.groups:
        # One name more than asked for tells whether there are more.
        for key in group.scan_keys(start, end, valid.limit + 1):
            names.append(native.split_queue_segment(key[family_size:])[2])
    names.sort()
    page = names[: valid.limit]
    has_more = valid.gives_token and len(names) > valid.limit
    return page, encode_next_token(page[-1]) if has_more else None
