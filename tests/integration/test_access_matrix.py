"""Who may reach what, with which credential, over plain HTTP and over TLS: every cell of the tables
in `access_tables.py`, tried with real nodes, and shown in `docs/security.md` as it is here.
"""

import http.client
import itertools
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from fastnode.errors import OperationError
from fastnode.peers.peers import TlsContexts
from fastnode.peers.tls import PeerTls
from tests.certificates import make_certificate, make_ours_and_theirs, make_signer
from tests.integration.access_tables import (
    CLOSED,
    LET_IN,
    MEMBERS_SECRET,
    MEMBERS_TLS,
    OPEN,
    REFUSED,
    TABLES,
    WITHOUT_TLS,
    rendered,
)
from tests.integration.control_kit import SECRET as CONTROL_SECRET
from tests.integration.control_kit import client, run, serving
from tests.integration.peer_nodes import SECRET, PeerNode, run_clean, running, until
from tests.nodes import ANSWER_SECONDS, REGION, ROOT, Node

KEY, KEY_SECRET = "AKIDOFSOMEBODY", "the-secret-of-somebody"
FULL, READ_ONLY = "a-token-that-may-do-all", "a-token-that-may-look"
EVIL = "http://evil.example"
NUMBERS = itertools.count()
Headers = dict[str, str]


class Site(NamedTuple):
    """A node, and how to speak with it; `context` is for TLS."""

    node: Node
    context: ssl.SSLContext | None

    def ask(self, url: str, method: str, path: str, headers: Headers, body: bytes = b"") -> Any:
        """The answer, read, and its body."""
        address = urlsplit(url)
        assert address.hostname is not None
        connection = (
            http.client.HTTPConnection(address.hostname, address.port, timeout=ANSWER_SECONDS)
            if self.context is None
            else http.client.HTTPSConnection(
                address.hostname, address.port, timeout=ANSWER_SECONDS, context=self.context
            )
        )
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def attempts(self, headers: Headers, signed: tuple[str, str] | None) -> tuple[int, ...]:
        """The status of each column of a table."""
        sqs, admin = self.node.sqs_url, self.node.admin_url
        call = self._signed(sqs, signed) if signed else dict(SQS_HEADERS)
        name = f"probe{next(NUMBERS)}"
        change = json.dumps({"name": name}).encode()
        kind = {"Content-Type": "application/json"}
        # The key of a caller of SQS, where a token is asked for.
        shown = {"Authorization": call["Authorization"]} if signed else {}
        asked = (
            (sqs, "POST", "/", call | headers, b"{}"),
            (admin, "GET", "/api/v1/overview", shown | headers, b""),
            (admin, "POST", "/api/v1/queues", kind | shown | headers, change),
            (admin, "GET", "/metrics", headers, b""),
            (admin, "GET", "/healthz", headers, b""),
        )
        found = tuple(int(self.ask(*one)[0].status) for one in asked)
        assert (name in self._queues()) is (found[2] == 200), "what is refused changes nothing"
        return found

    def _queues(self) -> str:
        _, text = self.ask(self.node.admin_url, "GET", "/api/v1/queues", bearer(FULL))
        return str(text)

    def _signed(self, url: str, key: tuple[str, str]) -> Headers:
        request = AWSRequest("POST", f"{url}/", data=b"{}", headers=dict(SQS_HEADERS))
        SigV4Auth(Credentials(*key), "sqs", REGION).add_auth(request)
        return dict(request.headers.items())

    def sign_in(self, token: str) -> tuple[str, str]:
        """The cookie and the CSRF token of a new session."""
        body = json.dumps({"token": token}).encode()
        kind = {"Content-Type": "application/json"}
        answer, text = self.ask(self.node.admin_url, "POST", "/api/v1/session", kind, body)
        cookie, _, rules = answer.getheader("Set-Cookie").partition(";")
        assert {"HttpOnly", "SameSite=Strict", "Path=/api/v1/"} <= set(rules.strip().split("; "))
        assert ("Secure" in rules) is (self.context is not None)
        return cookie, json.loads(text)["csrf"]

    def ended_session(self) -> str:
        cookie, csrf = self.sign_in(FULL)
        headers = {"Cookie": cookie, "X-CSRF-Token": csrf}
        self.ask(self.node.admin_url, "DELETE", "/api/v1/session", headers)
        return cookie


