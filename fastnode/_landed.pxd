# What is held back of the rows and sums of an entry while they are gathered in C.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from fastnode._entry cimport Blob


cdef enum:
    POSITION_BYTES = 10
    FAMILY_BYTES = 11
    FAMILIES_MAX = 16
    # Different counters and marks that are summed up before they become objects.
    FOLDS_MAX = 8


cdef struct Family:
    # How the keys of rows begin that are written together, zeros where a key is shorter.
    uint64_t first
    uint32_t last
    Py_ssize_t size
    # Its rows are a chain.
    Py_ssize_t oldest
    Py_ssize_t newest


cdef struct Filed:
    const uint8_t* write
    Py_ssize_t next  # in its family; -1 ends it
    bint is_first  # if it puts a state: of a message that had none


cdef struct Fold:
    long kind
    Blob key
    int64_t delta  # of a counter
    Blob value  # of a mark


cdef struct Gathered:
    Filed* rows
    Py_ssize_t row_count
    Family[FAMILIES_MAX] families
    Py_ssize_t family_count
    Fold[FOLDS_MAX] folds
    Py_ssize_t fold_count
