# cython: language_level=3
"""Before a transaction, in C: the text of a body, drafts, duplicates.

`_plan_ref.py` is the readable version and owns the types. The transaction itself is `_send.pyx`.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from fastnode._keys cimport store

from fastnode import _plan_ref as _ref
from fastnode._keys import dedup_key as _dedup_key

cdef object _FifoDraft = _ref.FifoDraft
cdef object _new = tuple.__new__

cdef enum:
    TOKEN_BYTES_MAX = 128
    PLAIN_EXTRAS_BYTES_MAX = 2 * (2 + TOKEN_BYTES_MAX) + 4
    BITS_SET = 4

assert BITS_SET == _ref.BITS_SET


def encode_text(str text not None):
    cdef Py_ssize_t size
    cdef const char* start
    try:
        start = PyUnicode_AsUTF8AndSize(text, &size)
    except UnicodeEncodeError:
        return None
    if not is_admitted(<const uint8_t*>start, size):
        return None
    return PyBytes_FromStringAndSize(start, size)


def plain_drafts(
    bytes dedup_prefix not None, bint is_per_group, filed not None, bodies not None
):
    cdef tuple rows = tuple(filed), texts = tuple(bodies)
    cdef Py_ssize_t entry, other, count = len(rows)
    cdef list drafts = [], keys = []
    cdef str group_id, dedup_id
    cdef bytes key, body
    if len(texts) != count:
        raise ValueError("a message has ids and a body")
    for entry in range(count):
        group_id, dedup_id = rows[entry]
        body = texts[entry]
        if group_id is None or body is None:
            raise TypeError("a message has a group and a body")
        if dedup_id is None or not is_id(group_id) or not is_id(dedup_id):
            return None
        key = _dedup_key(dedup_prefix, group_id if is_per_group else "", dedup_id)
        for other in range(entry):
            if <bytes>keys[other] == key:
                return None
        keys.append(key)
        drafts.append(_new(_FifoDraft, (entry, group_id, key, packed_ids(group_id, dedup_id), body)))
    return drafts


cdef bytes packed_ids(str group_id, str dedup_id):
    cdef uint8_t[PLAIN_EXTRAS_BYTES_MAX] extras
    extras[0] = 0x95
    cdef uint8_t* at = store_token(extras + 1, group_id)
    at[0], at[1], at[2] = 0xC0, 0x90, 0xC0
    at = store_token(at + 3, dedup_id)
    return PyBytes_FromStringAndSize(<char*>extras, at - extras)


cdef uint8_t* store_token(uint8_t* at, str token) except NULL:
    cdef Py_ssize_t size
    cdef const char* letters = PyUnicode_AsUTF8AndSize(token, &size)
    if size < 32:
        at[0] = <uint8_t>(0xA0 | size)
        return store(at + 1, letters, size)
    at[0], at[1] = 0xD9, <uint8_t>size
    return store(at + 2, letters, size)


def is_token(str text not None):
    return is_id(text)


cdef bint is_id(str text) except -1:
    cdef Py_ssize_t size, index
    cdef const uint8_t* letters
    # What is no UTF-8 is no ASCII either.
    if not text.isascii():
        return False
    letters = <const uint8_t*>PyUnicode_AsUTF8AndSize(text, &size)
    for index in range(size):
        if letters[index] < 0x21 or letters[index] > 0x7E:
            return False
    return 0 < size <= TOKEN_BYTES_MAX


cdef bint is_admitted(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    """No control character but tab, line feed and carriage return; no U+FFFE, no U+FFFF.

    Eight bytes at a time as long as none of them is below 0x20 or could begin a noncharacter.
    """
    cdef Py_ssize_t index = 0
    cdef uint64_t word
    while index < size:
        if size - index >= 8:
            memcpy(&word, at + index, 8)
            if not has_suspect(word):
                index += 8
                continue
        if is_forbidden(at + index):
            return False
        index += 1
    return True


cdef inline bint has_suspect(uint64_t word) noexcept nogil:
    """Whether a byte is below 0x20 or equal to 0xEF; the borrow may accuse an innocent neighbour."""
    cdef uint64_t ones = 0x0101010101010101
    cdef uint64_t tops = 0x8080808080808080
    cdef uint64_t differing = word ^ (ones * 0xEF)
    return (((word - ones * 0x20) & ~word) | ((differing - ones) & ~differing)) & tops != 0


cdef inline bint is_forbidden(const uint8_t* at) noexcept nogil:
    if at[0] < 0x20:
        return at[0] != 9 and at[0] != 10 and at[0] != 13
    # Valid UTF-8 never ends within a character, so two more bytes follow this one.
    return at[0] == 0xEF and at[1] == 0xBF and at[2] >= 0xBE


@cython.final
@cython.auto_pickle(False)
cdef class _Filter:
    cdef bytearray bits
    cdef uint64_t mask
    cdef uint64_t room
    cdef long long newest_ms

    def __cinit__(self, uint64_t size):
        self.bits = bytearray(size >> 3)
        self.mask = size - 1
        self.room = size // <uint64_t>_ref.BITS_PER_ID
        self.newest_ms = 0


cdef inline bint has_bits(_Filter one, uint64_t value) noexcept:
    cdef const uint8_t* bits = <uint8_t*>PyByteArray_AS_STRING(one.bits)
    cdef uint64_t at, step = value >> 32
    for _ in range(BITS_SET):
        at = value & one.mask
        if not bits[at >> 3] >> (at & 7) & 1:
            return False
        value += step
    return True


cdef inline void set_bits(_Filter one, uint64_t value) noexcept:
    cdef uint8_t* bits = <uint8_t*>PyByteArray_AS_STRING(one.bits)
    cdef uint64_t at, step = value >> 32
    for _ in range(BITS_SET):
        at = value & one.mask
        bits[at >> 3] |= <uint8_t>(1 << (at & 7))
        value += step


@cython.final
@cython.auto_pickle(False)
cdef class Recent:
    cdef object now_ms
    cdef long long complete_ms, window_ms
    cdef uint64_t bits_max
    cdef Py_ssize_t filters_max
    cdef list filters
    cdef _Filter newest

    def __cinit__(
        self,
        long long complete_ms,
        now_ms,
        long long window_ms,
        uint64_t first_bits=_ref.FIRST_BITS,
        uint64_t bits_max=_ref.BITS_MAX,
        Py_ssize_t filters_max=_ref.FILTERS_MAX,
    ):
        self.complete_ms = complete_ms
        self.now_ms = now_ms
        self.window_ms = window_ms
        self.bits_max = bits_max
        self.filters_max = filters_max
        self.newest = _Filter(first_bits)
        self.filters = [self.newest]

    @property
    def filter_count(self):
        return len(self.filters)

    def may_have(self, bytes key not None):
        cdef uint64_t value
        cdef _Filter one
        if self.complete_ms:
            if self.now_ms() < self.complete_ms:
                return True
            self.complete_ms = 0
        value = <uint64_t>hash(key)
        for one in self.filters:
            if has_bits(one, value):
                return True
        return False

    def add(self, bytes key not None, long long now_ms):
        cdef uint64_t value = <uint64_t>hash(key)
        if not self.newest.room:
            self.grow(now_ms)
        set_bits(self.newest, value)
        self.newest.room -= 1
        self.newest.newest_ms = now_ms

    cdef int grow(self, long long now_ms) except -1:
        cdef uint64_t size = min(16 * (self.newest.mask + 1), self.bits_max)
        cdef long long oldest_ms = now_ms - self.window_ms
        cdef _Filter one
        cdef list young = []
        for one in self.filters:
            if one.newest_ms > oldest_ms:
                young.append(one)
        if len(young) == self.filters_max:
            one = young.pop(0)
            self.complete_ms = one.newest_ms + self.window_ms + 1
        self.newest = _Filter(size)
        young.append(self.newest)
        self.filters = young
        return 0
