# The short ways of deletes, and what they share with receives, as objects of C; `handout_lane.py` is
# what they do.

from fastnode._http cimport Request as HttpRequest
from fastnode.http.exchange cimport Exchange
from fastnode.http.lane cimport Lane
from fastnode.queue.handout cimport Removal
from fastnode.queue.live cimport LiveQueue


cdef class HandoutLane(Lane):
    cdef public object decode, read
    cpdef bint _begin(self, HttpRequest request, Exchange exchange, caller, plain) except -1
    cpdef bint take(self, HttpRequest request, Exchange exchange) except -1
    cpdef LiveQueue plain_queue(self, caller, queue_url)
    cpdef bytes invocation(self, HttpRequest request, caller)


cdef class _Deleting(HandoutLane):
    pass


cdef class DeleteLane(_Deleting):
    pass


cdef class DeleteBatchLane(_Deleting):
    pass


cdef class Pending:
    cdef public HandoutLane lane
    cdef public HttpRequest request
    cdef public Exchange exchange
    cdef public object caller


cdef class _Delete(Pending):
    cdef public bytes answer
    cdef public Removal work
