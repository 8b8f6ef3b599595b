"""Whether a queue has as many messages in flight as it may have: then it hands out no more."""

from fastnode import config
from fastnode.queue.live import LiveQueue


def may_be_full(queue: LiveQueue) -> bool:
    """A look into memory mostly says no."""
    if queue.timers.is_below(config.IN_FLIGHT_MESSAGES_MAX):
        return False
    return queue.group.counter(queue.messages.in_flight) >= config.IN_FLIGHT_MESSAGES_MAX


def is_full(queue: LiveQueue, now: int) -> bool:
    return may_be_full(queue) and queue.counts(now).in_flight >= config.IN_FLIGHT_MESSAGES_MAX
