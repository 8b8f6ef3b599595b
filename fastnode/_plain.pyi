"""The Python surface of `_plain.pyx`."""

from fastnode._plain_ref import PlainBatch, PlainSend

# Cython's table of the C functions that `_plain.pxd` offers to other compiled modules.
__pyx_capi__: dict[str, object]

def read_send(body: bytes) -> PlainSend | None: ...
def read_batch(body: bytes) -> PlainBatch | None: ...
