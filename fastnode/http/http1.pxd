# The parser of a connection as an object of C; `http1.py` is what it does.

cdef class RequestParser:
    cdef public bytes _buffer
    cdef public Py_ssize_t _at, _searched, _missing, _parts_bytes
    cdef public object _request, _chunked
    cdef public list _parts
    cdef public bint _is_over
    cpdef take_whole(self, bytes data)
