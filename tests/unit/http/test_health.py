"""The two health pages of the SQS listener: what each method and each Accept gets, before anybody
is asked who they are.
"""

import logging

import pytest

from fastnode.cluster.capabilities import HTFIFO, problem_of
from fastnode.http.health import Health
from fastnode.http.identity import IdentitySettings
from fastnode.http.router import Router
from fastnode.http.sigv4 import Verifier
from fastnode.queue.operations import OPERATIONS
from tests.unit.http.http_fakes import Node, get
from tests.world import World

JSON = b'{"status":"ok","capabilities":["htfifo"]}\n'


class Setup:
    """A node with credentials, so that whoever does not sign is anonymous."""

    def __init__(self, capabilities: tuple[str, ...] = ("htfifo",)) -> None:
        self.leads = True
        self.node = Node()
        verifier = Verifier({}, lambda: 0, None)
        router = Router(
            OPERATIONS,
            World().service,
            IdentitySettings("us-east-1", "http://127.0.0.1:9324", verifier=verifier),
            lambda: "id",
            logging.getLogger("fastnode.test"),
            Health(capabilities, lambda: self.leads),
        )
        self.node.server.respond = router.respond

    def send(self, raw: bytes) -> tuple[int, dict[str, str], bytes]:
        connection, transport = self.node.connect()
        connection.data_received(raw)
        head, _, body = transport.written.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return int(status.split()[1]), headers, body


@pytest.fixture
def setup() -> Setup:
    return Setup()


@pytest.mark.parametrize(
    "headers", [(), (b"Accept: */*",), (b"Accept: text/html, application/*",), (b"Accept:",)]
)
def test_health_is_text_unless_json_is_named(setup: Setup, headers: tuple[bytes, ...]) -> None:
    status, sent, body = setup.send(get(b"/sqs_health", *headers))
    assert (status, body) == (200, b"ok\n")
    assert sent["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    "accept",
    [
        b"application/json",
        b"Application/JSON",
        b"text/html, application/json;q=0.5",
        b"application/json, */*",
    ],
)
def test_health_names_the_capabilities_in_json(setup: Setup, accept: bytes) -> None:
    status, sent, body = setup.send(get(b"/sqs_health", b"Accept: " + accept))
    assert (status, body) == (200, JSON)
    assert sent["Content-Type"] == "application/json"
    assert problem_of(status, body, HTFIFO) == ""


def test_a_node_without_the_capability_says_so() -> None:
    body = Setup(()).send(get(b"/sqs_health", b"Accept: application/json"))[2]
    assert body == b'{"status":"ok","capabilities":[]}\n'


@pytest.mark.parametrize("path", [b"/sqs_health", b"/sqs_leader_health"])
def test_a_head_is_a_get_without_body(setup: Setup, path: bytes) -> None:
    asked = get(path, b"Accept: application/json")
    (status, sent, _), head = setup.send(asked), setup.send(b"HEAD" + asked[3:])
    assert head == (status, sent, b"")


def test_leader_health_follows_the_lead(setup: Setup) -> None:
    assert setup.send(get(b"/sqs_leader_health"))[::2] == (200, b"ok\n")
    setup.leads = False
    assert setup.send(get(b"/sqs_leader_health"))[::2] == (503, b"not the leader\n")
    assert setup.send(get(b"/sqs_health"))[0] == 200


@pytest.mark.parametrize("path", [b"/sqs_health", b"/sqs_leader_health"])
@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"OPTIONS"])
def test_other_methods_are_refused(setup: Setup, path: bytes, method: bytes) -> None:
    status, sent, _ = setup.send(method + get(path, b"Content-Length: 0")[3:])
    assert (status, sent["Allow"]) == (405, "GET, HEAD")


def test_a_call_is_refused_there_like_any_post(setup: Setup) -> None:
    headers = (
        b"X-Amz-Target: AmazonSQS.SendMessage",
        b"Content-Type: application/x-amz-json-1.0",
        b"Content-Length: 0",
    )
    assert setup.send(b"POST" + get(b"/sqs_health", *headers)[3:])[0] == 405


@pytest.mark.parametrize("target", [b"/sqs_health?x=1", b"http://node/sqs_health"])
def test_the_page_is_known_by_its_path_alone(setup: Setup, target: bytes) -> None:
    assert setup.send(get(target))[::2] == (200, b"ok\n")


@pytest.mark.parametrize(
    "path", [b"/", b"/sqs_healthy", b"/sqs_health/", b"/000000000000/sqs_health", b"/SQS_HEALTH"]
)
def test_other_paths_belong_to_the_api(setup: Setup, path: bytes) -> None:
    assert setup.send(get(path + b"?Action=ListQueues"))[0] == 403


def test_a_router_without_pages_has_no_health() -> None:
    node = Node()
    router = Router(
        OPERATIONS,
        World().service,
        IdentitySettings("us-east-1", "http://127.0.0.1:9324"),
        lambda: "id",
        logging.getLogger("fastnode.test"),
    )
    node.server.respond = router.respond
    connection, transport = node.connect()
    connection.data_received(get(b"/sqs_health"))
    assert transport.written.startswith(b"HTTP/1.1 404 ")
