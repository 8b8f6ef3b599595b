# A function that C calls without an interpreter between; `fullness.py` is what it does.

from fastnode.queue.live cimport LiveQueue

cpdef bint may_be_full(LiveQueue queue) except -1
