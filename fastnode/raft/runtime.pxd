# The shell around the driver as an object of C; `runtime.py` is what it does.

from fastnode.raft.driver cimport Driver
from fastnode.raft.meter cimport RaftMeter


cdef class Runtime:
    cdef dict __dict__
    cdef public object _loop, _groups, _boottime_ns, send, on_news, on_tick
    cdef public RaftMeter meter
    cdef public Driver _driver
    cdef public dict _dirty
    cdef public bint _is_gathering, _is_turn_near
    cdef public bint _was_calm
    cdef public long _calm_blocks, _proposed
    cdef public object _tick_due_ns, _ticker, _retry, _turned
