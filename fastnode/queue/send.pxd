# Functions that C calls without an interpreter between; `send.py` is what they do.

from fastnode.queue.live cimport LiveQueue
from fastnode.store.group cimport Group

cpdef tuple submit_one(
    LiveQueue queue, bytes request, int retention, str sender, bytes body, waiting
)
cpdef tuple submit_bodies(
    LiveQueue queue, bytes request, int retention, str sender, bodies, waiting
)
