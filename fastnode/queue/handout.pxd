# The short ways of receives and deletes as objects and functions of C; `handout.py` is what they do.

from fastnode.queue.choice cimport Hidden, PlainChoice
from fastnode.queue.live cimport LiveQueue
from fastnode.queue.service cimport Service
from fastnode.queue.waiting cimport Waiting
from fastnode.store.group cimport Group


cdef class Handout:
    cdef public bytes request
    cdef public LiveQueue queue
    cdef public object generation, commit_ts, visible_at
    cdef public PlainChoice choice
    cdef public Waiting waiting
    cpdef landed(self)
    cpdef bytes answer(self)


cdef class Removal:
    cdef public bytes request
    cdef public LiveQueue queue
    cdef public Hidden hidden
    cpdef landed(self)


cpdef Handout submit_receive(
    Service service, LiveQueue queue, bytes invocation, limit, visibility_ms, waiting
)
cpdef Removal submit_delete(Service service, LiveQueue queue, bytes invocation, handles, waiting)
