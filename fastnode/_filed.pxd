# What the memory of group indexes holds.

cimport cython


@cython.final
cdef class Filed:
    # Positions by group; groups that have more than these; how much that is.
    cdef dict kept
    cdef set cut
    cdef Py_ssize_t places_kept, places_max
    cdef int drop(self, bytes group) except -1
    cdef int bound(self) except -1
    cdef int forget_all(self) except -1
