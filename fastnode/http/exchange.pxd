# An exchange as an object of C; `exchange.py` is what it does.

cdef class Exchange:
    cdef public object connection, _request, on_close
    cdef public tuple answer
    cdef public bint is_overdue
    cdef public Py_ssize_t held_bytes
    cdef public long long began_ns
