# The C surface of the Query kernel: a pair of a form and how it loses its escapes, a buffer that
# grows, and which octets XML does not take as they are. Plans and Structs are Python objects.

from libc.stdint cimport int64_t, uint8_t


cdef enum Care:
    PLAIN = 0
    ESCAPED = 1  # has a name in XML
    RARE = 2  # cannot be in XML, or looks like the beginning of what cannot: the twin decides


cdef enum:
    NO_INDEX = -1
    TOO_LARGE = -2


cdef struct Pair:
    const uint8_t* name
    Py_ssize_t name_size
    const uint8_t* value
    Py_ssize_t value_size


cdef struct Buffer:
    uint8_t* octets
    Py_ssize_t size
    Py_ssize_t capacity


cdef const uint8_t* take_pair(Pair* pair, const uint8_t* at, const uint8_t* stop) noexcept nogil
cdef Py_ssize_t unescape(uint8_t* target, const uint8_t* raw, Py_ssize_t size) noexcept nogil
cdef int64_t index_of(const uint8_t* text, Py_ssize_t size) noexcept nogil
cdef bint needs_care(const uint8_t* octets, Py_ssize_t size) noexcept nogil
