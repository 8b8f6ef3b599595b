# The C surface of the key encoding, and the byte primitives that `_core` shares: big-endian numbers
# and a cursor that never reads past its end. Record layouts are not here.

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil


cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end


cdef inline uint8_t* address(bytes source) noexcept:
    """Written through only if just made from NULL: CPython shares one-byte objects with content."""
    return <uint8_t*>PyBytes_AS_STRING(source)


cdef inline uint8_t* store(uint8_t* at, const void* source, Py_ssize_t size) noexcept nogil:
    memcpy(at, source, size)
    return at + size


# Compilers merge these shifts into one byte-swapped store or load, so they cost no more than a cast
# would, and they are right on every machine and at every alignment.
cdef inline uint8_t* store_u16(uint8_t* at, uint16_t value) noexcept nogil:
    at[0] = <uint8_t>(value >> 8)
    at[1] = <uint8_t>value
    return at + 2


cdef inline uint8_t* store_u32(uint8_t* at, uint32_t value) noexcept nogil:
    at[0] = <uint8_t>(value >> 24)
    at[1] = <uint8_t>(value >> 16)
    at[2] = <uint8_t>(value >> 8)
    at[3] = <uint8_t>value
    return at + 4


cdef inline uint8_t* store_u64(uint8_t* at, uint64_t value) noexcept nogil:
    at[0] = <uint8_t>(value >> 56)
    at[1] = <uint8_t>(value >> 48)
    at[2] = <uint8_t>(value >> 40)
    at[3] = <uint8_t>(value >> 32)
    at[4] = <uint8_t>(value >> 24)
    at[5] = <uint8_t>(value >> 16)
    at[6] = <uint8_t>(value >> 8)
    at[7] = <uint8_t>value
    return at + 8


cdef inline uint16_t load_u16(const uint8_t* at) noexcept nogil:
    return <uint16_t>((<uint32_t>at[0] << 8) | at[1])


cdef inline uint32_t load_u32(const uint8_t* at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline uint64_t load_u64(const uint8_t* at) noexcept nogil:
    return (<uint64_t>load_u32(at) << 32) | load_u32(at + 4)


cdef inline uint64_t load_u64_little(const uint8_t* at) noexcept nogil:
    return (
        <uint64_t>at[0] | (<uint64_t>at[1] << 8) | (<uint64_t>at[2] << 16) | (<uint64_t>at[3] << 24)
        | (<uint64_t>at[4] << 32) | (<uint64_t>at[5] << 40) | (<uint64_t>at[6] << 48)
        | (<uint64_t>at[7] << 56)
    )


cdef inline uint64_t rotate_left(uint64_t word, int bits) noexcept nogil:
    return (word << bits) | (word >> (64 - bits))


cdef inline const uint8_t* take(Cursor* cursor, uint64_t size) except NULL:
    """The next `size` bytes, or ValueError when fewer are left; `size` may be any number at all."""
    cdef const uint8_t* start = cursor.at
    if <uint64_t>(cursor.end - start) < size:
        raise ValueError("truncated")
    cursor.at = start + size
    return start


cdef inline int finish(Cursor* cursor) except -1:
    if cursor.at != cursor.end:
        raise ValueError("more bytes than the format has")
    return 0


cdef uint64_t xxh3(const uint8_t* at, size_t length, uint64_t seed) noexcept nogil
