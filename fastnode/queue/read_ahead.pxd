# The bound of what is kept, as an object of C; `read_ahead.py` is what it does.

cdef class ReadAhead:
    cdef public object _keepers
    cdef public long long _room
    cpdef add(self, long long size, adding)
