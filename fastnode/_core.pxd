# The C surface of ids, receipts, records and transactions. Byte primitives come from `_keys.pxd`.

from libc.stdint cimport uint8_t, uint64_t

from fastnode._keys cimport rotate_left


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
