# The service as an object of C; `service.py` is what it does.

cimport cython

from fastnode.queue.live cimport LiveQueue
from fastnode.store.group cimport Group


cdef class Service:
    cdef dict __dict__
    cdef object __weakref__
    cdef public object groups, _ids, gates, polls, fanout
    cdef public dict _live, _resolved, _meant
    cpdef bytes new_request(self)
    @cython.locals(queue=LiveQueue, group=Group)
    cpdef LiveQueue live_queue(self, caller, queue_url)
    cpdef LiveQueue _own_queue(self, caller, str queue_url)
