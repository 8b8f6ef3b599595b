# Counts of a queue as words of C; `traffic.py` is what they are.

cdef class Traffic:
    cdef public long messages_in, deliveries, messages_out
