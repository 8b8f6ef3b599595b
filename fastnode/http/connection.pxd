# A connection as an object of C; `connection.py` is what it does.

from fastnode.http.exchange cimport Exchange
from fastnode.http.http1 cimport RequestParser


cdef class Connection:
    cdef object __weakref__
    cdef public object _holding, _host, _transport, _peer, _pending, _stage
    cdef public RequestParser _parser
    cdef public Exchange _alone
    cdef public double deadline, _owed_until
    cdef public bint has_ended, _is_corked, _is_full, _is_over, _is_reading, _is_write_paused
    cdef public bint _owes_continue
    cdef public Py_ssize_t _written_bytes
    cpdef bint write_alone(self, Exchange exchange, bytes response) except -1
