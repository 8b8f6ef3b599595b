# The verifier as an object of C; `sigv4.py` is what it does.

from fastnode._http cimport Request as HttpRequest


cdef class Verifier:
    cdef dict __dict__
    cdef public object _keys, _now_seconds, _region
    cdef public dict _claims, _signing_keys, _proofs
    cpdef verify(self, HttpRequest request)
