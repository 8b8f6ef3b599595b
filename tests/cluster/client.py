"""A client of a cluster as a careful user would write it: it knows all nodes, stays with one while
that answers, and takes another when it does not. Signs nothing; the API of the tests is open.
"""

import http.client
import json
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from tests.nodes import AUTHORIZATION

# A node that cannot answer says so within seconds; one that stands still says nothing.
CALL_SECONDS = 5.0
RETRY_SECONDS_MAX = 1.0
# Before a second attempt that nobody asked to wait for.
REPEAT_SECONDS = 0.1
INSIST_SECONDS = 120.0


class Unknown(Exception):
    """No answer, or a 503: the call may have taken effect. Says how long to wait for the next."""

    def __init__(self, reason: str, retry_after: float | None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Refused(Exception):
    """The cluster answered that the call is wrong. It has had no effect."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.body = body


class Client:
    """Not thread-safe. `endpoints` may change while it lives."""

    def __init__(
        self,
        endpoints: Callable[[], Sequence[str]],
        first: int = 0,
        *,
        seconds: float = CALL_SECONDS,
    ) -> None:
        self._endpoints = endpoints
        self._seconds = seconds
        self._chosen = first
        self._connection: http.client.HTTPConnection | None = None

    def call(self, action: str, **members: object) -> Any:
        """One attempt, at one node. After an Unknown the next attempt goes to another one."""
        try:
            status, retry_after, body = self._exchange(action, members)
        except (OSError, http.client.HTTPException) as error:
            self._move_on()
            raise Unknown(repr(error), None) from error
        if status == 503:
            self._move_on()
            raise Unknown(f"503 {body!r}", None if retry_after is None else float(retry_after))
        if status != 200:
            raise Refused(status, body.decode(errors="replace"))
        return json.loads(body) if body else {}

    def insist(self, action: str, **members: object) -> Any:
        """For calls that can be repeated without harm: leads may be on the move."""
        deadline = time.monotonic() + INSIST_SECONDS
        while True:
            try:
                return self.call(action, **members)
            except Unknown as error:
                assert time.monotonic() < deadline, f"{action} never succeeds: {error}"
                time.sleep(REPEAT_SECONDS)

    @property
    def repeats(self) -> int:
        """Attempts that were repeated within `call`."""
        return 0

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _move_on(self) -> None:
        self.close()
        self._chosen += 1

    def _exchange(self, action: str, members: dict[str, object]) -> tuple[int, str | None, bytes]:
        connection = self._connect()
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"AmazonSQS.{action}",
            "Authorization": AUTHORIZATION,
        }
        connection.request("POST", "/", json.dumps(members).encode(), headers)
        response = connection.getresponse()
        body = response.read()
        return response.status, response.getheader("Retry-After"), body

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            endpoints = self._endpoints()
            address = urlsplit(endpoints[self._chosen % len(endpoints)])
            assert address.hostname is not None
            self._connection = http.client.HTTPConnection(
                address.hostname, address.port, timeout=self._seconds
            )
        return self._connection


class RepeatingClient(Client):
    """Tries once more, at another node, as the SDKs do; only then it is an Unknown."""

    def __init__(self, endpoints: Callable[[], Sequence[str]], first: int = 0) -> None:
        super().__init__(endpoints, first)
        self._repeats = 0

    def call(self, action: str, **members: object) -> Any:
        try:
            return super().call(action, **members)
        except Unknown as error:
            self._repeats += 1
            time.sleep(min(error.retry_after or REPEAT_SECONDS, RETRY_SECONDS_MAX))
            return super().call(action, **members)

    @property
    def repeats(self) -> int:
        return self._repeats
