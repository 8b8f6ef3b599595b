"""Modules that every request passes through: readable, and compiled as they are.

The `.pxd` beside each says which of its objects are objects of C. `FASTNODE_PURE=1` runs the
sources themselves; whoever compiles, and whoever looks whether that was done, reads this list.
"""

from typing import Final

WAYS: Final = (
    "alarm",
    "clock",
    "flow",
    "http.batch_lane",
    "http.connection",
    "http.exchange",
    "http.handout_lane",
    "http.http1",
    "http.identity",
    "http.invocation",
    "http.lane",
    "http.receive_lane",
    "http.router",
    "http.send_lane",
    "http.sigv4",
    "meter",
    "queue.choice",
    "queue.fanout_meter",
    "queue.fifo_live",
    "queue.fifo_send",
    "queue.fullness",
    "queue.handout",
    "queue.live",
    "queue.long_poll",
    "queue.read_ahead",
    "queue.send",
    "queue.service",
    "queue.standard_live",
    "queue.timers",
    "queue.traffic",
    "queue.waiting",
    "raft.driver",
    "raft.meter",
    "raft.runtime",
    "store.afterwards",
    "store.apply",
    "store.backlog",
    "store.group",
    "store.heads",
    "store.held_engine",
    "store.judge",
    "store.latches",
    "store.sums",
)
