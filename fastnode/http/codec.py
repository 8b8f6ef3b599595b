"""What a wire format has to offer, so that another one adds a codec and no handler. Interfaces
only.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from msgspec import Struct

from fastnode.flow import Suspension
from fastnode.http.http1 import Request
from fastnode.queue.errors import SqsError

# Status, header lines, body: the arguments of `Exchange.reply`.
Rendered = tuple[int, bytes, bytes]


class Operation(Protocol):
    """A row of the table of operations, as far as this layer needs it. `response` is None for
    actions without output.
    """

    @property
    def name(self) -> str: ...
    @property
    def request(self) -> type[Struct]: ...
    @property
    def response(self) -> type[Struct] | None: ...
    @property
    def handler(self) -> Callable[..., Coroutine[Suspension, Any, Any]]: ...


class Codec(Protocol):
    """A wire format. Decoding raises `SqsError`; encoding cannot fail."""

    def operation_of(self, request: Request) -> Operation: ...

    def decode(self, operation: Operation, request: Request) -> Struct: ...

    def encode(
        self, operation: Operation, response: Struct | None, request_id: str
    ) -> Rendered: ...

    def encode_error(
        self, error: SqsError, request_id: str, retry_after_seconds: int | None = None
    ) -> Rendered: ...


def retry_after(seconds: int | None) -> bytes:
    return b"" if seconds is None else b"Retry-After: %d\r\n" % seconds
