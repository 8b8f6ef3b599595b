# The C surface of the request scanner: what one header line says, and the scan over it. Requests
# are Python objects and not here.

from libc.stdint cimport uint8_t


cdef enum:
    # Longer names are nobody's in particular: the twin reads them.
    NAME_BYTES_MAX = 64


cdef enum Outcome:
    LINE = 0  # one header line was read
    HEAD_END = 1  # the empty line was read
    NOT_PLAIN = 2  # cut off, malformed or rare: the twin decides


cdef enum Kind:
    ORDINARY = 0
    HOST = 1
    CONTENT_LENGTH = 2
    CONNECTION = 3
    RARE = 4  # changes what the request means in a way that only the twin knows


cdef struct Line:
    uint8_t[NAME_BYTES_MAX] name  # in lower case
    Py_ssize_t name_size
    const uint8_t* value
    Py_ssize_t value_size


cdef Outcome take_line(Line* line, const uint8_t** at, const uint8_t* stop) noexcept nogil
