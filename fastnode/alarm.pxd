# An alarm as an object of C; `alarm.py` is what it does.

cdef class LoopAlarm:
    cdef public object _loop, _handle, _ring
    cdef public double _timer_at, _at
