# A histogram as an object of C; `meter.py` is what it does. Sums are numbers of Python.

cdef class Histogram:
    cdef public int _shift
    cdef public list counts
    cdef public object total
    cpdef add(self, value)
