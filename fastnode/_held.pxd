# Rows that are held back, in memory of C: a hash table over them, and the batches that bring them.

cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef struct Marks:
    uint64_t hashed
    # Of the first bytes of a key, if it has so many.
    uint32_t near, far


cdef struct Operation:
    const uint8_t* key
    const uint8_t* value  # NULL deletes
    uint32_t key_size
    uint32_t value_size
    bint is_first  # a state, of a message that had none
    Marks marks  # once it is taken


cdef struct Row:
    # The key follows, and behind it the value, which has room for more than it may need.
    uint32_t key_size
    uint32_t value_size
    uint32_t room
    bint is_deleted
    bint is_new


cdef struct Slot:
    Marks marks
    Row* row  # NULL: nobody's


cdef struct Range:
    const uint8_t* start
    const uint8_t* end
    Py_ssize_t start_size, end_size
    Py_ssize_t common  # bytes that all keys in it begin with
    Marks marks


cdef struct Sorted:
    uint64_t word  # of the key, where those of its neighbours begin to differ
    Row* row


@cython.final
cdef class HeldBatch:
    cdef Operation* operations
    cdef Py_ssize_t count, capacity, deletions
    # Whose bytes the operations lie in.
    cdef list owners
    cdef list ranges
    cdef int own(self, bytes key, bytes value, bint is_first) except -1
    cdef int note(
        self,
        const uint8_t* key,
        Py_ssize_t key_size,
        const uint8_t* value,
        Py_ssize_t value_size,
        bint is_first,
    ) except -1
    cdef int write_part(self, batch, Py_ssize_t start, Py_ssize_t end) except -1


@cython.final
cdef class Held:
    cdef Slot* slots
    cdef Py_ssize_t slot_count, count, bytes_held, operations_taken
    cdef void expect(self, Operation* operation) noexcept
    cdef int put(self, const Operation* operation) except -1
    cdef int delete(self, const Operation* operation) except -1
    cdef Row* add(self, Slot* slot, const Operation* operation) except NULL
    cdef int grow(self) except -1
    cdef Slot* free_slot(self, uint64_t hashed) noexcept
    cdef bint is_new(self, const Operation* operation) except -1
    cdef Slot* find(self, const uint8_t* key, Py_ssize_t size, uint64_t hashed) noexcept
    cdef Slot* next_in(self, Slot* slot, const Range* wanted) noexcept
    cdef void remove(self, Slot* slot) noexcept
