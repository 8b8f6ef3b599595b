"""`--tls-cert`: clients of the SQS API and the admin listener speak TLS, with a certificate that
can be replaced while the node runs.
"""

import contextlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import SSLError

from tests.certificates import make_certificate, make_signer
from tests.metrics_text import read_metrics
from tests.nodes import ANSWER_SECONDS, REGION, ROOT, Node, environment

DEADLINE_SECONDS = 120.0


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signer with certificates 1 and 2 for this host."""
    signer = make_signer(tmp_path_factory.mktemp("ours"))
    for number in (1, 2):
        make_certificate(signer, number, "IP:127.0.0.1,DNS:localhost")
    return signer


def place(signer: Path, folder: Path, number: int = 1) -> tuple[str, ...]:
    """Copies that may be replaced, and the flags that name them."""
    pair = folder / "server.pem", folder / "server.key"
    for source, target in zip(("pem", "key"), pair, strict=True):
        shutil.copy(signer / f"node{number}.{source}", target)
    return "--tls-cert", str(pair[0]), "--tls-key", str(pair[1])


@pytest.fixture(scope="module", params=["1", "2"], ids=["one process", "two workers"])
def node(
    ours: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("secured")
    flags = place(ours, folder)
    with Node(folder / "node", *flags, "--workers", str(request.param)) as node:
        yield node


def trusting(signer: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(signer / "ca.pem"))


def connect(url: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    plain = socket.create_connection((parts.hostname, parts.port), timeout=ANSWER_SECONDS)
    return context.wrap_socket(plain, server_hostname=parts.hostname)


def ask(channel: socket.socket, path: str = "/healthz") -> bytes:
    channel.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = channel.recv(65_536)
        if not part:
            break
        answer += part
    return answer


def sqs_client(node: Node, ca: Path, **more: Any) -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=node.sqs_url,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        verify=str(ca),
        config=Config(retries={"total_max_attempts": 1}, read_timeout=ANSWER_SECONDS),
        **more,
    )


def test_boto3_with_a_private_signer(node: Node, ours: Path) -> None:
    """Queues of all workers by one connection: calls for others are forwarded."""
    client = sqs_client(node, ours / "ca.pem")
    assert node.sqs_url.startswith("https://") and node.admin_url.startswith("https://")
    for number in range(8):
        url = client.create_queue(QueueName=f"plain{number}")["QueueUrl"]
        assert url == f"{node.sqs_url}/000000000000/plain{number}"
        body = str(number) * (1 if number else 200_000)
        client.send_message(QueueUrl=url, MessageBody=body)
        (message,) = client.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
        assert message["Body"] == body
        client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    with connect(node.admin_url, trusting(ours)) as channel:
        channel.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with channel.makefile("rb") as file:
            page = file.read().partition(b"\r\n\r\n")[2].decode()
    moved = read_metrics(page).get("fastnode_connections_handed_over_total")
    assert moved is None or moved.samples[0].value == 0
    ends = read_metrics(page)["fastnode_certificate_expiry_timestamp_seconds"].samples
    assert [sample.labels for sample in ends] == [{"shown_to": "clients"}]
    assert 360 < (ends[0].value - time.time()) / 86_400 < 366


def test_boto3_refuses_a_signer_that_it_does_not_know(
    node: Node, tmp_path_factory: pytest.TempPathFactory
) -> None:
    theirs = make_signer(tmp_path_factory.mktemp("theirs"))
    with pytest.raises(SSLError):
        sqs_client(node, theirs / "ca.pem").list_queues()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_and_alpn(node: Node, ours: Path, version: ssl.TLSVersion) -> None:
    context = trusting(ours)
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    for url in (node.sqs_url, node.admin_url):
        with connect(url, context) as channel:
            assert channel.selected_alpn_protocol() == "http/1.1"
            answer = ask(channel)
            assert answer.startswith(b"HTTP/1.1 ")
            # It would bind every port of the host, also those of other programs.
            assert b"strict-transport-security" not in answer.lower()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_are_refused(node: Node, ours: Path) -> None:
    context = trusting(ours)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        connect(node.sqs_url, context)


def plain_socket(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=ANSWER_SECONDS)


def test_whoever_comes_without_tls_is_told(node: Node) -> None:
    for url in (node.sqs_url, node.admin_url):
        with plain_socket(url) as channel:
            answer = ask(channel)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.endswith(b"this address speaks TLS: begin its URL with https://\n")


HELLO_CUT = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x00\x05aaaaa", b"\x16" * 300, HELLO_CUT, b"", b"\x00" * 70_000]
)
def test_broken_handshakes_leave_nothing_behind(node: Node, ours: Path, garbage: bytes) -> None:
    """Cut at any place, by either side, and the next client is served."""
    for _ in range(5):
        with plain_socket(node.sqs_url) as channel, contextlib.suppress(OSError):
            channel.sendall(garbage)
            channel.shutdown(socket.SHUT_WR)
            while channel.recv(65_536):
                pass
    with connect(node.sqs_url, trusting(ours)) as channel:
        assert ask(channel).startswith(b"HTTP/1.1 ")


def test_the_end_of_a_client_ends_its_wait(node: Node, ours: Path) -> None:
    """A client that says goodbye while it waits takes no message with it."""
    client = sqs_client(node, ours / "ca.pem")
    url = client.create_queue(QueueName="waiting")["QueueUrl"]
    body = f'{{"QueueUrl":"{url}","WaitTimeSeconds":20}}'.encode()
    head = (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.0\r\n"
        b"X-Amz-Target: AmazonSQS.ReceiveMessage\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    with connect(node.sqs_url, trusting(ours)) as channel:
        channel.sendall(head + body)
        with contextlib.suppress(OSError):
            channel.unwrap()
    client.send_message(QueueUrl=url, MessageBody="for somebody else")
    (message,) = client.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    assert message["Body"] == "for somebody else"


def test_policies_see_the_transport(node: Node, ours: Path) -> None:
    client = sqs_client(node, ours / "ca.pem")
    url = client.create_queue(QueueName="secret")["QueueUrl"]
    statement = (
        '{"Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", '
        '"Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "%s"}}}'
    )
    for denied, is_let_in in (("false", True), ("true", False)):
        policy = '{"Version": "2012-10-17", "Statement": [%s]}' % (statement % denied)
        client.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        if is_let_in:
            client.send_message(QueueUrl=url, MessageBody="by TLS")
        else:
            with pytest.raises(client.exceptions.ClientError, match="AccessDenied"):
                client.send_message(QueueUrl=url, MessageBody="by TLS")


def test_a_node_asks_itself_by_tls_before_a_queue_gets_partitions(node: Node, ours: Path) -> None:
    client = sqs_client(node, ours / "ca.pem")
    url = client.create_queue(
        QueueName="spread.fifo",
        Attributes={
            "FifoQueue": "true",
            "DeduplicationScope": "messageGroup",
            "FifoThroughputLimit": "perMessageGroupId",
            "PartitionCount": "4",
        },
    )["QueueUrl"]
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert found["FifoThroughputLimit"] == "perMessageGroupId"


# --- replacing the certificate --------------------------------------------------------------------


def eventually(what: str, holds: Callable[[], bool], node: Node) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}\n{node.stderr_tail()}"
        time.sleep(0.05)


def subject(url: str, signer: Path) -> str:
    """Who the certificate of a new connection is made out to."""
    with connect(url, trusting(signer)) as channel:
        shown: Any = channel.getpeercert()
    return str(shown["subject"][0][0][1])


def replace(path: Path, source: Path) -> None:
    """At once: a worker that is slow to look sees one of them, and no half."""
    shutil.copy(source, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


@pytest.mark.parametrize(("workers", "by_signal"), [("1", False), ("1", True), ("2", True)])
def test_a_new_certificate_for_new_connections(
    ours: Path, tmp_path: Path, workers: str, by_signal: bool
) -> None:
    flags = place(ours, tmp_path)
    with Node(tmp_path / "node", *flags, "--workers", workers) as node:
        urls = (node.sqs_url, node.admin_url)
        with connect(node.sqs_url, trusting(ours)) as old:
            assert ask(old).startswith(b"HTTP/1.1 ")
            if by_signal:
                # Nothing has changed, so nobody but the signal makes it read them.
                node.process.send_signal(signal.SIGHUP)
                eventually("read", lambda: '"certificate read"' in node.stderr_tail(), node)
            # The key of another certificate, as it is between the two files of a careless copy.
            replace(tmp_path / "server.pem", ours / "node2.pem")
            if by_signal:
                node.process.send_signal(signal.SIGHUP)
            refused = "the old certificate stays in force"
            eventually("refused", lambda: refused in node.stderr_tail(), node)
            assert "do not belong together" in node.stderr_tail()
            assert {subject(url, ours) for url in urls} == {"fastnode node 1"}
            replace(tmp_path / "server.key", ours / "node2.key")
            if by_signal:
                node.process.send_signal(signal.SIGHUP)
            # The system chooses among workers: many in a row are not one of them by chance.
            eventually(
                "taken over",
                lambda: {subject(url, ours) for url in urls * 4} == {"fastnode node 2"},
                node,
            )
            assert ask(old).startswith(b"HTTP/1.1 "), "a connection keeps what it began with"


# --- the commands ---------------------------------------------------------------------------------


def fastnode(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fastnode", *arguments],
        env=environment() | variables,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=ANSWER_SECONDS,
        check=False,
    )


def test_commands_by_tls(node: Node, ours: Path) -> None:
    ca = str(ours / "ca.pem")
    at = ("--endpoint", node.sqs_url, "--ca", ca)
    assert fastnode("queue", "create", "by-command", *at).returncode == 0
    listed = fastnode("queue", "ls", "--endpoint", node.sqs_url, AWS_CA_BUNDLE=ca)
    assert listed.returncode == 0 and "by-command" in listed.stdout
    peeked = fastnode("queue", "peek", "by-command", *at, "--admin", node.admin_url, "--json")
    assert peeked.returncode == 0, peeked.stderr
    status = fastnode("cluster", "status", "--admin", node.admin_url, "--ca", ca)
    assert status.returncode == 0, status.stderr


def test_a_configuration_file_makes_the_command_trust_the_node(
    ours: Path, tmp_path: Path, node: Node
) -> None:
    listen, admin = (urlsplit(url).netloc for url in (node.sqs_url, node.admin_url))
    file = tmp_path / "node.toml"
    pair = f'tls_cert = "{ours}/node1.pem"\ntls_key = "{ours}/node1.key"\n'
    file.write_text(f'listen = "{listen}"\nadmin = "{admin}"\n{pair}')
    for command in (("queue", "ls"), ("cluster", "status")):
        ended = fastnode(*command, "--config", str(file))
        assert ended.returncode == 0, ended.stderr


def test_what_commands_say_when_tls_fails(node: Node, ours: Path, tmp_path: Path) -> None:
    theirs, https = make_signer(tmp_path / "theirs"), node.admin_url
    plain = https.replace("https", "http")
    cases = [
        (("--admin", https), 1, "give the certificate of who has signed it with --ca FILE"),
        (("--admin", https, "--ca", f"{theirs}/ca.pem"), 1, "with --ca FILE"),
        (("--admin", https, "--ca", f"{tmp_path}/none.pem"), 2, "give --ca a PEM certificate"),
        (("--admin", https, "--ca", f"{theirs}/ca.key"), 2, "give --ca a PEM certificate"),
        (("--admin", plain), 1, f"speaks TLS: give --admin {https}"),
        (
            ("--admin", https.replace("127.0.0.1", "127.0.0.2"), "--ca", f"{ours}/ca.pem"),
            None,
            "127.0.0.2",
        ),
    ]
    for arguments, code, words in cases:
        ended = fastnode("cluster", "status", *arguments)
        assert words in ended.stderr and "Traceback" not in ended.stderr, ended.stderr
        assert ended.returncode == code or code is None
    ended = fastnode("queue", "ls", "--endpoint", node.sqs_url.replace("https", "http"))
    assert "speaks TLS: give --endpoint https://" in ended.stderr and ended.returncode == 1


def test_a_command_that_speaks_tls_to_a_plain_node(tmp_path: Path) -> None:
    with Node(tmp_path / "node") as plain:
        ended = fastnode("cluster", "status", "--admin", plain.admin_url.replace("http", "https"))
    assert ended.returncode == 1 and "begin the address with http://" in ended.stderr
