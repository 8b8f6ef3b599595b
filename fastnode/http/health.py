"""Two pages of the SQS listener, for load balancers and for other members: is the node there and
what can it do, and does it lead. Whoever asks need not say who it is.
"""

from collections.abc import Callable, Mapping
from typing import Final

from fastnode.cluster.capabilities import HEALTH_PATH, encode_health
from fastnode.http.codec import Rendered
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.query_codec import prefers_json
from fastnode.http.response import TEXT

# Both paths have it, and no path of a queue begins with it.
PATH_MARK: Final = b"/sqs_"
LEADER_PATH: Final = "/sqs_leader_health"
_JSON: Final = b"Content-Type: application/json\r\n"
_READ_ONLY: Final[Rendered] = (405, TEXT + b"Allow: GET, HEAD\r\n", b"read only\n")


class Health:
    """`respond` is what a `Router` calls first."""

    def __init__(self, capabilities: tuple[str, ...], leads: Callable[[], bool]) -> None:
        self._leads = leads
        self._json: Rendered = (200, _JSON, encode_health(capabilities))
        self._pages: Mapping[bytes, Callable[[Request], Rendered]] = {
            HEALTH_PATH.encode(): self._health,
            LEADER_PATH.encode(): self._leader_health,
        }

    def respond(self, request: Request, exchange: Exchange) -> bool:
        """False: the request is for none of the two pages, and nothing has happened."""
        page = self._pages.get(request.path)
        if page is None:
            return False
        is_reading = request.method in (b"GET", b"HEAD")
        exchange.reply(*(page(request) if is_reading else _READ_ONLY))
        return True

    def _health(self, request: Request) -> Rendered:
        return self._json if prefers_json(request) else (200, TEXT, b"ok\n")

    def _leader_health(self, _request: Request) -> Rendered:
        return (200, TEXT, b"ok\n") if self._leads() else (503, TEXT, b"not the leader\n")
