"""Members that speak TLS with each other and know no secret: the certificates are made by the
commands of docs/cluster.md. They form a cluster, fail over, join; strangers get nothing.
"""

import contextlib
import json
import os
import re
import socket
import ssl
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastnode.peers.tls import TlsFiles
from tests.certificates import flags_of, make_certificate, make_signer
from tests.cluster.harness import Cluster, Member, eventually, peers_flag, run_command, tolerant
from tests.cluster.network import Loopback
from tests.cluster.replicas import verify_replicas
from tests.cluster.workload import under_load

# The address comes second, so that control calls have to go by the name.
HOST = "DNS:localhost,IP:127.0.0.1"
STRANGER_SECONDS = 60.0


class TlsCluster(Cluster):
    def __init__(self, directory: Path, network: Loopback) -> None:
        super().__init__(directory, network, "--cluster-secret", "")
        self.signer = make_signer(directory / "ours")

    def add_certified(self, number: int, *flags: str) -> Member:
        certificate = make_certificate(self.signer, number, HOST)
        return self.add(number, *flags, *flags_of(certificate))

    def join(self, number: int) -> Member:
        joined = self.add_certified(number, "--join", self.network.place(1).raft)
        joined.start()
        self.await_voters(self.members)
        self.await_ready()
        return joined

    def reachable(self) -> set[int]:
        """What `fastnode cluster status` of node 1 says."""
        admin = self.network.place(1).admin
        ended = run_command("cluster", "status", "--json", "--admin", admin)
        assert ended.returncode == 0, ended.stderr
        return {row["id"] for row in json.loads(ended.stdout)["nodes"] if row["reachable"]}


@contextlib.contextmanager
def cluster_in(directory: Path) -> Iterator[TlsCluster]:
    network = Loopback()
    made = TlsCluster(directory, network)
    with contextlib.closing(network), made:
        yield made


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    with cluster_in(tmp_path_factory.mktemp("tls")) as made:
        for number in (1, 2, 3):
            made.add_certified(number, "--peers", peers_flag(made.network, (1, 2, 3)))
        made.start()
        made.await_ready()
        yield made
        verify_replicas(made)


@pytest.fixture
def cluster(started: TlsCluster) -> TlsCluster:
    started.make_whole()
    return started


@pytest.mark.timeout(900)
def test_three_fail_over_and_a_fourth_joins_under_load(cluster: TlsCluster) -> None:
    with under_load(cluster, "tls") as load:
        killed = cluster.members[statistics.mode(cluster.await_leaders())]
        killed.kill()
        cluster.await_leaders()
        load.await_progress(count=20)
        killed.start()
        cluster.await_ready()
        cluster.join(4)
        load.await_progress()
    eventually("all are linked", tolerant(lambda: cluster.reachable() == {1, 2, 3, 4}))
    assert "does not tell its state" not in cluster.members[1].stderr()


@pytest.mark.timeout(900)
def test_whoever_joins_a_founder_gets_its_state_by_a_snapshot(tmp_path: Path) -> None:
    with cluster_in(tmp_path) as cluster:
        founder = cluster.add_certified(1)
        founder.start()
        with under_load(cluster, "before") as load:
            load.await_progress()
        # A stop flushes everything, so that the log begins behind it.
        assert founder.stop() == 0
        founder.start()
        cluster.join(2).await_line("a snapshot was installed")
        verify_replicas(cluster)


# --- strangers ------------------------------------------------------------------------------------


