# The C surface of the request scanner: what one header line says, the scan over it, and requests
# whose headers stay where they came until somebody asks for them.

from libc.stdint cimport uint8_t, uint32_t


cdef enum:
    # Longer names are nobody's in particular: the twin reads them.
    NAME_BYTES_MAX = 64
    # A request with more headers has them as a dict from the start.
    LINES_MAX = 24
    # More than the names that need no allocation.
    KNOWN_MAX = 32


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
    const uint8_t* begin
    uint8_t[NAME_BYTES_MAX] name  # in lower case
    Py_ssize_t name_size
    const uint8_t* value
    Py_ssize_t value_size


cdef Outcome take_line(Line* line, const uint8_t** at, const uint8_t* stop) noexcept nogil


# A header in the bytes of its request; a name that is not known is there too.
cdef struct Place:
    uint32_t name
    uint32_t name_size
    uint32_t value
    uint32_t value_size


cdef class Request:
    cdef readonly bytes method, target
    cdef readonly str http_version
    cdef readonly bint keep_alive
    cdef public bytes body
    # Either the dict, or where the headers are.
    cdef dict _headers
    cdef bytes _source
    cdef int _count
    cdef uint8_t[KNOWN_MAX] _lines_of
    cdef uint8_t[LINES_MAX] _names
    cdef Place[LINES_MAX] _places

    cpdef bytes get(self, bytes name)
    cpdef bint has(self, bytes name) except -1
    cpdef bint says(self, bytes name, bytes value) except -1
    cdef const uint8_t* find(self, bytes name, Py_ssize_t* size) except? NULL
    cdef dict gathered(self)
