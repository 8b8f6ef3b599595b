# What the memory of a FIFO queue holds.

cimport cython


@cython.final
cdef class Ready:
    # Heads that somebody has received, heads that nobody has; what is true of them, by group.
    cdef list received, unreceived
    cdef dict known
    cdef set taken
    cdef tuple horizon_place
    cdef Py_ssize_t page_max, size_max
    cdef bint lacks_page(self, now, delay) except -1
    cdef object take_first(self, now, delay)
    cdef int keep_row(self, str group_id, bytes row) except -1
    cdef int keep(self, head) except -1
    cdef object top(self, list heap)
    cdef object first(self, delay)
    cdef int shrink(self) except -1


@cython.final
cdef class Fresh:
    cdef dict records
    cdef object next_position
    cdef bint reaches_end
    cdef Py_ssize_t kept, bytes_max, missed, missed_max, record_bytes, rows
    cdef int keep(self, position, bytes record) except -1
    cdef int forget_all(self) except -1


@cython.final
cdef class Handed:
    # Group and nonce, by position.
    cdef dict handed
    cdef Py_ssize_t count_max
