# SHA-256 for other modules of C, of a whole text or from a state on; `_sha256.pyx` is what it does.

from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    BLOCK_BYTES = 64
    DIGEST_BYTES = 32

cdef struct State:
    uint32_t[8] words

# What one block, `BLOCK_BYTES` of them, leads to.
cdef void begin(State* state, const uint8_t* block) noexcept nogil
# The digest of a text of which `before` octets, whole blocks, are in `state` already.
cdef void hash_rest(
    State* state, Py_ssize_t before, const uint8_t* octets, Py_ssize_t size, uint8_t* digest
) noexcept nogil
cdef void hash_whole(const uint8_t* octets, Py_ssize_t size, uint8_t* digest) noexcept nogil
# Of an object of any size: long ones are left to hashlib.
cdef int hash_bytes(bytes octets, uint8_t* digest) except -1
