# cython: language_level=3
"""A committed entry, read once and in place: no object is made of a transaction or a write unless
somebody asks for it.

`_entry_ref.py` is the readable version. Every refusal happens when an entry is made: whoever walks
over it later relies on that, through pointers into bytes which the entry keeps alive. Who lands is
decided in `_occ.pyx`, what is then written in `_landed.pyx`.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from fastnode._core cimport ID_BYTES, TRANSACTION_HEAD_BYTES, check_write
from fastnode._keys cimport Cursor, address, finish, load_u16, load_u32, load_u64, take

from fastnode import _core_ref as _core_types

cdef object _Transaction = _core_types.Transaction
cdef uint8_t _ENTRY_VERSION = _core_types.ENTRY_VERSION

cdef enum:
    ENTRY_HEAD_BYTES = 5
    # The least that each of them takes.
    TRANSACTION_BYTES_MIN = 4 + TRANSACTION_HEAD_BYTES
    READ_BYTES_MIN = 4
    WRITE_BYTES_MIN = 9


@cython.final
@cython.freelist(8)
@cython.auto_pickle(False)
cdef class Entry:
    def __cinit__(self, bytes source not None):
        cdef Cursor cursor
        cdef const uint8_t* head
        cdef Py_ssize_t index
        cursor.at = address(source)
        cursor.end = cursor.at + PyBytes_GET_SIZE(source)
        head = take(&cursor, ENTRY_HEAD_BYTES)
        if head[0] != _ENTRY_VERSION:
            raise ValueError("unknown version")
        self.source = source
        self.count = countable(&cursor, load_u32(head + 1), TRANSACTION_BYTES_MIN)
        self.places = <Place*>malloc(max(self.count, 1) * sizeof(Place))
        if self.places == NULL:
            raise MemoryError()
        for index in range(self.count):
            take_transaction(&cursor, &self.places[index])
            self.write_count += write_count(&self.places[index])
        finish(&cursor)

    def __dealloc__(self):
        free(self.places)

    def __len__(self):
        return self.count

    def requests(self):
        cdef Py_ssize_t index
        return [slice_of(self.places[index].head, ID_BYTES) for index in range(self.count)]

    def transactions(self):
        cdef Py_ssize_t index
        return [transaction_at(&self.places[index]) for index in range(self.count)]


# --- reading: every refusal happens here -------------------------------------------------------


cdef int take_transaction(Cursor* outer, Place* place) except -1:
    cdef Cursor cursor
    cdef Blob key
    cdef uint32_t size = load_u32(take(outer, 4))
    cdef Py_ssize_t index, count
    cursor.at = take(outer, size)
    cursor.end = cursor.at + size
    place.head = take(&cursor, TRANSACTION_HEAD_BYTES)
    count = countable(&cursor, read_count(place), READ_BYTES_MIN)
    for index in range(count):
        take_blob(&cursor, &key)
    place.writes = cursor.at
    count = countable(&cursor, write_count(place), WRITE_BYTES_MIN)
    for index in range(count):
        take_write(&cursor)
    return finish(&cursor)


cdef inline int take_write(Cursor* cursor) except -1:
    cdef long kind = take(cursor, 1)[0]
    cdef Blob key, value
    take_blob(cursor, &key)
    take_blob(cursor, &value)
    return check_write(kind, key.at, key.size, value.at, value.size)


cdef inline int take_blob(Cursor* cursor, Blob* blob) except -1:
    blob.size = load_u32(take(cursor, 4))
    blob.at = take(cursor, <uint64_t>blob.size)
    return 0


cdef inline Py_ssize_t countable(Cursor* cursor, uint32_t announced, Py_ssize_t size_min) except -1:
    """A count is believed only if that many of the smallest items fit: it cannot ask for memory."""
    if announced > <uint64_t>((cursor.end - cursor.at) // size_min):
        raise ValueError("truncated")
    return announced


# --- objects, for those who want them ----------------------------------------------------------


cdef object transaction_at(const Place* place):
    cdef const uint8_t* head = place.head
    cdef const uint8_t* at = first_read(place)
    cdef list reads = [], writes = []
    cdef Blob key
    cdef Write write
    for _ in range(read_count(place)):
        at = walk_blob(at, &key)
        reads.append(slice_of(key.at, key.size))
    for _ in range(write_count(place)):
        at = walk_write(at, &write)
        writes.append(
            (
                write.kind,
                slice_of(write.key.at, write.key.size),
                slice_of(write.value.at, write.value.size),
            )
        )
    return _Transaction(
        slice_of(head, ID_BYTES),
        load_u64(head + 16),
        load_u64(head + 24),
        head[32],
        load_u16(head + 33),
        reads,
        writes,
    )


cdef inline bytes slice_of(const uint8_t* at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char*>at, size)
