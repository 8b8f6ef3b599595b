"""The Python surface of `_md5.pyx`: what tests compare."""

from collections.abc import Sequence

# Cython's table of the C functions that `_md5.pxd` offers to other compiled modules.
__pyx_capi__: dict[str, object]

def digests(bodies: Sequence[bytes]) -> list[list[bytes]]: ...
