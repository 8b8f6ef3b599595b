# Who recognises signed callers, as an object of C; `identity.py` is what it does.

from fastnode._http cimport Request as HttpRequest


cdef class VerifiedIdentity:
    cdef public object _settings, _verify, _principal, _caller
    cdef public dict _callers
    cdef public bytes _host
    cpdef quick_caller(self, HttpRequest request)
