"""The Python surface of `_http.pyx`: the same function as `_http_ref.py`, which documents it."""

from fastnode._http_ref import Request

# Cython's table of the C functions that `_http.pxd` offers to other compiled modules.
__pyx_capi__: dict[str, object]

def take_request(buffer: bytes, start: int, searched: int) -> tuple[Request, int, int] | None: ...
