# cython: language_level=3
"""Rows that are held back from an engine, in C.

`_held_ref.py` is the readable version, and says why and when a row may be forgotten. An operation is
noted where its bytes lie, in an entry or in an object of Python, and copied when it is taken in.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy

from fastnode._keys cimport address

import os

from fastnode import _held_ref as _ref
from fastnode import _keys_ref as _types

cdef enum:
    SLOTS_MIN = 64
    # States have keys as long as the name of their queue; a longer one is copied to an object.
    KEY_BYTES_NEAR = 512

cdef bytes _DATA = _types.FAMILY_DATA
cdef bytes _GROUP = _types.FAMILY_GROUP
cdef bytes _READY = _types.FAMILY_READY
cdef bytes _STATE = _types.FAMILY_STATE
cdef bytes _TIMER = _types.FAMILY_TIMER
cdef Py_ssize_t _ROW_BYTES = _ref.ROW_BYTES
cdef Py_ssize_t _TAKING_AWAY = _ref.TAKING_AWAY
# Clients choose parts of keys, but not where they end up.
cdef uint64_t _SEED = int.from_bytes(os.urandom(8), "big")


@cython.auto_pickle(False)
cdef class HeldBatch:
    def __cinit__(self):
        self.owners = []
        self.ranges = []

    def __dealloc__(self):
        free(self.operations)

    @property
    def has_ranges(self):
        return len(self.ranges) > 0

    @property
    def rows(self):
        return [
            (key_in(&self.operations[index]), value_in(&self.operations[index]))
            for index in range(self.count)
        ]

    @property
    def takes_away(self):
        return _TAKING_AWAY * self.deletions > self.count

    def put(self, bytes key not None, bytes value not None):
        self.owners.append(key)
        self.owners.append(value)
        self.note(address(key), PyBytes_GET_SIZE(key), address(value), PyBytes_GET_SIZE(value))

    def delete(self, bytes key not None):
        self.owners.append(key)
        self.note(address(key), PyBytes_GET_SIZE(key), NULL, 0)

    def delete_range(self, bytes begin not None, bytes end not None):
        self.ranges.append((self.count, begin, end))

    def write_to(self, batch):
        cdef Py_ssize_t done = 0, count
        for count, begin, end in self.ranges:
            self.write_part(batch, done, count)
            batch.delete_range(begin, end)
            done = count
        self.write_part(batch, done, self.count)

    cdef int note(
        self,
        const uint8_t* key,
        Py_ssize_t key_size,
        const uint8_t* value,
        Py_ssize_t value_size,
    ) except -1:
        """The bytes stay where they are as long as `owners` holds what they lie in."""
        cdef Operation* moved
        if self.count == self.capacity:
            moved = <Operation*>realloc(
                self.operations, max(2 * self.capacity, 64) * sizeof(Operation)
            )
            if moved == NULL:
                raise MemoryError()
            self.operations = moved
            self.capacity = max(2 * self.capacity, 64)
        cdef Operation* operation = &self.operations[self.count]
        operation.key, operation.key_size = key, <uint32_t>key_size
        operation.value, operation.value_size = value, <uint32_t>value_size
        self.count += 1
        self.deletions += value == NULL
        return 0

    cdef int write_part(self, batch, Py_ssize_t start, Py_ssize_t end) except -1:
        cdef Py_ssize_t index
        cdef Operation* operation
        put, delete = batch.put, batch.delete
        for index in range(start, end):
            operation = &self.operations[index]
            if operation.value != NULL:
                put(key_in(operation), value_in(operation))
            else:
                delete(key_in(operation))
        return 0


cdef inline bytes key_in(const Operation* operation):
    return PyBytes_FromStringAndSize(<const char*>operation.key, operation.key_size)


cdef inline object value_in(const Operation* operation):
    if operation.value == NULL:
        return None
    return PyBytes_FromStringAndSize(<const char*>operation.value, operation.value_size)


@cython.auto_pickle(False)
cdef class Held:
    def __dealloc__(self):
        cdef Py_ssize_t at
        for at in range(self.slot_count):
            free(self.slots[at].row)
        free(self.slots)

    def __len__(self):
        return self.count

    @property
    def size(self):
        return self.bytes_held

    @property
    def taken(self):
        return self.operations_taken

    def get(self, bytes key not None, default):
        cdef const uint8_t* at = address(key)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
        if self.count == 0:
            return default
        cdef Slot* slot = self.find(at, size, hash_of(at, size))
        return default if slot.row == NULL else value_of(slot.row)

    def rows_in(self, bytes start not None, bytes end not None):
        cdef Py_ssize_t at
        cdef Row* row
        cdef list rows = []
        for at in range(self.slot_count):
            row = self.slots[at].row
            if row != NULL and order(row, start) >= 0 and order(row, end) < 0:
                rows.append((key_of(row), value_of(row)))
        rows.sort()
        return rows

    def take(self, HeldBatch batch not None):
        cdef Py_ssize_t index
        assert not batch.ranges
        self.operations_taken += batch.count
        for index in range(batch.count):
            # Half full at most: runs stay short, and an empty slot ends each.
            if 2 * self.count >= self.slot_count:
                self.grow()
            if batch.operations[index].value != NULL:
                self.put(&batch.operations[index])
            else:
                self.delete(&batch.operations[index])

    def write_to(self, batch):
        cdef Py_ssize_t at, count = 0
        cdef Row* row
        cdef Row** rows = <Row**>malloc(max(self.count, 1) * sizeof(Row*))
        if rows == NULL:
            raise MemoryError()
        put, delete = batch.put, batch.delete
        for at in range(self.slot_count):
            if self.slots[at].row != NULL:
                rows[count] = self.slots[at].row
                count += 1
        qsort(rows, count, sizeof(Row*), &order_of_rows)
        try:
            for at in range(count):
                row = rows[at]
                if row.is_deleted:
                    delete(key_of(row))
                else:
                    put(key_of(row), value_of(row))
        finally:
            free(rows)

    cdef int put(self, const Operation* operation) except -1:
        cdef uint64_t hashed = hash_of(operation.key, operation.key_size)
        cdef Slot* slot = self.find(operation.key, operation.key_size, hashed)
        cdef Row* row = slot.row
        if row == NULL:
            row = self.add(slot, hashed, operation)
            row.is_new = self.is_new(operation)
        else:
            self.bytes_held -= bytes_of(row)
            if row.room < operation.value_size:
                row = with_room(row, operation.key_size, operation.value_size)
                slot.row = row
        memcpy(content(row) + row.key_size, operation.value, operation.value_size)
        row.value_size = operation.value_size
        row.is_deleted = False
        self.bytes_held += bytes_of(row)
        return 0

    cdef int delete(self, const Operation* operation) except -1:
        cdef uint64_t hashed = hash_of(operation.key, operation.key_size)
        cdef Slot* slot = self.find(operation.key, operation.key_size, hashed)
        cdef Row* row = slot.row
        if row == NULL:
            row = self.add(slot, hashed, operation)
        else:
            self.bytes_held -= bytes_of(row)
            if row.is_new:
                self.remove(slot)
                return 0
            # Its value may have been large.
            row = with_room(row, operation.key_size, 0)
            slot.row = row
        row.value_size = 0
        row.is_deleted = True
        self.bytes_held += bytes_of(row)
        return 0

    cdef Row* add(self, Slot* slot, uint64_t hashed, const Operation* operation) except NULL:
        """A row that says nothing yet."""
        cdef Row* row = with_room(NULL, operation.key_size, operation.value_size)
        row.key_size = operation.key_size
        row.is_new = False
        memcpy(content(row), operation.key, operation.key_size)
        slot.hashed = hashed
        slot.row = row
        self.count += 1
        return row

    cdef bint is_new(self, const Operation* operation) except -1:
        cdef uint8_t[KEY_BYTES_NEAR] near
        cdef uint8_t* record = near
        cdef Py_ssize_t start, family = PyBytes_GET_SIZE(_DATA), size
        cdef bytes far
        cdef Slot* slot
        if not begins_with(operation, _STATE):
            return (
                begins_with(operation, _DATA)
                or begins_with(operation, _TIMER)
                or begins_with(operation, _GROUP)
                or begins_with(operation, _READY)
            )
        start = PyBytes_GET_SIZE(_STATE)
        size = family + operation.key_size - start
        if size > KEY_BYTES_NEAR:
            far = PyBytes_FromStringAndSize(NULL, size)
            record = address(far)
        memcpy(record, address(_DATA), family)
        memcpy(record + family, operation.key + start, operation.key_size - start)
        slot = self.find(record, size, hash_of(record, size))
        return slot.row != NULL and slot.row.is_new

    cdef int grow(self) except -1:
        cdef Slot* before = self.slots
        cdef Py_ssize_t at, count = self.slot_count
        cdef Slot* slots = <Slot*>calloc(max(4 * count, SLOTS_MIN), sizeof(Slot))
        if slots == NULL:
            raise MemoryError()
        self.slots, self.slot_count = slots, max(4 * count, SLOTS_MIN)
        for at in range(count):
            if before[at].row != NULL:
                self.free_slot(before[at].hashed)[0] = before[at]
        free(before)
        return 0

    cdef Slot* find(self, const uint8_t* key, Py_ssize_t size, uint64_t hashed) noexcept:
        """Where the row is, or where it would be."""
        cdef Py_ssize_t mask = self.slot_count - 1, at = <Py_ssize_t>(hashed & <uint64_t>mask)
        cdef Slot* slot = &self.slots[at]
        while slot.row != NULL:
            if (
                slot.hashed == hashed
                and slot.row.key_size == size
                and memcmp(content(slot.row), key, size) == 0
            ):
                return slot
            at = (at + 1) & mask
            slot = &self.slots[at]
        return slot

    cdef Slot* free_slot(self, uint64_t hashed) noexcept:
        cdef Py_ssize_t mask = self.slot_count - 1, at = <Py_ssize_t>(hashed & <uint64_t>mask)
        while self.slots[at].row != NULL:
            at = (at + 1) & mask
        return &self.slots[at]

    cdef void remove(self, Slot* slot) noexcept:
        """Later members of the run move into the hole, so searches never meet a gravestone."""
        cdef Py_ssize_t mask = self.slot_count - 1, hole = slot - self.slots
        cdef Py_ssize_t at = hole, home
        free(slot.row)
        self.count -= 1
        while True:
            at = (at + 1) & mask
            if self.slots[at].row == NULL:
                break
            home = <Py_ssize_t>(self.slots[at].hashed & <uint64_t>mask)
            if ((at - home) & mask) >= ((at - hole) & mask):
                self.slots[hole] = self.slots[at]
                hole = at
        self.slots[hole].row = NULL


cdef inline uint8_t* content(Row* row) noexcept nogil:
    return <uint8_t*>(row + 1)


cdef Row* with_room(Row* row, uint32_t key_size, uint32_t room) except NULL:
    cdef Row* moved = <Row*>realloc(row, sizeof(Row) + <size_t>key_size + room)
    if moved == NULL:
        raise MemoryError()
    moved.room = room
    return moved


cdef inline Py_ssize_t bytes_of(const Row* row) noexcept nogil:
    return _ROW_BYTES + <Py_ssize_t>row.key_size + <Py_ssize_t>row.value_size


cdef inline bytes key_of(Row* row):
    return PyBytes_FromStringAndSize(<const char*>content(row), row.key_size)


cdef inline object value_of(Row* row):
    if row.is_deleted:
        return None
    return PyBytes_FromStringAndSize(<const char*>content(row) + row.key_size, row.value_size)


cdef inline int order(Row* row, bytes key) noexcept:
    return compare(content(row), row.key_size, address(key), PyBytes_GET_SIZE(key))


cdef int order_of_rows(const void* one, const void* other) noexcept nogil:
    cdef Row* left = (<Row**>one)[0]
    cdef Row* right = (<Row**>other)[0]
    return compare(content(left), left.key_size, content(right), right.key_size)


cdef inline int compare(
    const uint8_t* one, Py_ssize_t one_size, const uint8_t* other, Py_ssize_t other_size
) noexcept nogil:
    cdef int differs = memcmp(one, other, min(one_size, other_size))
    if differs != 0:
        return differs
    return (one_size > other_size) - (one_size < other_size)


cdef inline bint begins_with(const Operation* operation, bytes family) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(family)
    return operation.key_size >= size and memcmp(operation.key, address(family), size) == 0


cdef inline uint64_t hash_of(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    cdef uint64_t hashed = _SEED ^ <uint64_t>size, word
    while size >= 8:
        memcpy(&word, at, 8)
        hashed = (hashed ^ word) * <uint64_t>0x9FB21C651E98DF25
        hashed ^= hashed >> 32
        at += 8
        size -= 8
    word = 0
    memcpy(&word, at, size)
    hashed = (hashed ^ word) * <uint64_t>0x9FB21C651E98DF25
    return hashed ^ (hashed >> 32)
