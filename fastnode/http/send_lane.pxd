# The short way of sends as objects of C; `send_lane.py` is what they do. A commit timestamp is a
# number of Python: positions are made of it by a shift, and have more bits than a word.

from fastnode._http cimport Request as HttpRequest
from fastnode.http.exchange cimport Exchange
from fastnode.http.lane cimport Lane
from fastnode.queue.live cimport LiveQueue


cdef class SendLane(Lane):
    cpdef bint take(self, HttpRequest request, Exchange exchange) except -1
    cpdef bint _sent(self, HttpRequest request, Exchange exchange, caller, tuple sent) except -1


cdef class _Pending:
    cdef public SendLane lane
    cdef public HttpRequest request
    cdef public object caller
    cdef public LiveQueue queue
    cdef public Exchange exchange
    cdef public bytes identity, record, answer
    cdef public str request_id
    cdef public object commit_ts


cdef class _FifoPending(_Pending):
    cdef public str group_id, number
