# The router as an object of C; `router.py` is what it does.

from fastnode._http cimport Request as HttpRequest
from fastnode.http.exchange cimport Exchange


cdef class Router:
    cdef dict __dict__
    cdef public object _health, _room
    cdef public dict _lanes
    cpdef respond(self, HttpRequest request, Exchange exchange)
