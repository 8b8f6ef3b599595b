# The memory of a FIFO queue as an object of C; `fifo_live.py` is what it does.

from fastnode.queue.live cimport LiveQueue


cdef class FifoQueue(LiveQueue):
    cdef public object ready, _handed, _fresh, fifo_keys, walk, recent
    cdef public dict _held
    cpdef sent_one(self, position, str group_id, bytes record)
