"""Links under TLS: both sides show a certificate of the right signer, or there is no link."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from fastnode.errors import StartError
from fastnode.peers.calls import ask
from fastnode.peers.peers import TlsContexts
from tests.integration.peer_nodes import (
    ECHO,
    LOOPS,
    QUICK,
    PeerNode,
    linked,
    run_clean,
    running,
    until,
)


@pytest.fixture(params=sorted(LOOPS))
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make_certificates(folder: Path, name: str) -> Path:
    """A signer of its own, and a certificate for 127.0.0.1 that it signed."""
    home = folder / name
    home.mkdir()
    extensions = home / "extensions"
    extensions.write_text("subjectAltName=IP:127.0.0.1\n")
    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    for command in (
        f"req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=signer-{name}"
        " -addext keyUsage=critical,keyCertSign",
        f"req {key} -keyout node.key -out node.csr -subj /CN=node-{name}",
        "x509 -req -in node.csr -CA ca.pem -CAkey ca.key -days 2 -CAcreateserial"
        " -extfile extensions -out node.pem",
    ):
        subprocess.run(["openssl", *command.split()], cwd=home, check=True, capture_output=True)
    return home


def contexts(own: Path, trusted: Path) -> TlsContexts:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.verify_mode = ssl.CERT_REQUIRED
    for context in (server, client):
        context.load_cert_chain(own / "node.pem", own / "node.key")
        context.load_verify_locations(trusted / "ca.pem")
    return TlsContexts(server, client)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Ours, and those of somebody else."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command makes the certificates")
    folder = tmp_path_factory.mktemp("certificates")
    return make_certificates(folder, "ours"), make_certificates(folder, "theirs")


def test_links_under_tls(loop: str, certificates: tuple[Path, Path]) -> None:
    async def scenario() -> None:
        ours, _ = certificates
        one, two = PeerNode(1, tls=contexts(ours, ours)), PeerNode(2, tls=contexts(ours, ours))
        async with linked(one, two) as (to_two, to_one):
            large = bytes(range(256)) * 12_000
            assert await ask(to_one, ECHO, large, 10.0) == (2, large)
            for link in (to_two, to_one):
                for _ in range(50):
                    assert await ask(link, ECHO, b"small", 10.0)
            assert to_one.send_raft(large) and to_one.send_raft(b"vote", is_urgent=True)
            await until(lambda: one.packets == [(2, b"vote"), (2, large)])

    run_clean(loop, scenario())


@pytest.mark.parametrize("wrong", ["dialer", "acceptor"])
def test_certificate_of_another_signer_is_refused(
    loop: str, certificates: tuple[Path, Path], wrong: str
) -> None:
    async def scenario() -> None:
        ours, theirs = certificates
        good = contexts(ours, ours)
        # The wrong side trusts ours, so that only its own certificate is at fault.
        bad = contexts(theirs, ours)
        one = PeerNode(1, tls=bad if wrong == "acceptor" else good)
        two = PeerNode(2, tls=bad if wrong == "dialer" else good)
        async with running(one, two):
            await one.start()
            await two.start({1: one.address})
            await until(lambda: two.logged.having("cannot link"))
            await until(lambda: one.logged.having("without a handshake"))
            await asyncio.sleep(0.2)
            assert not one.ups and not two.ups

    run_clean(loop, scenario())


@pytest.mark.parametrize("secure", [1, 2])
def test_tls_and_plain_do_not_mix(loop: str, certificates: tuple[Path, Path], secure: int) -> None:
    async def scenario() -> None:
        ours, _ = certificates
        quick = QUICK._replace(handshake_seconds=0.3)
        nodes = [
            PeerNode(number, timing=quick, tls=contexts(ours, ours) if number == secure else None)
            for number in (1, 2)
        ]
        async with running(*nodes):
            await nodes[0].start()
            await nodes[1].start({1: nodes[0].address})
            await until(lambda: nodes[1].logged.having("cannot link"))
            await until(lambda: nodes[0].logged.having("without a handshake"))
            assert not nodes[0].ups and not nodes[1].ups

    run_clean(loop, scenario())


def test_tls_must_demand_certificates(certificates: tuple[Path, Path]) -> None:
    careless = contexts(certificates[0], certificates[0])
    careless.server.verify_mode = ssl.CERT_OPTIONAL
    with pytest.raises(StartError):
        PeerNode(1, tls=careless)
