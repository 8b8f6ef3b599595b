# One log entry as it lies in its bytes: where its transactions are, and a walk over their writes.

cimport cython
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp

from fastnode._core cimport TRANSACTION_HEAD_BYTES
from fastnode._keys cimport load_u32


cdef struct Place:
    # Pointers into the entry's bytes. The reads follow the head, the writes follow the reads.
    const uint8_t* head
    const uint8_t* writes


cdef struct Blob:
    const uint8_t* at
    Py_ssize_t size


cdef struct Write:
    long kind
    Blob key
    Blob value


@cython.final
cdef class Entry:
    cdef bytes source
    cdef Place* places
    cdef Py_ssize_t count
    # Of all its transactions.
    cdef Py_ssize_t write_count


cdef inline bint is_equal(const Blob* one, const Blob* other) noexcept nogil:
    return one.size == other.size and memcmp(one.at, other.at, one.size) == 0


# The entry was checked when it was made, so a walk over its counts stays inside.


cdef inline uint32_t read_count(const Place* place) noexcept nogil:
    return load_u32(place.head + 35)


cdef inline uint32_t write_count(const Place* place) noexcept nogil:
    return load_u32(place.head + 39)


cdef inline const uint8_t* first_read(const Place* place) noexcept nogil:
    return place.head + TRANSACTION_HEAD_BYTES


cdef inline const uint8_t* walk_blob(const uint8_t* at, Blob* blob) noexcept nogil:
    """What comes behind it."""
    blob.size = load_u32(at)
    blob.at = at + 4
    return blob.at + blob.size


cdef inline const uint8_t* walk_write(const uint8_t* at, Write* write) noexcept nogil:
    write.kind = at[0]
    return walk_blob(walk_blob(at + 1, &write.key), &write.value)
