# Counters and marks that are kept, as an object of C; `sums.py` is what it does.

cdef class SumRows:
    cdef public dict rows, _planned
    cpdef read(self, engine, bytes key)
