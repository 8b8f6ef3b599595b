# A group as an object of C; `group.py` is what it does. Timestamps are numbers of Python.

cimport cython

from fastnode.clock cimport GroupClock
from fastnode.store.backlog cimport Backlog
from fastnode.store.judge cimport Judge
from fastnode.store.latches cimport Latches


cdef class Group:
    # Tests put things in the way of calls.
    cdef dict __dict__
    cdef object __weakref__
    cdef public int number
    cdef public Backlog backlog
    cdef public long leader
    cdef public object on_gathered, on_read_waiting, on_ready, on_lost, on_leader
    cdef public Latches latches
    cdef public Judge _judge
    cdef public bint accepts_messages, is_ready, is_sole_voter
    cdef public object reads, get, get_many, scan, scan_keys, now, boottime_ns
    cdef public object _engine, head_rows, afterwards, _position
    cdef public GroupClock _clock
    cdef public object _term, _applied_ts
    cdef public bint _leads, _was_ready, _is_disk_full
    cdef public list _gathered, _taken
    cdef public dict _submitted
    cdef public object refused
    cdef public long _freed
    cdef public object _stamped
    cdef public object _undecided, _decided, _reaching, _refused_until_ns, _leading_observers
    cdef public object flush, compact, engine_metrics, unapplied
    cpdef tuple stamp(self, bytes request)
    cpdef submit_encoded(self, bytes request, commit_ts, bytes encoded, waiting, tuple latched=*)
    cpdef _reach(self, position)
    @cython.locals(request=bytes, submitted=tuple, at=Py_ssize_t)
    cpdef _prepare(self, list requests, list outcomes)
    @cython.locals(
        request=bytes, submitted=tuple, latched=tuple, places=long, at=Py_ssize_t
    )
    cpdef _finish(self, list requests, list outcomes)
