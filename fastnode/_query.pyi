"""The Python surface of `_query.pyx`: the same as in `_query_ref.py`, which documents it."""

from typing import Any, Self, final

from msgspec import Struct

from fastnode._query_ref import Element, Field

# Cython's table of the C functions that `_query.pxd` offers to other compiled modules.
__pyx_capi__: dict[str, object]

def find_parameter(raw: bytes, name: bytes) -> str | None: ...
def escape_xml(text: str) -> bytes: ...

@final
class FormReader:
    def __new__(cls, plan: tuple[Field, ...]) -> Self: ...
    def read(self, raw: bytes) -> dict[str, Any]: ...

@final
class XmlWriter:
    def __new__(cls, plan: tuple[Element, ...]) -> Self: ...
    def write(self, struct: Struct) -> bytes: ...
