# Work that a node has taken on, as an object of C; `backlog.py` is what it does.

cdef class Backlog:
    cdef public object _looks
    cdef public long limit, room
