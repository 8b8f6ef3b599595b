# Who waits, as an object of C; `long_poll.py` is what it does.

cdef class Waiters:
    cdef public object _order
    cdef public list _by_deadline
    cdef public long _arrivals, _owed
