# The short way of batches as objects of C; `batch_lane.py` is what they do.

from fastnode._http cimport Request as HttpRequest
from fastnode.http.exchange cimport Exchange
from fastnode.http.lane cimport Lane
from fastnode.queue.live cimport LiveQueue


cdef class BatchLane(Lane):
    cpdef bint take(self, HttpRequest request, Exchange exchange) except -1
    cpdef bint _sent(self, HttpRequest request, Exchange exchange, caller, tuple batch) except -1


cdef class _Pending:
    cdef public BatchLane lane
    cdef public HttpRequest request
    cdef public object caller, records, drafts
    cdef public LiveQueue queue
    cdef public Exchange exchange
    cdef public list ids
    cdef public bytes identity, answer
    cdef public str request_id
    cdef public object commit_ts
