# What short ways have claimed or are to remove, as objects of C; `choice.py` is what they are.

cdef class PlainChoice:
    cdef public list items
    cdef public tuple positions, keys
    cdef public object first, mark, groups
    cdef public dict heads


cdef class Hidden:
    cdef public dict times, heads
    cdef public tuple keys
    cdef public object unfiling
