# How a call waits, as objects of C; `flow.py` is what they do.

cdef class Suspension:
    cdef public bint is_done
    cdef public object _flow, _value, _error


cdef class _Flow:
    cdef public object _coroutine, _on_done
