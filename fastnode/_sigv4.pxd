# The C surface of recognised signatures: SHA-256 from any state on, and the text that is signed.
# Proofs are Python objects.

from libc.stdint cimport uint8_t, uint32_t


cdef enum:
    TEXT_BYTES_MAX = 4096
    SCOPE_BYTES_MAX = 64
    BLOCK_BYTES = 64
    DIGEST_BYTES = 32
    DIGITS = 64  # of a digest, as text


cdef struct State:
    uint32_t[8] words


cdef struct Text:
    Py_ssize_t size
    uint8_t[TEXT_BYTES_MAX] octets


# `blocks` of `BLOCK_BYTES` each.
ctypedef void (*Compress)(State* state, const uint8_t* octets, Py_ssize_t blocks) noexcept nogil


cdef void hash_rest(
    Compress compress,
    State* state,
    Py_ssize_t before,
    const uint8_t* octets,
    Py_ssize_t size,
    uint8_t* digest,
) noexcept nogil
cdef bint append(Text* text, const uint8_t* octets, Py_ssize_t size) noexcept nogil
