# Timers as an object of C; `timers.py` is what it does. Times are numbers of Python.

cdef class Timers:
    cdef public list _heap, _due_heap
    cdef public dict scheduled, _due
    cdef public Py_ssize_t _heaped, _due_received
    cdef public object _horizon, through
    cpdef bint is_below(self, Py_ssize_t count) except -1
    cpdef bint is_quiet(self, now) except -1
    cpdef hide(self, tuple positions, visible_at, bint was_received)
    cpdef forget(self, positions)
