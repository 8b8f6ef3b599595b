# Nothing of deliveries is called from other C code: its functions have a Python surface only. What is
# here are the letters of JSON strings.

from libc.stdint cimport uint8_t, uint32_t

from fastnode._core cimport store_hexadecimal
from fastnode._keys cimport store


cdef inline Py_ssize_t letter_size(uint8_t letter) noexcept nogil:
    """Of a byte of UTF-8 in a JSON string."""
    if letter >= 32:
        return 2 if letter == 34 or letter == 92 else 1
    return 2 if (letter >= 8 and letter <= 13 and letter != 11) else 6


cdef inline Py_ssize_t special_letters(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    """How many have to be escaped: mostly none, and a loop without branches is told so soonest."""
    cdef Py_ssize_t index
    cdef uint32_t count = 0
    for index in range(size):
        count += (text[index] < 32) | (text[index] == 34) | (text[index] == 92)
    return count


cdef inline Py_ssize_t escaped_size(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t index, escaped = 0
    if special_letters(text, size) == 0:
        return size
    for index in range(size):
        escaped += letter_size(text[index])
    return escaped


cdef inline uint8_t* store_escaped(
    uint8_t* at, const uint8_t* text, Py_ssize_t size, Py_ssize_t into
) noexcept nogil:
    """`into` is the escaped size."""
    cdef Py_ssize_t index, begin = 0, letters
    cdef const char* short_names = "btn?fr"
    if into == size:
        return store(at, text, size)
    for index in range(size):
        letters = letter_size(text[index])
        if letters == 1:
            continue
        at = store(at, text + begin, index - begin)
        begin = index + 1
        at[0] = 92
        if letters == 2:
            at[1] = text[index] if text[index] >= 32 else <uint8_t>short_names[text[index] - 8]
        else:
            store_hexadecimal(store(at + 1, b"u00", 3), text + index, 1)
        at += letters
    return store(at, text + begin, size - begin)
