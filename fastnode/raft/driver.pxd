# A turn of all groups as an object of C; `driver.py` is what it does.

cdef class Driver:
    cdef public object _consensus, _machines
    cdef public dict _led, stalled, reading
    cdef public bint is_persisting
    cpdef propose(self, groups)
    cpdef look_ahead(self, groups)
    cpdef carry_out(self, ready)
    cpdef apply(self, groups)
