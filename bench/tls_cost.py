"""What TLS costs a node: its CPU for a send, its CPU for a handshake, its memory for a connection,
each beside the same without TLS. `python -m bench.tls_cost`.

CPU of the node's process, not time: a busy machine changes that little. Rounds with and without TLS
take turns, and the median counts.
"""

import http.client
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from tests.nodes import Node

ROUNDS = 5
CONNECTIONS = 8
SENDS = 1_000
HANDSHAKES = 300
IDLE = 500
BODY = "x" * 1_024
_TICKS = os.sysconf("SC_CLK_TCK")


def make_pair(folder: Path) -> tuple[str, ...]:
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30")
    names = ("-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    command = ["openssl", "req", "-x509", *curve, *names, "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    os.chmod(key, 0o600)
    return "--tls-cert", certificate, "--tls-key", key


class Target:
    def __init__(self, node: Node, context: ssl.SSLContext | None) -> None:
        self.node = node
        self.context = context
        self.queue = f"{node.sqs_url}/000000000000/bench"
        with self.connected(20) as connections:
            for connection in connections:
                send(connection, "CreateQueue", '{"QueueName":"bench"}')

    def connection(self) -> http.client.HTTPConnection:
        host = urlsplit(self.node.sqs_url).netloc
        if self.context is None:
            return http.client.HTTPConnection(host, timeout=30)
        return http.client.HTTPSConnection(host, timeout=30, context=self.context)

    def connected(self, count: int = 1) -> "Connections":
        return Connections(self, count)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.node.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_bytes(self) -> int:
        fields = Path(f"/proc/{self.node.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


class Connections:
    """Open for as long as it lasts."""

    def __init__(self, target: Target, count: int) -> None:
        self._all = [target.connection() for _ in range(count)]

    def __enter__(self) -> list[http.client.HTTPConnection]:
        for connection in self._all:
            connection.connect()
        return self._all

    def __exit__(self, *_: object) -> None:
        for connection in self._all:
            connection.close()


def send(connection: http.client.HTTPConnection, action: str, body: str) -> None:
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{action}"}
    connection.request("POST", "/", body, headers)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text


def microseconds_per_send(target: Target) -> float:
    body = f'{{"QueueUrl":"{target.queue}","MessageBody":"{BODY}"}}'

    def work(connection: http.client.HTTPConnection) -> None:
        for _ in range(SENDS):
            send(connection, "SendMessage", body)

    with target.connected(CONNECTIONS) as connections:
        before = target.cpu_seconds()
        threads = [threading.Thread(target=work, args=(one,)) for one in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (target.cpu_seconds() - before) * 1e6 / (CONNECTIONS * SENDS)


def microseconds_per_connection(target: Target) -> float:
    """Opened, asked once and closed."""
    before = target.cpu_seconds()
    for _ in range(HANDSHAKES):
        with target.connected() as (connection,):
            send(connection, "ListQueues", "{}")
    return (target.cpu_seconds() - before) * 1e6 / HANDSHAKES


def bytes_per_connection(target: Target) -> float:
    before = target.resident_bytes()
    with target.connected(IDLE) as connections:
        for connection in connections:
            send(connection, "ListQueues", "{}")
        return (target.resident_bytes() - before) / IDLE


def main() -> None:
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        flags = make_pair(folder)
        plain = Target(stack.enter_context(Node(folder / "plain")), None)
        context = ssl.create_default_context(cafile=flags[1])
        secured = Target(stack.enter_context(Node(folder / "tls", *flags)), context)
        targets = {"plain": plain, "tls": secured}
        # First: what a busy node has freed would hide it.
        sizes = [bytes_per_connection(target) / 1_024 for target in targets.values()]
        sys.stdout.write(f"memory of a connection, KiB: {sizes[0]:.0f} -> {sizes[1]:.0f}\n")
        measures = {
            "CPU of a send, us": microseconds_per_send,
            "CPU of a connection, us": microseconds_per_connection,
        }
        for name, measure in measures.items():
            found = {kind: list[float]() for kind in targets}
            for _ in range(ROUNDS):
                for kind, target in targets.items():
                    found[kind].append(measure(target))
            plain_median, tls_median = (statistics.median(found[kind]) for kind in targets)
            ratio = tls_median / plain_median
            sys.stdout.write(f"{name}: {plain_median:.0f} -> {tls_median:.0f}, x{ratio:.2f}\n")


if __name__ == "__main__":
    main()