SQS_HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Target": "AmazonSQS.ListQueues",
}


def private(path: Path, document: object) -> str:
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return str(path)


def guards(folder: Path) -> tuple[str, ...]:
    key = {"access_key_id": KEY, "secret_access_key": KEY_SECRET}
    tokens = [
        {"name": "ops", "token": FULL, "role": "full"},
        {"name": "wall", "token": READ_ONLY, "role": "read-only"},
    ]
    credentials = private(folder / "credentials.json", {"credentials": [key]})
    return (
        *("--credentials", credentials),
        *("--admin-tokens", private(folder / "tokens.json", {"tokens": tokens})),
    )


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_signer(tmp_path_factory.mktemp("signer"))
    make_certificate(made)
    return made


@pytest.fixture(scope="module", params=["plain", "tls"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def site_of(signer: Path, folder: Path, transport: str, *flags: str) -> Iterator[Site]:
    secured = ("--tls-cert", f"{signer}/node1.pem", "--tls-key", f"{signer}/node1.key")
    is_tls = transport == "tls"
    context = ssl.create_default_context(cafile=f"{signer}/ca.pem") if is_tls else None
    with Node(folder / "node", *flags, *(secured if is_tls else ())) as node:
        yield Site(node, context)


@pytest.fixture(scope="module")
def closed(
    signer: Path, transport: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("closed")
    yield from site_of(signer, folder, transport, *guards(folder))


@pytest.fixture(scope="module")
def opened(
    signer: Path, transport: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    yield from site_of(signer, tmp_path_factory.mktemp("open"), transport)


def bearer(token: str) -> Headers:
    return {"Authorization": f"Bearer {token}"}


def session(site: Site, token: str = FULL) -> Headers:
    cookie, csrf = site.sign_in(token)
    return {"Cookie": cookie, "X-CSRF-Token": csrf}


def closed_rows(site: Site) -> dict[str, tuple[Headers, tuple[str, str] | None]]:
    whole, other = session(site), session(site)
    right = (KEY, KEY_SECRET)
    return {
        "nobody in particular": ({}, None),
        "an access key that is not in the file": ({}, ("AKIDOFNOBODY", KEY_SECRET)),
        "an access key with a wrong secret": ({}, (KEY, "a-guess")),
        "an access key": ({}, right),
        "a token that is not in the file": (bearer("a-token-of-nobody-here"), None),
        "a read-only token": (bearer(READ_ONLY), None),
        "a full token": (bearer(FULL), None),
        "a session, with its CSRF token": (whole, None),
        "a session, without CSRF token": ({"Cookie": whole["Cookie"]}, None),
        "a session, with another one's CSRF token": (
            whole | {"X-CSRF-Token": other["X-CSRF-Token"]},
            None,
        ),
        "a read-only session, with its CSRF token": (session(site, READ_ONLY), None),
        "a session that has ended": (
            {"Cookie": site.ended_session(), "X-CSRF-Token": whole["X-CSRF-Token"]},
            None,
        ),
        "a page of another origin, with a session": (whole | {"Origin": EVIL}, None),
        "an access key, from a page of another origin": ({"Origin": EVIL}, right),
        "a full token, for another `Host`": (bearer(FULL) | {"Host": "evil.example"}, None),
    }


def open_rows(site: Site) -> dict[str, tuple[Headers, tuple[str, str] | None]]:
    return {
        "nobody in particular": ({}, None),
        "any access key": ({}, ("AKIDOFNOBODY", "whatever")),
        "a page of another origin": ({"Origin": EVIL}, None),
        "another `Host`, made to resolve to this machine": ({"Host": "evil.example:9325"}, None),
        "a page of its own, without a session": ({"Sec-Fetch-Site": "same-origin"}, None),
    }


@pytest.mark.parametrize("who", CLOSED.rows)
def test_a_node_with_guards(closed: Site, who: str) -> None:
    assert closed.attempts(*closed_rows(closed)[who]) == CLOSED.rows[who]


@pytest.mark.parametrize("who", OPEN.rows)
def test_an_open_node(opened: Site, who: str) -> None:
    assert opened.attempts(*open_rows(opened)[who]) == OPEN.rows[who]


def test_without_tls_there_is_nothing(closed: Site, opened: Site) -> None:
    for site in (closed, opened):
        if site.context is None:
            continue
        # It cannot ask for the queues either, which shows none.
        plain = Site(site.node, None)
        for headers, signed in (({}, None), (bearer(FULL), None), ({}, (KEY, KEY_SECRET))):
            assert plain.attempts(headers, signed) == WITHOUT_TLS.rows["anybody"]


def test_a_page_without_tls_is_no_page_of_a_node_with_it(opened: Site) -> None:
    """Whoever is between a browser and the host could have made it."""
    host = urlsplit(opened.node.admin_url).netloc
    status = {
        scheme: opened.attempts({"Origin": f"{scheme}://{host}"}, None)[1]
        for scheme in ("http", "https")
    }
    assert status == {"http": 403 if opened.context else 200, "https": 200}


# --- members --------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """What somebody comes with."""

    is_right_secret: bool
    link: TlsContexts | None = None
    control: PeerTls | None = None


def without_certificate(ours: PeerTls, authority: Path) -> Shown:
    contexts = [ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)]
    for context in contexts:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority)
    nothing: Any = None
    return Shown(True, TlsContexts(*contexts), ours._replace(certificate=nothing, key=nothing))


def of_another_signer(ours: PeerTls, theirs: PeerTls, folder: Path) -> Shown:
    """Trusts ours, so that only its own certificate is at fault."""
    contexts = [ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)]
    for context in contexts:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ours" / "ca.pem")
        context.load_cert_chain(folder / "theirs" / "node1.pem", folder / "theirs" / "node1.key")
    return Shown(True, TlsContexts(*contexts), theirs._replace(authority=ours.authority))


async def link_of(tls: PeerTls | None, shown: Shown, secret: bytes) -> str:
    one = PeerNode(1, tls=tls and tls.contexts)
    two = PeerNode(2, tls=shown.link, secret=SECRET if shown.is_right_secret else secret)
    async with running(one, two):
        await one.start()
        await two.start({1: one.address})
        await until(lambda: (one.ups and two.ups) or two.logged.having("cannot link"))
        assert bool(one.ups) is bool(two.ups)
        return LET_IN if one.ups else REFUSED


async def control_of(tls: PeerTls | None, shown: Shown, secret: bytes) -> str:
    async with serving(tls=tls) as serving_node:
        given = CONTROL_SECRET if shown.is_right_secret else secret
        caller = client(tls=shown.control, secret=given)
        try:
            await caller.status(serving_node.peer)
        except OperationError:
            return REFUSED
        finally:
            await caller.close()
        return LET_IN


def outcomes(tls: PeerTls | None, shown: Shown, secret: bytes) -> tuple[str, str]:
    links: list[str] = []

    async def link() -> None:
        links.append(await link_of(tls, shown, secret))

    run_clean("uvloop", link())
    return links[0], run(control_of(tls, shown, secret))


def test_members_with_certificates(tmp_path: Path) -> None:
    ours, theirs = make_ours_and_theirs(tmp_path)
    rows = {
        "the secret, and a certificate of the signer": Shown(True, ours.contexts, ours),
        "another secret, and a certificate of the signer": Shown(False, ours.contexts, ours),
        "the secret, and no certificate": without_certificate(ours, tmp_path / "ours" / "ca.pem"),
        "the secret, and a certificate of another signer": of_another_signer(
            ours, theirs, tmp_path
        ),
        "the secret, without TLS": Shown(True),
    }
    found = {who: outcomes(ours, shown, b"a guess at the secret") for who, shown in rows.items()}
    assert found == MEMBERS_TLS.rows


def test_members_with_a_secret(tmp_path: Path) -> None:
    found = {
        "the secret": outcomes(None, Shown(True), b""),
        "another secret": outcomes(None, Shown(False), b"a guess at the secret"),
        "no secret": outcomes(None, Shown(False), b""),
    }
    assert found == MEMBERS_SECRET.rows


def test_the_document_shows_these_tables() -> None:
    document = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    for table in TABLES:
        assert rendered(table) in document, f"paste this:\n{rendered(table)}"
