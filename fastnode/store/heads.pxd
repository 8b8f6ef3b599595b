# Heads of message groups as objects and functions of C; `heads.py` is what they do.

cdef class HeadRows:
    cdef public object _changes, _engine, _filed, sums
    cdef public dict _rows, _planned
    cpdef list read(self, list head_keys)
    cpdef get(self, bytes head_key)
    cpdef list positions(self, bytes head_key, first, Py_ssize_t limit)
    cpdef successor(self, bytes head_key, dict changed, bytes head)


cdef class _Scope:
    cdef public bytes _heads, _ready, states
    cpdef enter(self, bytes head_key)
    cpdef replace(self, batch, bytes head_key, bytes old, bytes new)


cpdef bint _stays(dict states, dict changed, bytes head) except -1
cpdef bytes _head(
    engine, dict states, dict changed, bytes head_key, bytes old, HeadRows rows, _Scope scope
)
