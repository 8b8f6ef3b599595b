# The C surface of ids, receipts, records and transactions. Byte primitives come from `_keys.pxd`.

from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp

from fastnode._keys cimport (
    address,
    load_u32,
    load_u64_little,
    rotate_left,
    store,
    store_u16,
    store_u32,
    store_u64,
)


cdef enum:
    ID_BYTES = 16
    ID_TEXT_BYTES = 36
    TAGGED_BYTES = 32
    RECEIPT_BYTES_MAX = 45
    RECEIPT_CHARS_MAX = 60
    MESSAGE_HEAD_BYTES = 52
    TRANSACTION_HEAD_BYTES = 43
    # Kinds of writes; `_core.pyx` holds them to what the twin says.
    KIND_PUT = 1
    KIND_DELETE = 2
    KIND_DROP = 3
    KIND_ADD = 4
    KIND_MAX = 5
    KIND_FRESH_PUT = 6
    KIND_FRESH_DELETE = 7
    KIND_TOUCH = 8


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


cdef str receipt_text(
    const uint8_t* secret, uint64_t generation, const uint8_t* identity, uint64_t nonce,
    int64_t partition
)
cdef Py_ssize_t receipt_size(int64_t partition) except -1
cdef uint8_t* store_receipt(
    uint8_t* letters, const uint8_t* secret, uint64_t generation, const uint8_t* identity,
    uint64_t nonce, int64_t partition
) noexcept nogil
cdef const uint8_t* read_receipt(
    const uint8_t* letters, Py_ssize_t size, uint8_t* raw, int64_t* partition
) noexcept nogil
cdef object receipt_at(const uint8_t* at, int64_t partition)


cdef inline int check_write(
    long kind, const uint8_t* key, Py_ssize_t key_size, const uint8_t* value, Py_ssize_t value_size
) except -1:
    if kind < KIND_PUT or kind > KIND_TOUCH:
        raise ValueError("unknown kind of write")
    if value_size != 0 and (
        kind == KIND_DELETE or kind == KIND_FRESH_DELETE or kind == KIND_TOUCH
    ):
        raise ValueError("a delete or a touch has no value")
    if kind == KIND_DROP and is_above(key, key_size, value, value_size):
        raise ValueError("a dropped range ends before it starts")
    if kind == KIND_ADD and value_size != 8:
        raise ValueError("a delta has 8 bytes")
    return 0


cdef inline bint is_above(
    const uint8_t* left, Py_ssize_t left_size, const uint8_t* right, Py_ssize_t right_size
) noexcept nogil:
    cdef int order = memcmp(left, right, min(left_size, right_size))
    return order > 0 or (order == 0 and left_size > right_size)


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


cdef inline uint64_t siphash(const uint8_t* key, const uint8_t* message, size_t size) noexcept nogil:
    cdef uint64_t[4] state
    cdef uint64_t k0 = load_u64_little(key), k1 = load_u64_little(key + 8), word
    cdef size_t index, words = size >> 3
    state[0] = k0 ^ <uint64_t>0x736F6D6570736575
    state[1] = k1 ^ <uint64_t>0x646F72616E646F6D
    state[2] = k0 ^ <uint64_t>0x6C7967656E657261
    state[3] = k1 ^ <uint64_t>0x7465646279746573
    for index in range(words):
        sip_word(state, load_u64_little(message + 8 * index))
    word = <uint64_t>(size & 0xFF) << 56
    for index in range(size & 7):
        word |= <uint64_t>message[8 * words + index] << (8 * index)
    sip_word(state, word)
    state[2] ^= 0xFF
    for index in range(4):
        sip_round(state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


cdef inline uint64_t tag_of(
    const uint8_t* secret, uint64_t generation, const uint8_t* identity, uint64_t nonce
) noexcept nogil:
    cdef uint8_t[TAGGED_BYTES] tagged
    store_u64(store(store_u64(tagged, generation), identity, ID_BYTES), nonce)
    return siphash(secret, tagged, TAGGED_BYTES)


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
    cdef Py_ssize_t index = 0
    while index + 4 <= size:
        at = store_u64(at, hex_digits(load_u32(source + index)))
        index += 4
    while index < size:
        at[0] = hex_digit(source[index] >> 4)
        at[1] = hex_digit(source[index] & 15)
        at += 2
        index += 1
    return at


cdef inline uint64_t hex_digits(uint64_t number) noexcept nogil:
    """Eight digits at once, one to a byte."""
    number = (number | (number << 16)) & <uint64_t>0x0000FFFF0000FFFF
    number = (number | (number << 8)) & <uint64_t>0x00FF00FF00FF00FF
    number = (number | (number << 4)) & <uint64_t>0x0F0F0F0F0F0F0F0F
    cdef uint64_t letters = (number + <uint64_t>0x0606060606060606) >> 4
    letters &= <uint64_t>0x0101010101010101
    return number + <uint64_t>0x3030303030303030 + 39 * letters


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


cdef inline uint8_t* store_base64(
    uint8_t* at, const uint8_t* raw, Py_ssize_t size, const uint8_t* digits
) noexcept nogil:
    """Without padding."""
    cdef uint32_t bits
    while size >= 3:
        bits = (<uint32_t>raw[0] << 16) | (<uint32_t>raw[1] << 8) | raw[2]
        at[0] = digits[bits >> 18]
        at[1] = digits[(bits >> 12) & 63]
        at[2] = digits[(bits >> 6) & 63]
        at[3] = digits[bits & 63]
        at += 4
        raw += 3
        size -= 3
    if size == 0:
        return at
    bits = (<uint32_t>raw[0] << 16) | (<uint32_t>raw[1] << 8 if size == 2 else 0)
    at[0] = digits[bits >> 18]
    at[1] = digits[(bits >> 12) & 63]
    at[2] = digits[(bits >> 6) & 63]
    return at + size + 1


cdef inline bint base64_decode(
    const uint8_t* letters, Py_ssize_t size, uint8_t* raw, const uint8_t* values
) noexcept nogil:
    """Whether every letter is a digit and no bit is set after the last whole byte."""
    cdef uint32_t bits = 0
    cdef uint8_t seen = 0, value
    cdef Py_ssize_t index
    cdef int waiting = 0
    while size >= 4:
        bits = (
            (<uint32_t>values[letters[0]] << 18) | (<uint32_t>values[letters[1]] << 12)
            | (<uint32_t>values[letters[2]] << 6) | values[letters[3]]
        )
        # What is no digit has bits that none has.
        seen |= (
            values[letters[0]] | values[letters[1]] | values[letters[2]] | values[letters[3]]
        )
        raw[0], raw[1], raw[2] = <uint8_t>(bits >> 16), <uint8_t>(bits >> 8), <uint8_t>bits
        letters += 4
        raw += 3
        size -= 4
    bits = 0
    for index in range(size):
        value = values[letters[index]]
        seen |= value
        bits = (bits << 6) | value
        waiting += 6
        if waiting >= 8:
            waiting -= 8
            raw[0] = <uint8_t>(bits >> waiting)
            raw += 1
    return seen < 64 and (bits & ((<uint32_t>1 << waiting) - 1)) == 0
