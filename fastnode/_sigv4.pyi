"""The Python surface of `_sigv4.pyx`: the same as in `_sigv4_ref.py`, which documents it."""

from typing import Any, Self, final

from fastnode._http import Request

# Cython's table of the C functions that `_sigv4.pxd` offers to other compiled modules.
__pyx_capi__: dict[str, object]

def prove(proofs: dict[bytes, Proof], request: Request, now: int) -> Any: ...

@final
class Proof:
    def __new__(
        cls,
        signing_key: bytes,
        scope: bytes,
        midnight: int,
        names: tuple[bytes, ...],
        whose: Any,
    ) -> Self: ...
    @property
    def whose(self) -> Any: ...
