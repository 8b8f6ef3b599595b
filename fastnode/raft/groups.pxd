# The groups of a worker as an object of C; `groups.py` is what it does.

cdef class Groups:
    cdef public object _raft, fileno, tick, applied, compact, step, campaign, drop_snapshot, report_snapshot
    cdef public object report_unreachable, installed, status, log_bytes, close
