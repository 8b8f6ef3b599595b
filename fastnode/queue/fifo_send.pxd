# Functions that C calls without an interpreter between; `fifo_send.py` is what they do.

from fastnode.queue.fifo_live cimport FifoQueue
from fastnode.store.group cimport Group

cpdef bytes submit_one(
    FifoQueue queue, tuple identity, tuple stamps, str sender, draft, waiting
)
cpdef plain_drafts(FifoQueue queue, filed, bodies)
