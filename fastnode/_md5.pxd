# MD5 of several bodies at once, for other modules of C; `_md5.pyx` is what it does.

from libc.stdint cimport uint8_t

cdef enum:
    DIGEST_BYTES = 16

# Where a body lies, and where its digest goes.
cdef struct Hashed:
    const uint8_t* body
    Py_ssize_t size
    uint8_t* digest

cdef int md5_each(const Hashed* hashed, Py_ssize_t count) except -1
