"""Dead letters at the receive that meets them: where they go, and how they leave their queue."""

from collections.abc import Sequence
from typing import NamedTuple

from fastnode.queue.choice import Taken
from fastnode.queue.live import LiveQueue
from fastnode.queue.outbox import Posted, post_all
from fastnode.queue.plans import plan_removal
from fastnode.queue.queue_url import build_arn
from fastnode.queue.redrive_policy import allows
from fastnode.queue.service import Service
from fastnode.store.txn import Txn


class Destination(NamedTuple):
    """A dead-letter queue that exists and takes the letters of the queue in question."""

    target: LiveQueue
    receives_max: int


def destination(service: Service, queue: LiveQueue) -> Destination | None:
    """None: the queue has no dead-letter queue, or it is gone; then it delivers as usual."""
    redrive = queue.settings.redrive
    if redrive is None:
        return None
    target = service.find(redrive.account, redrive.region, redrive.name)
    if target is None:
        return None
    arn = build_arn(queue.region, queue.account, queue.name)
    if not allows(target.settings, arn):
        return None
    return Destination(target, redrive.max_receive_count)


def plan(
    queue: LiveQueue, destination: Destination, txn: Txn, dead: Sequence[Taken]
) -> list[Posted]:
    """The messages leave the queue in this transaction and are letters from then on."""
    for taken in dead:
        plan_removal(queue, txn, taken.position, taken.state, taken.record)
    return post_all(txn, queue, [(taken, destination.target) for taken in dead])
