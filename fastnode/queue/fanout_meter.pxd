# Sums over all looks as an object of C; `fanout_meter.py` is what it does.

cdef class FanoutMeter:
    cdef public object _partitions, _rows, _nanoseconds, _nanoseconds_max
    cdef public list _lasting
    cpdef add(self, partitions, rows, nanoseconds)
