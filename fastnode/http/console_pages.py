"""The console's files, from the folder `console` beside this: a page, its scripts and its style.

They are read once and served by their exact paths, so no path leads anywhere else. The page may
load these files and ask this address, and nothing else; what it shows of a message is text.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.response import TEXT

ROOT: Final = b"/console/"
_FOLDER: Final = Path(__file__).with_name("console")
_INDEX: Final = "index.html"
_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = (
    b"Content-Security-Policy: " + POLICY + b"\r\n"
    b"X-Content-Type-Options: nosniff\r\n"
    b"X-Frame-Options: DENY\r\n"
    b"Referrer-Policy: no-referrer\r\n"
    b"Cross-Origin-Opener-Policy: same-origin\r\n"
    b"Cross-Origin-Resource-Policy: same-origin\r\n"
    b"Cache-Control: no-cache\r\n"
)


class ConsolePages:
    def __init__(self) -> None:
        self._files = dict(_files())

    def owns(self, path: bytes) -> bool:
        return path == b"/" or path == ROOT[:-1] or path.startswith(ROOT)

    def respond(self, request: Request, exchange: Exchange) -> None:
        found = self._files.get(request.path)
        if request.method not in (b"GET", b"HEAD"):
            exchange.reply(405, TEXT + b"Allow: GET, HEAD\r\n", b"read only\n")
        elif request.path in (b"/", ROOT[:-1]):
            exchange.reply(302, TEXT + b"Location: " + ROOT + b"\r\n", b"")
        elif found is None:
            exchange.reply(404, TEXT, b"not found\n")
        else:
            content_type, content = found
            headers = b"Content-Type: " + content_type + b"\r\n" + _HEADERS
            exchange.reply(200, headers, content)


def _files() -> Iterator[tuple[bytes, tuple[bytes, bytes]]]:
    for file in _FOLDER.iterdir():
        if file.suffix in _TYPES:
            name = "" if file.name == _INDEX else file.name
            yield ROOT + name.encode(), (_TYPES[file.suffix], file.read_bytes())
