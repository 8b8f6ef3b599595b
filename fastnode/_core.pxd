# The C surface of ids, receipts, records and transactions. Byte primitives come from `_keys.pxd`.

from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from fastnode._keys cimport address, rotate_left, store, store_u16, store_u32, store_u64


cdef enum:
    ID_BYTES = 16
    ID_TEXT_BYTES = 36
    MESSAGE_HEAD_BYTES = 52
    TRANSACTION_HEAD_BYTES = 43


cdef struct Message:
    # What a record is made of; the pointers are borrowed from whoever fills it in.
    uint8_t flags
    const uint8_t* identity
    uint64_t sent_ms
    const uint8_t* digest
    const char* sender
    Py_ssize_t sender_size
    const uint8_t* extras
    Py_ssize_t extras_size
    const uint8_t* body
    Py_ssize_t body_size


cdef int check_entry(long entry) except -1
cdef uint8_t* store_message_id(
    uint8_t* at, uint64_t commit_ts, long entry, const uint8_t* request
) noexcept nogil
cdef Py_ssize_t message_size(const Message* one) except -1
cdef uint8_t* store_message(uint8_t* at, const Message* one) noexcept nogil


cdef uint64_t siphash(const uint8_t* key, const uint8_t* message, size_t size) noexcept nogil


cdef inline void sip_round(uint64_t* state) noexcept nogil:
    state[0] += state[1]
    state[1] = rotate_left(state[1], 13) ^ state[0]
    state[0] = rotate_left(state[0], 32)
    state[2] += state[3]
    state[3] = rotate_left(state[3], 16) ^ state[2]
    state[0] += state[3]
    state[3] = rotate_left(state[3], 21) ^ state[0]
    state[2] += state[1]
    state[1] = rotate_left(state[1], 17) ^ state[2]
    state[2] = rotate_left(state[2], 32)


cdef inline void sip_word(uint64_t* state, uint64_t word) noexcept nogil:
    state[3] ^= word
    sip_round(state)
    sip_round(state)
    state[0] ^= word


cdef inline const uint8_t* sixteen(bytes value, str what) except NULL:
    if value is None or PyBytes_GET_SIZE(value) != ID_BYTES:
        raise ValueError(f"{what} has 16 bytes")
    return address(value)


cdef inline uint8_t* store_transaction_head(
    uint8_t* at, const uint8_t* request, uint64_t start_ts, uint64_t commit_ts, uint8_t retention,
    uint16_t mask, uint32_t reads, uint32_t writes
) noexcept nogil:
    at = store_u64(store_u64(store(at, request, ID_BYTES), start_ts), commit_ts)
    at[0] = retention
    return store_u32(store_u32(store_u16(at + 1, mask), reads), writes)


cdef inline uint8_t* store_field(uint8_t* at, const void* source, Py_ssize_t size) noexcept nogil:
    """A key or a value: its length, then its bytes."""
    return store(store_u32(at, <uint32_t>size), source, size)


cdef inline uint8_t* store_hexadecimal(
    uint8_t* at, const uint8_t* source, Py_ssize_t size
) noexcept nogil:
    cdef Py_ssize_t index
    for index in range(size):
        at[0] = hex_digit(source[index] >> 4)
        at[1] = hex_digit(source[index] & 15)
        at += 2
    return at


cdef inline uint8_t hex_digit(uint8_t value) noexcept nogil:
    return <uint8_t>(value + 48 if value < 10 else value + 87)


cdef inline uint8_t* store_id_text(uint8_t* at, const uint8_t* identity) noexcept nogil:
    """The five groups of a UUID."""
    at = store_hexadecimal(at, identity, 4)
    at[0] = 45
    at = store_hexadecimal(at + 1, identity + 4, 2)
    at[0] = 45
    at = store_hexadecimal(at + 1, identity + 6, 2)
    at[0] = 45
    at = store_hexadecimal(at + 1, identity + 8, 2)
    at[0] = 45
    return store_hexadecimal(at + 1, identity + 10, 6)
