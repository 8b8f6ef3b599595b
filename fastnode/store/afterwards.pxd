# What is done afterwards, as an object of C; `afterwards.py` is what it does.

cdef class Afterwards:
    cdef public bint _is_telling
    cdef public dict _steps
