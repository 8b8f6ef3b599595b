# Counters and marks of a batch as objects of C; `sums.py` is what they do.

cdef class SumRows:
    cdef public dict rows, _planned
    cpdef read(self, engine, bytes key)


cdef class Sums:
    cdef public object _engine
    cdef public SumRows _known
    cdef public dict added, raised
    cdef public list _dropped
