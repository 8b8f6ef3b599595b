# cython: language_level=3
"""Clocks, and taking the time of requests, in C: a clock, a shift and two sums. `_meter_ref.py` is
the readable version.
"""

cimport cython
from libc.stdint cimport int64_t, uint64_t
from posix.time cimport (
    CLOCK_MONOTONIC,
    CLOCK_REALTIME,
    clock_gettime,
    clockid_t,
    timespec,
)

cdef enum:
    # As in `_meter_ref.py`.
    TIME_SHIFT = 16
    PLACES = 48

cdef extern from "<time.h>":
    clockid_t CLOCK_BOOTTIME

cdef extern from *:
    int bits_below "__builtin_clzll"(unsigned long long) nogil


cdef inline int64_t _read(clockid_t clock) noexcept nogil:
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


def now_ns():
    return _read(CLOCK_MONOTONIC)


def boottime_ns():
    return _read(CLOCK_BOOTTIME)


def wall_seconds():
    return _read(CLOCK_REALTIME) // 1000000000


@cython.final
@cython.auto_pickle(False)
cdef class Times:
    cdef uint64_t _counts[PLACES]
    cdef uint64_t _total_ns
    cdef int64_t _slow_ns

    def __init__(self, int64_t slow_ns):
        cdef int place
        for place in range(PLACES):
            self._counts[place] = 0
        self._total_ns = 0
        self._slow_ns = slow_ns

    cdef inline void _add(self, int64_t elapsed_ns) noexcept:
        cdef uint64_t rest = <uint64_t>(elapsed_ns - 1) >> TIME_SHIFT
        cdef int place = 64 - bits_below(rest) if rest else 0
        self._counts[place if place < PLACES else PLACES - 1] += 1
        self._total_ns += <uint64_t>elapsed_ns

    def took(self, int64_t began_ns):
        cdef int64_t elapsed_ns = max(_read(CLOCK_MONOTONIC) - began_ns, 1)
        self._add(elapsed_ns)
        return elapsed_ns > self._slow_ns

    def add(self, int64_t elapsed_ns):
        self._add(max(elapsed_ns, 1))

    def seen(self):
        return [self._counts[place] for place in range(PLACES)], self._total_ns
