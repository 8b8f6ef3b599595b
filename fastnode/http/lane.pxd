# What short ways have in common, as an object of C; `lane.py` is what it does.

cimport cython

from fastnode._http cimport Request as HttpRequest
from fastnode.http.exchange cimport Exchange
from fastnode.queue.live cimport LiveQueue
from fastnode.queue.service cimport Service


cdef class Lane:
    cdef dict __dict__
    cdef public object quick_caller, service, request_ids, go_on, _meter, _took
    @cython.locals(service=Service)
    cpdef tuple identity_of(self, HttpRequest request, caller)
    @cython.locals(service=Service)
    cpdef LiveQueue open_queue(self, caller, queue_url)
    cpdef write(self, Exchange exchange, str request_id, bytes answer)
    cpdef answer(self, Exchange exchange, bytes body)
    cpdef _count(self, Exchange exchange, str request_id)


cpdef bint is_bare(HttpRequest request) except -1