def context_of(files: TlsFiles | None) -> ssl.SSLContext:
    """Of one who does not care whom it talks to."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    return context


def said_to(port: int, context: ssl.SSLContext | None, words: bytes) -> bytes:
    """What a stranger hears when it says something, once the connection is closed."""
    with contextlib.ExitStack() as stack:
        talking = socket.create_connection(("127.0.0.1", port), STRANGER_SECONDS)
        stack.callback(lambda: talking.close())
        try:
            if context is not None:
                talking = context.wrap_socket(talking)
            talking.sendall(words)
            return b"".join(iter(lambda: talking.recv(65_536), b""))
        except (ConnectionError, ssl.SSLError):
            return b""


def listening_ports(pid: int) -> set[int]:
    """Of a process, as the kernel tells it."""
    links = (
        os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()
    )
    inodes = {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", link))}
    found = set()
    for family in ("tcp", "tcp6"):
        for row in Path(f"/proc/{pid}/net/{family}").read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def port_in(address: str) -> int:
    return int(address.rpartition(":")[2])


def control_port(cluster: TlsCluster) -> int:
    """Node 1 opens it when it is first asked for it, as for the status of all."""
    node = cluster.members[1]
    admin = cluster.network.place(2).admin
    assert run_command("cluster", "status", "--admin", admin).returncode == 0
    known = {port_in(address) for address in (node.place.listen, node.place.admin, node.place.raft)}
    (port,) = listening_ports(node.process.pid) - known
    return port


STRANGERS = {
    "plain": "the peer does not speak TLS",
    "no certificate": "the peer shows no certificate",
    "another signer": "the certificate of the peer is not accepted: unable to get local issuer",
    "expired": "the certificate of the peer is not accepted: certificate has expired",
}


def stranger(kind: str, cluster: TlsCluster, folder: Path) -> ssl.SSLContext | None:
    if kind == "plain":
        return None
    if kind == "no certificate":
        return context_of(None)
    if kind == "expired":
        return context_of(make_certificate(cluster.signer, 99, days=-1))
    return context_of(make_certificate(make_signer(folder / "theirs")))


HELLO = bytes((0, 0, 0, 60, 1)) + b"fastnode" + bytes(51)
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_stranger_gets_nothing_and_one_line(
    cluster: TlsCluster, tmp_path: Path, kind: str
) -> None:
    node, context = cluster.members[1], stranger(kind, cluster, tmp_path)
    offset = len(node.stderr())
    for _ in range(3):
        assert said_to(port_in(node.place.raft), context, HELLO) == b""
    node.await_line(STRANGERS[kind], offset)
    assert len(re.findall("without a handshake", node.stderr()[offset:])) == 1
    assert said_to(control_port(cluster), context, HTTP2) == b""
    lines = node.stderr()[offset:].splitlines()
    assert all("logger=fastnode" in line for line in lines), "gRPC wrote lines of its own"
    assert node.is_ready()


def test_a_member_is_heard_where_strangers_are_not(cluster: TlsCluster, tmp_path: Path) -> None:
    """The same words, with a certificate: the tests above could fail."""
    context = context_of(make_certificate(cluster.signer, 98))
    context.set_alpn_protocols(["h2"])
    assert said_to(control_port(cluster), context, HTTP2 + b"no frame of HTTP/2") != b""


@pytest.mark.parametrize("kind", ["another signer", "plain"])
def test_a_node_with_wrong_flags_does_not_join(
    cluster: TlsCluster, tmp_path: Path, kind: str
) -> None:
    flags = ["--groups", "4", "--join", cluster.network.place(1).raft]
    if kind == "another signer":
        flags += flags_of(make_certificate(make_signer(tmp_path / "theirs")))
    (tmp_path / "wrong").mkdir()
    wrong = Member(9, tmp_path / "wrong", cluster.network.place(9), flags)
    with wrong.ended():
        wrong.launch()
        wrong.await_line("cannot link to peer.*(TLS|certificate)")
        # Not from here on: the same complaint about the same host is not repeated for a minute. It
        # is the newcomer who ends a handshake with a certificate that he does not accept.
        why = f"{STRANGERS[kind]}|the connection was closed during the handshake"
        cluster.members[1].await_line(f"without a handshake.*({why})")
    assert not any((tmp_path / "wrong").iterdir())
    assert 9 not in cluster.reachable()
