# Messages that wait, as an object of C; `waiting.py` is what it does.

from fastnode.queue.choice cimport PlainChoice
from fastnode.queue.read_ahead cimport ReadAhead


cdef class Waiting:
    cdef public object _buffer, _next
    cdef public Py_ssize_t _buffered_bytes, page_rows
    cdef public list _claims
    cdef public bint _reaches_end
    cdef public ReadAhead _read_ahead
    cdef public set _withdrawn
    cpdef append(self, position, bytes record)
    cpdef extend(self, position, records)
    cpdef bint is_short_of(self, Py_ssize_t wanted) except -1
    cpdef PlainChoice take_plain(
        self, Py_ssize_t limit, expired_ms, bytes state_prefix, set held
    )
    cpdef claim(self, position, filed=*)
    cpdef settle(self, position)
