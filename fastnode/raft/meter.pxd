# What the metrics tell of the log as an object of C; `meter.py` is what it does.

from fastnode.meter cimport Histogram


cdef class RaftMeter:
    cdef public Histogram _sizes
    cdef public dict _stages
    cdef public object _gathering_ns, _proposed_ns
    cdef public dict _leaders
    cdef public long _leader_changes, _campaigns
    cpdef gathered(self, now_ns)
    cpdef proposed(self, transactions, now_ns)
    cpdef committed(self, now_ns)
    cpdef applied(self, began_ns, now_ns)
