"""The Python surface of `_sha256.pyx`: what tests compare."""

# Cython's table of the C functions that `_sha256.pxd` offers to other compiled modules.
__pyx_capi__: dict[str, object]

def digests(octets: bytes) -> list[bytes]: ...
