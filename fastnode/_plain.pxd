# Reading JSON in one pass over its bytes: what clients write all day is recognised, and whatever is
# rare is not. `_reads` does the same for receives and deletes.

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcmp

from fastnode._keys cimport address

cdef enum:
    ENTRY_ID_BYTES_MAX = 80
    SPACE = 32
    QUOTE = 34
    COMMA = 44
    COLON = 58
    OPENING_BRACKET = 91
    BACKSLASH = 92
    CLOSING_BRACKET = 93
    OPENING_BRACE = 123
    CLOSING_BRACE = 125

cdef struct Scan:
    const uint8_t* at
    const uint8_t* stop

# A string between its quotes. Simple: ASCII without escapes, so that it stands for itself.
cdef struct Text:
    const uint8_t* at
    Py_ssize_t size
    bint is_simple


cdef inline Scan scan_of(bytes body) noexcept:
    cdef Scan scan
    scan.at = address(body)
    scan.stop = scan.at + PyBytes_GET_SIZE(body)
    return scan


cdef inline void skip_space(Scan* scan) noexcept:
    while scan.at < scan.stop and scan.at[0] <= SPACE and is_space(scan.at[0]):
        scan.at += 1


cdef inline bint is_space(uint8_t letter) noexcept:
    return letter == SPACE or letter == 9 or letter == 10 or letter == 13


cdef inline bint is_at_end(Scan* scan) noexcept:
    skip_space(scan)
    return scan.at == scan.stop


cdef inline bint take(Scan* scan, uint8_t letter) noexcept:
    skip_space(scan)
    if scan.at == scan.stop or scan.at[0] != letter:
        return False
    scan.at += 1
    return True


cdef bint take_text(Scan* scan, Text* one) noexcept


cdef inline bint take_simple(Scan* scan, Text* one) noexcept:
    return take_text(scan, one) and one.is_simple


cdef inline bint is_entry_id(const Text* one) noexcept:
    cdef Py_ssize_t index
    cdef uint8_t letter
    for index in range(one.size):
        letter = one.at[index]
        if not (
            48 <= letter <= 57 or 65 <= letter <= 90 or 97 <= letter <= 122
            or letter == 45 or letter == 95
        ):
            return False
    return 0 < one.size <= ENTRY_ID_BYTES_MAX


cdef inline bint equals(const Text* one, const Text* other) noexcept:
    return one.size == other.size and memcmp(one.at, other.at, one.size) == 0


cdef inline bytes bytes_of(const Text* one):
    return PyBytes_FromStringAndSize(<const char*>one.at, one.size)
