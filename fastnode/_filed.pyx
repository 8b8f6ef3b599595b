# cython: language_level=3
"""What is kept of group indexes, in C: positions of ten bytes each, one after the other.

`_filed_ref.py` is the readable version and owns the constants. Most changes take positions from the
front, which moves nothing, or add one at the end.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcmp, memcpy, memmove

from fastnode._deliver cimport position_at
from fastnode._keys cimport address

from fastnode import _filed_ref as _ref

cdef enum:
    POSITION_BYTES = 10

cdef Py_ssize_t _GROUP_PLACES = _ref.GROUP_PLACES

assert POSITION_BYTES == _ref.POSITION_BYTES


@cython.auto_pickle(False)
cdef class Filed:
    def __cinit__(self, Py_ssize_t places_max):
        self.kept, self.cut = {}, set()
        self.places_kept = 0
        self.places_max = places_max

    @property
    def places(self):
        return self.places_kept

    def known(self, bytes group not None, Py_ssize_t limit):
        cdef bytearray kept = self.kept.get(group)
        cdef Py_ssize_t index, count
        cdef list positions = []
        if kept is None:
            return None
        count = PyByteArray_GET_SIZE(kept) // POSITION_BYTES
        if count < limit and group in self.cut:
            return None
        for index in range(min(count, limit)):
            positions.append(position_at(place_at(kept, index)))
        return positions

    def successor(self, bytes group not None, dict changed not None):
        cdef bytearray kept = self.kept.get(group)
        cdef Py_ssize_t index
        cdef bytes position
        if kept is None:
            return None
        for index in range(PyByteArray_GET_SIZE(kept) // POSITION_BYTES):
            position = PyBytes_FromStringAndSize(<char*>place_at(kept, index), POSITION_BYTES)
            if changed.get(position, True):
                return position
        return None if group in self.cut else b""

    def load(self, bytes group not None, rows not None, *, bint is_whole):
        cdef bytearray kept = bytearray()
        self.drop(group)
        for row in rows:
            append(kept, place_of(row))
        if PyByteArray_GET_SIZE(kept):
            self.kept[group] = kept
            self.places_kept += _GROUP_PLACES + PyByteArray_GET_SIZE(kept) // POSITION_BYTES
            if not is_whole:
                self.cut.add(group)
        self.bound()

    def begin(self, bytes group not None):
        self.drop(group)
        self.kept[group] = bytearray()
        self.places_kept += _GROUP_PLACES

    def change(self, dict groups not None):
        cdef bytearray kept
        cdef Py_ssize_t before
        for group, changed in groups.items():
            kept = self.kept.get(group)
            if kept is None:
                continue
            before = PyByteArray_GET_SIZE(kept)
            change_group(kept, changed, group in self.cut)
            self.places_kept += (PyByteArray_GET_SIZE(kept) - before) // POSITION_BYTES
            if not PyByteArray_GET_SIZE(kept):
                self.drop(group)
        self.bound()

    def forget(self):
        self.forget_all()

    cdef int drop(self, bytes group) except -1:
        cdef bytearray kept = self.kept.pop(group, None)
        if kept is not None:
            self.places_kept -= _GROUP_PLACES + PyByteArray_GET_SIZE(kept) // POSITION_BYTES
            self.cut.discard(group)
        return 0

    cdef int bound(self) except -1:
        if self.places_kept > self.places_max:
            self.forget_all()
        return 0

    cdef int forget_all(self) except -1:
        self.kept.clear()
        self.cut.clear()
        self.places_kept = 0
        return 0


cdef int change_group(bytearray kept, dict changed, bint is_cut) except -1:
    """What is cut is known up to the last position that it had before."""
    cdef uint8_t[POSITION_BYTES] last
    cdef bint has_last = PyByteArray_GET_SIZE(kept) > 0
    cdef const uint8_t* place
    if has_last:
        memcpy(last, place_at(kept, PyByteArray_GET_SIZE(kept) // POSITION_BYTES - 1), POSITION_BYTES)
    for position, exists in changed.items():
        place = place_of(position)
        if not exists:
            remove(kept, place)
        elif not is_cut or (has_last and memcmp(place, last, POSITION_BYTES) < 0):
            insert(kept, place)
    return 0


cdef int remove(bytearray kept, const uint8_t* place) except -1:
    cdef Py_ssize_t at = index_of(kept, place) * POSITION_BYTES
    if at < PyByteArray_GET_SIZE(kept):
        if memcmp(<uint8_t*>PyByteArray_AS_STRING(kept) + at, place, POSITION_BYTES) == 0:
            del kept[at:at + POSITION_BYTES]
    return 0


cdef int insert(bytearray kept, const uint8_t* place) except -1:
    cdef Py_ssize_t index = index_of(kept, place), size = PyByteArray_GET_SIZE(kept)
    cdef Py_ssize_t at = index * POSITION_BYTES
    cdef uint8_t* into
    if at < size and memcmp(place_at(kept, index), place, POSITION_BYTES) == 0:
        return 0
    append(kept, place)
    if at < size:
        into = <uint8_t*>PyByteArray_AS_STRING(kept) + at
        memmove(into + POSITION_BYTES, into, size - at)
        memcpy(into, place, POSITION_BYTES)
    return 0


cdef inline int append(bytearray kept, const uint8_t* place) except -1:
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(kept)
    PyByteArray_Resize(kept, size + POSITION_BYTES)
    memcpy(PyByteArray_AS_STRING(kept) + size, place, POSITION_BYTES)
    return 0


cdef Py_ssize_t index_of(bytearray kept, const uint8_t* place) noexcept:
    """Of the first position that is not before this one: mostly the first of all, or the end."""
    cdef Py_ssize_t low = 0, high = PyByteArray_GET_SIZE(kept) // POSITION_BYTES, middle
    if high == 0 or memcmp(place_at(kept, 0), place, POSITION_BYTES) >= 0:
        return 0
    if memcmp(place_at(kept, high - 1), place, POSITION_BYTES) < 0:
        return high
    while low < high:
        middle = (low + high) // 2
        if memcmp(place_at(kept, middle), place, POSITION_BYTES) < 0:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline const uint8_t* place_at(bytearray kept, Py_ssize_t index) noexcept:
    return <uint8_t*>PyByteArray_AS_STRING(kept) + index * POSITION_BYTES


cdef const uint8_t* place_of(object key) except NULL:
    """The position that a key ends with."""
    if not PyBytes_CheckExact(key) or PyBytes_GET_SIZE(key) < POSITION_BYTES:
        raise ValueError("a key ends with a position")
    return address(<bytes>key) + PyBytes_GET_SIZE(key) - POSITION_BYTES
