# Rows that are held back, in memory of C: a hash table over them, and the batches that bring them.

cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef struct Operation:
    const uint8_t* key
    const uint8_t* value  # NULL deletes
    uint32_t key_size
    uint32_t value_size


cdef struct Row:
    # The key follows, and behind it the value, which has room for more than it may need.
    uint32_t key_size
    uint32_t value_size
    uint32_t room
    bint is_deleted
    bint is_new


cdef struct Slot:
    uint64_t hashed
    Row* row  # NULL: nobody's


@cython.final
cdef class HeldBatch:
    cdef Operation* operations
    cdef Py_ssize_t count, capacity, deletions
    # Whose bytes the operations lie in.
    cdef list owners
    cdef list ranges
    cdef int note(
        self,
        const uint8_t* key,
        Py_ssize_t key_size,
        const uint8_t* value,
        Py_ssize_t value_size,
    ) except -1
    cdef int write_part(self, batch, Py_ssize_t start, Py_ssize_t end) except -1


@cython.final
cdef class Held:
    cdef Slot* slots
    cdef Py_ssize_t slot_count, count, bytes_held, operations_taken
    cdef int put(self, const Operation* operation) except -1
    cdef int delete(self, const Operation* operation) except -1
    cdef Row* add(self, Slot* slot, uint64_t hashed, const Operation* operation) except NULL
    cdef int grow(self) except -1
    cdef Slot* free_slot(self, uint64_t hashed) noexcept
    cdef bint is_new(self, const Operation* operation) except -1
    cdef Slot* find(self, const uint8_t* key, Py_ssize_t size, uint64_t hashed) noexcept
    cdef void remove(self, Slot* slot) noexcept
