"""The admin listener: is the process alive, is it ready, what does it count. What it says about
queues is in `admin_api.py`, and the console's files are in `console_pages.py`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from fastnode.http.admin_api import PREFIX, AdminApi
from fastnode.http.console_pages import ConsolePages
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.metrics_page import rendered_metrics
from fastnode.http.response import TEXT

METRICS: Final = b"/metrics"

Page = Callable[[], tuple[int, bytes, bytes]]


class Admin:
    """`respond` is what an `HttpServer` calls. Metric names may carry labels:
    `name{label="value"}`.
    """

    def __init__(
        self,
        is_ready: Callable[[], bool],
        metrics: Callable[[], Mapping[str, float]],
        api: AdminApi | None = None,
    ) -> None:
        self._api = api
        self._console = ConsolePages()
        self._is_ready = is_ready
        self._metrics = metrics
        self._pages: dict[bytes, Page] = {
            b"/healthz": self._health,
            b"/readyz": self._readiness,
            METRICS: self._counts,
        }

    def respond(self, request: Request, exchange: Exchange) -> None:
        page = self._pages.get(request.path)
        if self._api is not None and request.path.startswith(PREFIX):
            self._api.respond(request, exchange)
        elif self._api is not None and self._console.owns(request.path):
            self._console.respond(request, exchange)
        elif page is None:
            exchange.reply(404, TEXT, b"not found\n")
        elif request.method not in (b"GET", b"HEAD"):
            exchange.reply(405, TEXT + b"Allow: GET, HEAD\r\n", b"read only\n")
        elif request.path == METRICS and not self.admits(request):
            # They name queues.
            exchange.reply(403, TEXT, b"not for web pages of another origin or host\n")
        else:
            exchange.reply(*page())

    def admits(self, request: Request) -> bool:
        """Whether no foreign web page can have sent it."""
        return self._api is None or self._api.admits(request)

    def _health(self) -> tuple[int, bytes, bytes]:
        return 200, TEXT, b"ok\n"

    def _readiness(self) -> tuple[int, bytes, bytes]:
        return (200, TEXT, b"ready\n") if self._is_ready() else (503, TEXT, b"not ready\n")

    def _counts(self) -> tuple[int, bytes, bytes]:
        return rendered_metrics(self._metrics())
