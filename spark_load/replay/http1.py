"""HTTP/1.1 answers from bytes. Sans-IO: bytes go in, an answer comes out when it is whole.

One request at a time is under way on a connection, so there is at most one answer to read. There
are two readers with one behaviour: `PlainReader` needs nothing but Python, `QuickReader` has
httptools find the end of the answer, which takes a third of the time. Neither keeps the headers
that nobody asks for: they are looked up in the raw head.
"""

import re
from typing import Final, NamedTuple, Protocol

from spark_load.replay.named import maker

try:
    import httptools
except ImportError:
    # The package is optional, which its type cannot say.
    httptools = None  # type: ignore[assignment]

IS_QUICK: Final = httptools is not None
HEAD_BYTES_MAX: Final = 65_536
BODY_BYTES_MAX: Final = 64 * 1024 * 1024
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)
_CLOSE: Final = re.compile(rb"\r\nconnection:[^\r]*close", re.IGNORECASE)


class BadAnswer(Exception):
    """What came back is not HTTP/1.1, or larger than any answer of SQS."""


class Answer(NamedTuple):
    """One whole answer. `raw` begins with its head."""

    status: int
    raw: bytes
    body: bytes
    closes: bool

    def header(self, name: str) -> str | None:
        pattern = rb"\r\n%b:[ \t]*([^\r]*)\r\n" % re.escape(name.encode())
        head = self.raw[: self.raw.find(b"\r\n\r\n") + 4]
        found = re.search(pattern, head, re.IGNORECASE)
        return None if found is None else found[1].decode("latin-1")


_answer: Final = maker(Answer)


class Reader(Protocol):
    """Takes the bytes of a connection. Of no use any more after a BadAnswer or its `end`."""

    def feed(self, data: bytes) -> Answer | None: ...

    def end(self) -> Answer | None:
        """The server closed the connection: that ends an answer that has no length."""


class PlainReader:
    """Searches the bytes that have come so far."""

    def __init__(self) -> None:
        self._held = bytearray()
        # Nothing is tried again before so many bytes have come.
        self._needed = 0

    def feed(self, data: bytes) -> Answer | None:
        if self._held:
            self._held += data
            if len(self._held) < self._needed:
                return None
            data = bytes(self._held)
        answer, size = self._read(data)
        if answer is None:
            self._held[:] = data
            return None
        if size != len(data):
            raise BadAnswer("bytes after the answer")
        self._held.clear()
        return answer

    def end(self) -> Answer | None:
        return ended(bytes(self._held))

    def _read(self, data: bytes) -> tuple[Answer | None, int]:
        """An answer and the bytes it took."""
        self._needed = 0
        stop = data.find(b"\r\n\r\n")
        if stop < 0:
            if len(data) > HEAD_BYTES_MAX:
                raise BadAnswer("a head without an end")
            return None, 0
        start = stop + 4
        head = data[:start]
        status = status_of(head)
        if status < 200:
            answer, size = self._read(data[start:])
            self._needed = 0
            return answer, start + size
        length = _LENGTH.search(head)
        if length is None:
            return _read_unsized(status, head, data)
        size = start + int(length[1])
        if size > BODY_BYTES_MAX:
            raise BadAnswer("an answer that is too large")
        self._needed = size
        if len(data) < size:
            return None, 0
        return Answer(status, data, data[start:size], closes(head)), size


class QuickReader:
    """Has httptools look for the end. The methods without an underscore are what it calls."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._raw = b""
        self._body: list[bytes] = []
        self._size = 0
        self._answer: Answer | None = None

    def feed(self, data: bytes) -> Answer | None:
        self._size += len(data)
        if self._size > BODY_BYTES_MAX:
            raise BadAnswer("an answer that is too large")
        if len(self._raw) < HEAD_BYTES_MAX:
            self._raw = self._raw + data if self._raw else data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise BadAnswer(str(error)) from None
        answer = self._answer
        if answer is not None:
            self._answer, self._raw, self._size = None, b"", 0
            self._body.clear()
        return answer

    def end(self) -> Answer | None:
        stop = self._raw.find(b"\r\n\r\n") + 4
        return ended(self._raw[:stop] + b"".join(self._body))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._answer is not None:
            raise BadAnswer("bytes after the answer")
        status = self._parser.get_status_code()
        if status >= 200:
            closing = not self._parser.should_keep_alive()
            self._answer = _answer((status, self._raw, b"".join(self._body), closing))


def make_reader() -> Reader:
    return QuickReader() if IS_QUICK else PlainReader()


def status_of(head: bytes) -> int:
    found = _STATUS.match(head)
    if found is None:
        raise BadAnswer("not an HTTP/1.1 answer")
    return int(found[1])


def closes(head: bytes) -> bool:
    return head.startswith(b"HTTP/1.0") or _CLOSE.search(head) is not None


def ended(held: bytes) -> Answer | None:
    """What the end of the connection makes of the bytes before it."""
    stop = held.find(b"\r\n\r\n")
    if stop < 0:
        return None
    head = held[: stop + 4]
    if _LENGTH.search(head) or _CHUNKED.search(head):
        return None
    return Answer(status_of(head), held, held[stop + 4 :], closes=True)


def _read_unsized(status: int, head: bytes, data: bytes) -> tuple[Answer | None, int]:
    if len(data) > BODY_BYTES_MAX:
        raise BadAnswer("an answer that is too large")
    if status in (204, 304):
        return Answer(status, data, b"", closes(head)), len(head)
    if _CHUNKED.search(head) is None:
        return None, 0
    body, size = _unchunk(data, len(head))
    return (None, 0) if body is None else (Answer(status, data, body, closes(head)), size)


def _unchunk(data: bytes, start: int) -> tuple[bytes | None, int]:
    """The body whose chunks begin at `start`, and where it ends; None while more is to come."""
    parts: list[bytes] = []
    while (stop := data.find(b"\r\n", start)) >= 0:
        try:
            size = int(data[start:stop].partition(b";")[0], 16)
        except ValueError:
            raise BadAnswer("a chunk without a size") from None
        if size == 0:
            # Trailers, if any, end with an empty line like a head.
            end = data.find(b"\r\n\r\n", stop)
            return (None, 0) if end < 0 else (b"".join(parts), end + 4)
        start = stop + 2 + size + 2
        if start > len(data):
            break
        parts.append(data[stop + 2 : start - 2])
    return None, 0
