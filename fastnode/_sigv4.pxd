# The C surface of recognised signatures: the text that is signed. Proofs are Python objects.

from libc.stdint cimport uint8_t


cdef enum:
    TEXT_BYTES_MAX = 4096
    SCOPE_BYTES_MAX = 64
    DIGITS = 64  # of a digest, as text


cdef struct Text:
    Py_ssize_t size
    uint8_t[TEXT_BYTES_MAX] octets


cdef bint append(Text* text, const uint8_t* octets, Py_ssize_t size) noexcept nogil
