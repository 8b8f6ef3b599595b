# cython: language_level=3
"""Rows that are held back from an engine, in C.

`_held_ref.py` is the readable version, and says why and when a row may be forgotten. An operation is
noted where its bytes lie, in an entry or in an object of Python, and copied when it is taken in.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memset

from fastnode._keys cimport address, load_u64, prefetch

import os

from fastnode import _held_ref as _ref
from fastnode import _keys_ref as _types

cdef enum:
    SLOTS_MIN = 64
    # A scan looks at rows only whose keys begin like its own. Most keys of a queue have its name
    # within the first of these, and a message group within the second.
    NEAR_WORDS = 6
    FAR_WORDS = 8
    WORD = 8
    # So few are compared whole.
    FEW = 12
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

    def __len__(self):
        return self.count

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

    @property
    def first_states(self):
        return [
            key_in(&self.operations[index])
            for index in range(self.count)
            if self.operations[index].is_first
        ]

    def put(self, bytes key not None, bytes value not None):
        self.own(key, value, False)

    def put_first_state(self, bytes key not None, bytes value not None):
        self.own(key, value, True)

    def delete(self, bytes key not None):
        self.owners.append(key)
        self.note(address(key), PyBytes_GET_SIZE(key), NULL, 0, False)

    def delete_range(self, bytes begin not None, bytes end not None):
        self.ranges.append((self.count, begin, end))

    def write_to(self, batch):
        cdef Py_ssize_t done = 0, count
        for count, begin, end in self.ranges:
            self.write_part(batch, done, count)
            batch.delete_range(begin, end)
            done = count
        self.write_part(batch, done, self.count)

    cdef int own(self, bytes key, bytes value, bint is_first) except -1:
        self.owners.append(key)
        self.owners.append(value)
        return self.note(
            address(key), PyBytes_GET_SIZE(key), address(value), PyBytes_GET_SIZE(value), is_first
        )

    cdef int note(
        self,
        const uint8_t* key,
        Py_ssize_t key_size,
        const uint8_t* value,
        Py_ssize_t value_size,
        bint is_first,
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
        operation.is_first = is_first
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
            PyMem_Free(self.slots[at].row)
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
        cdef Slot* slot = self.find(at, size, marks_of(at, size).hashed)
        return default if slot.row == NULL else value_of(slot.row)

    def rows_in(self, bytes start not None, bytes end not None):
        cdef Range wanted
        cdef Slot* slot = self.slots
        cdef list rows = []
        if self.count == 0:
            return rows
        range_of(&wanted, start, end)
        while True:
            slot = self.next_in(slot, &wanted)
            if slot == NULL:
                break
            rows.append((key_of(slot.row), value_of(slot.row)))
            slot += 1
        rows.sort()
        return rows

    def take(self, HeldBatch batch not None):
        cdef Py_ssize_t index
        assert not batch.ranges
        self.operations_taken += batch.count
        for index in range(batch.count):
            self.expect(&batch.operations[index])
        for index in range(batch.count):
            # Three quarters full at most: runs stay short, and an empty slot ends each.
            if 4 * self.count >= 3 * self.slot_count:
                self.grow()
            if batch.operations[index].value != NULL:
                self.put(&batch.operations[index])
            else:
                self.delete(&batch.operations[index])

    def write_to(self, batch):
        cdef Py_ssize_t at, count = 0
        cdef Row* row
        # The second half is for sorting.
        cdef Sorted* rows = <Sorted*>malloc(2 * max(self.count, 1) * sizeof(Sorted))
        if rows == NULL:
            raise MemoryError()
        put, delete = batch.put, batch.delete
        for at in range(self.slot_count):
            if self.slots[at].row != NULL:
                rows[count].row = self.slots[at].row
                count += 1
        sort_rows(rows, rows + count, count, 0)
        try:
            for at in range(count):
                row = rows[at].row
                if row.is_deleted:
                    delete(key_of(row))
                else:
                    put(key_of(row), value_of(row))
        finally:
            free(rows)

    cdef void expect(self, Operation* operation) noexcept:
        """Fetch its slot while those of the others are looked for: each is a cache miss."""
        cdef Slot* slot
        operation.marks = marks_of(operation.key, operation.key_size)
        if self.slot_count != 0:
            slot = &self.slots[operation.marks.hashed & <uint64_t>(self.slot_count - 1)]
            prefetch(slot)

    cdef int put(self, const Operation* operation) except -1:
        cdef Slot* slot = self.find(operation.key, operation.key_size, operation.marks.hashed)
        cdef Row* row = slot.row
        if row == NULL:
            row = self.add(slot, operation)
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
        cdef Slot* slot = self.find(operation.key, operation.key_size, operation.marks.hashed)
        cdef Row* row = slot.row
        if row == NULL:
            row = self.add(slot, operation)
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

    cdef Row* add(self, Slot* slot, const Operation* operation) except NULL:
        """A row that says nothing yet."""
        cdef Row* row = with_room(NULL, operation.key_size, operation.value_size)
        row.key_size = operation.key_size
        row.is_new = False
        memcpy(content(row), operation.key, operation.key_size)
        slot.marks = operation.marks
        slot.row = row
        self.count += 1
        return row

    cdef bint is_new(self, const Operation* operation) except -1:
        cdef uint8_t[KEY_BYTES_NEAR] near
        cdef uint8_t* record = near
        cdef Py_ssize_t start, family = PyBytes_GET_SIZE(_DATA), size
        cdef bytes far
        cdef Slot* slot
        if operation.is_first:
            return True
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
        slot = self.find(record, size, marks_of(record, size).hashed)
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
                self.free_slot(before[at].marks.hashed)[0] = before[at]
        free(before)
        return 0

    cdef Slot* find(self, const uint8_t* key, Py_ssize_t size, uint64_t hashed) noexcept:
        """Where the row is, or where it would be."""
        cdef Py_ssize_t mask = self.slot_count - 1, at = <Py_ssize_t>(hashed & <uint64_t>mask)
        cdef Slot* slot = &self.slots[at]
        while slot.row != NULL:
            if (
                slot.marks.hashed == hashed
                and slot.row.key_size == size
                and memcmp(content(slot.row), key, size) == 0
            ):
                return slot
            at = (at + 1) & mask
            slot = &self.slots[at]
        return slot

    cdef Slot* next_in(self, Slot* slot, const Range* wanted) noexcept:
        """The next one in the range, or NULL. Rows themselves are far from each other in memory, so
        only those that may be meant are looked at.
        """
        cdef Slot* end = self.slots + self.slot_count
        while slot < end:
            if wanted.common >= FAR_WORDS * WORD:
                while slot < end and slot.marks.far != wanted.marks.far:
                    slot += 1
            elif wanted.common >= NEAR_WORDS * WORD:
                while slot < end and slot.marks.near != wanted.marks.near:
                    slot += 1
            if slot < end and slot.row != NULL and is_in(slot.row, wanted):
                return slot
            slot += 1
        return NULL

    cdef Slot* free_slot(self, uint64_t hashed) noexcept:
        cdef Py_ssize_t mask = self.slot_count - 1, at = <Py_ssize_t>(hashed & <uint64_t>mask)
        while self.slots[at].row != NULL:
            at = (at + 1) & mask
        return &self.slots[at]

    cdef void remove(self, Slot* slot) noexcept:
        """Later members of the run move into the hole, so searches never meet a gravestone."""
        cdef Py_ssize_t mask = self.slot_count - 1, hole = slot - self.slots
        cdef Py_ssize_t at = hole, home
        PyMem_Free(slot.row)
        self.count -= 1
        while True:
            at = (at + 1) & mask
            if self.slots[at].row == NULL:
                break
            home = <Py_ssize_t>(self.slots[at].marks.hashed & <uint64_t>mask)
            if ((at - home) & mask) >= ((at - hole) & mask):
                self.slots[hole] = self.slots[at]
                hole = at
        self.slots[hole].row = NULL


cdef inline uint8_t* content(const Row* row) noexcept nogil:
    return <uint8_t*>(row + 1)


cdef Row* with_room(Row* row, uint32_t key_size, uint32_t room) except NULL:
    cdef Row* moved = <Row*>PyMem_Realloc(row, sizeof(Row) + <size_t>key_size + room)
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


cdef int range_of(Range* wanted, bytes start, bytes end) except -1:
    cdef Py_ssize_t at = 0
    wanted.start, wanted.start_size = address(start), PyBytes_GET_SIZE(start)
    wanted.end, wanted.end_size = address(end), PyBytes_GET_SIZE(end)
    while at < min(wanted.start_size, wanted.end_size) and wanted.start[at] == wanted.end[at]:
        at += 1
    wanted.common = at
    wanted.marks = marks_of(wanted.start, at)
    return 0


cdef inline bint is_in(const Row* row, const Range* wanted) noexcept nogil:
    cdef const uint8_t* key = content(row)
    return (
        compare(key, row.key_size, wanted.start, wanted.start_size) >= 0
        and compare(key, row.key_size, wanted.end, wanted.end_size) < 0
    )


# --- the order of keys -------------------------------------------------------------------------


cdef void sort_rows(
    Sorted* rows, Sorted* spare, Py_ssize_t count, Py_ssize_t depth
) noexcept nogil:
    """Whose keys are the same up to `depth`. Keys of one family and queue differ late, so what they
    share is passed in one go, and the word behind it orders most of them.
    """
    cdef Py_ssize_t at, begin = 0
    if count > FEW:
        depth = shared_bytes(rows, count, depth)
    if count <= FEW or depth < 0:
        qsort(rows, count, sizeof(Sorted), &order_of_keys)
        return
    for at in range(count):
        rows[at].word = word_at(rows[at].row, depth)
    sort_words(rows, spare, count)
    for at in range(1, count + 1):
        if at == count or rows[at].word != rows[begin].word:
            if at - begin > 1:
                sort_rows(rows + begin, spare, at - begin, depth + WORD)
            begin = at


cdef void sort_words(Sorted* rows, Sorted* spare, Py_ssize_t count) noexcept nogil:
    """By each byte in which words differ, from the last one on: of those that are the same in one, a
    pass keeps the order. That is two or three passes, where comparing takes a dozen.
    """
    cdef Py_ssize_t[256] places
    cdef Py_ssize_t at, place, next_place
    cdef uint64_t differing = 0
    cdef Sorted* source = rows
    cdef Sorted* target = spare
    cdef int shift
    for at in range(1, count):
        differing |= rows[at].word ^ rows[0].word
    for shift in range(0, 8 * WORD, 8):
        if (differing >> shift) & 0xFF == 0:
            continue
        memset(places, 0, sizeof(places))
        for at in range(count):
            places[(source[at].word >> shift) & 0xFF] += 1
        next_place = 0
        for at in range(256):
            place = next_place
            next_place += places[at]
            places[at] = place
        for at in range(count):
            place = (source[at].word >> shift) & 0xFF
            target[places[place]] = source[at]
            places[place] += 1
        source, target = target, source
    if source != rows:
        memcpy(rows, source, count * sizeof(Sorted))


cdef Py_ssize_t shared_bytes(Sorted* rows, Py_ssize_t count, Py_ssize_t depth) noexcept nogil:
    """How long the keys are the same, or -1 if one of them ends there."""
    cdef const Row* first = rows[0].row
    cdef const uint8_t* key
    cdef Py_ssize_t index, at, size = first.key_size
    for index in range(1, count):
        key = content(rows[index].row)
        size = min(size, <Py_ssize_t>rows[index].row.key_size)
        at = depth
        while at < size and key[at] == content(first)[at]:
            at += 1
        size = max(at, depth)
    for index in range(count):
        if <Py_ssize_t>rows[index].row.key_size <= size:
            return -1
    return size


cdef inline uint64_t word_at(const Row* row, Py_ssize_t depth) noexcept nogil:
    """Big-endian, and as if zeros followed the key: it is behind `depth` that keys end."""
    cdef uint8_t[WORD] padded
    cdef Py_ssize_t left = <Py_ssize_t>row.key_size - depth
    if left >= WORD:
        return load_u64(content(row) + depth)
    memset(padded, 0, WORD)
    memcpy(padded, content(row) + depth, left)
    return load_u64(padded)


cdef int order_of_keys(const void* one, const void* other) noexcept nogil:
    cdef Row* left = (<Sorted*>one).row
    cdef Row* right = (<Sorted*>other).row
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


cdef inline Marks marks_of(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    cdef Marks marks
    cdef uint64_t hashed = _SEED, word
    cdef Py_ssize_t index
    marks.near = marks.far = 0
    for index in range(size >> 3):
        memcpy(&word, at + index * WORD, WORD)
        hashed = (hashed ^ word) * <uint64_t>0x9FB21C651E98DF25
        hashed ^= hashed >> 32
        if index == NEAR_WORDS - 1:
            marks.near = <uint32_t>hashed
        elif index == FAR_WORDS - 1:
            marks.far = <uint32_t>hashed
    word = 0
    memcpy(&word, at + (size & ~7), size & 7)
    hashed = (hashed ^ <uint64_t>size ^ word) * <uint64_t>0x9FB21C651E98DF25
    marks.hashed = hashed ^ (hashed >> 32)
    return marks
