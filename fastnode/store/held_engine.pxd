# An engine that holds rows back as an object of C; `held_engine.py` is what it does.

from fastnode._held cimport Held


cdef class HeldEngine:
    cdef dict __dict__
    cdef public object below, compact, is_stalled, metrics, _writing
    cdef public Held _held
    cdef public long _let_through
    cdef public bint _has_failed
    cpdef get(self, bytes key)
    cpdef list get_many(self, keys)
    cpdef list scan(self, bytes start, bytes end, Py_ssize_t limit)
    cpdef list scan_keys(self, bytes start, bytes end, Py_ssize_t limit)
    cdef list _covered_pages(self, read, bytes start, bytes end, Py_ssize_t limit)
