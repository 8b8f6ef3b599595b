# What deliveries share with other C code: messages by their positions, and what handles say; parts of
# tuples; the letters of JSON strings.

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_Check
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from fastnode._core cimport store_hexadecimal
from fastnode._keys cimport address, load_u16, load_u64, store, store_u16, store_u64

cdef extern from "Python.h":
    ctypedef object (*newfunc)(type, tuple, PyObject*)
    ctypedef struct PyTypeObject:
        newfunc tp_new
    PyTypeObject PyTuple_Type

# Both take a position as its bytes, in one call. The second has one parameter more since 3.13.
cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030D0000
    #define FASTNODE_LONG_BYTES(number, at, size) \\
        _PyLong_AsByteArray((PyLongObject*)(number), (at), (size), 0, 0, 1)
    #else
    #define FASTNODE_LONG_BYTES(number, at, size) \\
        _PyLong_AsByteArray((PyLongObject*)(number), (at), (size), 0, 0)
    #endif
    #define FASTNODE_LONG(at, size) _PyLong_FromByteArray((at), (size), 0, 0)
    """
    object FASTNODE_LONG(const uint8_t* at, size_t size)
    int FASTNODE_LONG_BYTES(object number, uint8_t* at, size_t size) except -1

cdef enum:
    PLACE_BYTES = 10

# What ends a key: commit timestamp and entry.
cdef struct Place:
    uint64_t commit_ts
    uint16_t entry

# What a handle says.
cdef struct Named:
    Place place
    uint64_t nonce

cdef bint read_named(
    const uint8_t* secret, int64_t partition, uint64_t generation, object handle, Named* named_by
) except -1


cdef inline object position_at(const uint8_t* at):
    """As the end of a key has it."""
    return FASTNODE_LONG(at, PLACE_BYTES)


cdef inline object position_of(const Place* place):
    cdef uint8_t[PLACE_BYTES] stored
    store_u16(store_u64(stored, place.commit_ts), place.entry)
    return position_at(stored)


cdef inline int read_place(object position, Place* place) except -1:
    cdef uint8_t[PLACE_BYTES] stored
    if not PyLong_Check(position):
        raise TypeError("a position is an int")
    FASTNODE_LONG_BYTES(position, stored, PLACE_BYTES)
    place.commit_ts, place.entry = load_u64(stored), load_u16(stored + 8)
    return 0


cdef inline bytes key_of(bytes prefix, const Place* place):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(prefix)
    cdef bytes key = PyBytes_FromStringAndSize(NULL, size + PLACE_BYTES)
    store_u16(store_u64(store(address(key), address(prefix), size), place.commit_ts), place.entry)
    return key


cdef inline object named(type cls, tuple fields):
    """An instance of a named tuple without a call of its constructor, which is Python code."""
    return PyTuple_Type.tp_new(cls, (fields,), NULL)


cdef inline object part(object row, Py_ssize_t index):
    """Of a named tuple too, which Cython would iterate over."""
    if not PyTuple_Check(row) or index >= PyTuple_GET_SIZE(row):
        raise TypeError("too few parts")
    return <object>PyTuple_GET_ITEM(row, index)


cdef inline bytes bytes_at(object row, Py_ssize_t index):
    cdef object found = part(row, index)
    if type(found) is not bytes:
        raise TypeError("keys and values are bytes")
    return <bytes>found


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
