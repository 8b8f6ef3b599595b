# Who waits, as objects of C; `long_poll.py` is what they do.

from fastnode.flow cimport Suspension


cdef class Waiter(Suspension):
    cdef public object _told, deadline_ms


cdef class Polls:
    cdef public dict _calls


cdef class Waiters:
    cdef public object _order
    cdef public list _by_deadline
    cdef public long _arrivals, _owed
