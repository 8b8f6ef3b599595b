# The memory of a standard queue as an object of C; `standard_live.py` is what it does.

from fastnode.queue.live cimport LiveQueue


cdef class StandardQueue(LiveQueue):
    cpdef take_plain(self, Py_ssize_t limit, now)
    cpdef hidden(self, handles, set held)
