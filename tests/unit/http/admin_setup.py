"""The admin listener on a world without sockets, disk or time, and a client for it."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from fastnode.cluster.traffic import Traffic
from fastnode.http.admin import Admin
from fastnode.http.admin_access import Access
from fastnode.http.admin_api import AdminApi
from fastnode.http.admin_overview import AdminOverview
from fastnode.http.admin_queues import AdminQueues, Look
from fastnode.http.admin_request import Answers
from fastnode.http.admin_tokens import Holder, Holders, digest_of
from fastnode.http.identity import IdentitySettings, OpenIdentity
from fastnode.queue.caller import Call
from fastnode.queue.history import History
from fastnode.queue.operations import Operation
from tests.unit.http.http_fakes import Node
from tests.world import ACCOUNT, REGION, CountingIds, World

QUEUES = f"/api/v1/queues/{ACCOUNT}/{REGION}"
HOST = "localhost:9325"
Headers = dict[str, str]


def holders_of(**roles: Any) -> dict[bytes, Holder]:
    """Of tokens that are as long as they must be: `token-of-` and the name."""
    return {digest_of(token_of(name)): Holder(name, role) for name, role in roles.items()}


def token_of(name: str) -> str:
    return f"token-of-{name}-xxxxxxxx"


class AdminSetup:
    """`holders` may be changed at any time; None leaves the API open."""

    def __init__(
        self,
        holders: Holders | None = None,
        *,
        service: Any = None,
        sections: Mapping[str, Answers] | None = None,
    ) -> None:
        self.world = World()
        self.node = Node()
        self.holders = holders
        self.history = History(self.world.service)
        service = self.world.service if service is None else service
        traffic = Traffic(self.history, list)
        queues = AdminQueues(service, Look(service), self._handle, traffic, REGION)
        every = {"queues": queues.answer, "overview": AdminOverview(traffic, REGION).answer}
        guard = OpenIdentity(IdentitySettings(REGION, f"http://{HOST}")).caller
        known = None if holders is None else lambda: self.holders or {}
        self.access = Access(known, CountingIds(), lambda: self.node.now)
        log = logging.getLogger("test")
        api = AdminApi(guard, log, self.access, every | dict(sections or {}))
        self.node.server.respond = Admin(lambda: True, dict, api).respond

    async def _handle(self, operation: Operation, call: Call, request: Any) -> Any:
        return await operation.handler(self.world.service, call, request)

    def send(
        self,
        target: str,
        *headers: str,
        method: str = "GET",
        host: str = "localhost",
        body: bytes = b"",
    ) -> tuple[int, str, bytes]:
        """Status, head and body of the answer, once everything is committed."""
        connection, transport = self.node.connect()
        length = (f"Content-Length: {len(body)}",) if body else ()
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *headers, *length, "", ""]
        connection.data_received("\r\n".join(lines).encode("latin-1") + body)
        self.world.commit()
        head, _, answer = transport.written.partition(b"\r\n\r\n")
        return int(head.split()[1]), head.decode(), answer

    def get(self, target: str, *headers: str, host: str = "localhost") -> tuple[int, Any]:
        status, head, body = self.send(target, *headers, host=host)
        assert "Content-Type: application/json" in head and "Cache-Control: no-store" in head
        return status, json.loads(body)

    def change(
        self, method: str, target: str, body: object = None, *headers: str
    ) -> tuple[int, Any]:
        """As a program does it, that is no browser."""
        kind = ("Content-Type: application/json",)
        content = b"" if body is None else json.dumps(body).encode()
        status, _, answer = self.send(target, *kind, *headers, method=method, body=content)
        return status, json.loads(answer)

    def error(self, method: str, target: str, body: object = None, *headers: str) -> Any:
        status, answer = self.change(method, target, body, *headers)
        assert status >= 400, answer
        assert answer["error"]["message"]
        return status, answer["error"]["code"]


class Page:
    """A browser's tab: it keeps the cookie, says where it comes from, and knows its CSRF token."""

    def __init__(self, setup: AdminSetup) -> None:
        self._setup = setup
        self.cookie = ""
        self.csrf = ""

    def sign_in(self, token: str = "") -> tuple[int, Any]:
        status, head, answer = self._send("POST", "/api/v1/session", {"token": token})
        for line in head.split("\r\n"):
            if line.startswith("Set-Cookie: "):
                self.cookie = line.removeprefix("Set-Cookie: ").partition(";")[0]
        self.csrf = answer.get("csrf") or ""
        return status, answer

    def change(self, method: str, target: str, body: object = None) -> tuple[int, Any]:
        status, _, answer = self._send(method, target, body)
        return status, answer

    def _send(self, method: str, target: str, body: object) -> tuple[int, str, Any]:
        headers = [
            f"Origin: http://{HOST}",
            "Sec-Fetch-Site: same-origin",
            "Content-Type: application/json",
            *([f"Cookie: other=1; {self.cookie}"] if self.cookie else []),
            *([f"X-CSRF-Token: {self.csrf}"] if self.csrf else []),
        ]
        content = b"" if body is None else json.dumps(body).encode()
        status, head, answer = self._setup.send(
            target, *headers, method=method, host=HOST, body=content
        )
        return status, head, json.loads(answer)
