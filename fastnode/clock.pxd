# The clock of a group and the source of ids as objects of C. Its times are Python's numbers: positions are made of them
# by shifts, and have more bits than a word.

cdef class GroupClock:
    cdef public object boottime_ns, _target_ns, _anchor_boot_ns, _anchor_ns, _error_ns
    cdef public object _same_until_boot_ns, _current, _last
    cpdef stamp(self)
    cpdef now(self)
    cpdef _read(self, boot_ns)


cdef class SystemIdSource:
    cdef public bytes _block
    cdef public Py_ssize_t _offset
    cpdef bytes take(self, Py_ssize_t count)


cdef class RequestIds:
    cdef public object _ids
    cdef public str _drawn
    cdef public Py_ssize_t _used
