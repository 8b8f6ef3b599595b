# The short way of receives as objects of C; `receive_lane.py` is what they do.

from fastnode.http.handout_lane cimport HandoutLane, Pending
from fastnode.queue.handout cimport Handout
from fastnode.queue.live cimport LiveQueue


cdef class ReceiveLane(HandoutLane):
    pass


cdef class _Receive(Pending):
    cdef public LiveQueue queue
    cdef public bytes identity, answer
    cdef public str queue_url
    cdef public object limit, timeout, wait_seconds, deadline_ms, waiter
    cdef public Handout work
    cpdef bint submit(self) except -1
    cpdef bint wait(self) except -1
