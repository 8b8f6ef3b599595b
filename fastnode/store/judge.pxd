# Who judges entries, as an object of C; `judge.py` is what it does.

cdef class Judge:
    cdef public object _engine, _guess, resolver
    cdef public long _flying
    cdef public bytes _last
    cpdef proposed(self, bytes entry)
    cpdef look_ahead(self, head_rows)
