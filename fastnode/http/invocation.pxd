# Functions that C calls without an interpreter between; `invocation.py` is what they do.

from fastnode._http cimport Request as HttpRequest

cpdef bytes invocation_of(HttpRequest request, str sender, str action)
cpdef bint is_first_attempt(HttpRequest request) except -1
