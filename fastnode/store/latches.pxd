# Latches as an object of C; `latches.py` is what they do.

cdef class Latches:
    cdef public long _ticks, _waiters
    cdef public set held
    cdef public dict waiting
    cpdef hold(self, keys)
