# The memory of a queue as an object of C; `live.py` is what it does.

from fastnode.queue.timers cimport Timers
from fastnode.queue.traffic cimport Traffic
from fastnode.queue.waiting cimport Waiting
from fastnode.store.group cimport Group


cdef class LiveQueue(Traffic):
    cdef object __weakref__
    cdef public Group group
    cdef public object keys, partition, messages, send_keys, handout_keys, record, settings, policy
    cdef public object throttle, read_ahead, waiters, tenants, generation, owner
    cdef public object _alarm, answered_again, _waiting_end
    cdef public Timers timers
    cdef public str account, region, name
    cdef public bytes receipt_secret, generation_key, stored
    cdef public Waiting waiting
    cdef public object scanned, swept_to, oldest
    cdef public bint _has_arrivals, is_confirmed
    cpdef added_plain(self, position, records)
    cpdef _announce(self)
    cpdef handed_out(self, tuple positions, visible_at)
    cpdef removed(self, positions)
    cpdef bint has_available(self) except -1
    cpdef claim(self, position)
