"""Other servers that speak SQS: fetched at a pinned version, started on loopback, stopped.

What each of them needs is in `peer_files/`, its version too, nowhere else. They are fetched with
the tools of their own world into a directory of `build/`, once; nothing is installed. What is
measured about them is decided in `peers`.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.server_process import Server, ServerError, pinned, stop

FILES = Path(__file__).parent / "peer_files"
FETCH_SECONDS_MAX = 600.0
READY_SECONDS_MAX = 60.0
LOG_BYTES_MAX = 400
MAVEN_VERSION = "{http://maven.apache.org/POM/4.0.0}version"


class PeerMissing(Exception):
    """A peer that cannot be measured here, and why."""


class Peer(msgspec.Struct, frozen=True):
    """How to get and start one of them. `home` is the directory that it was fetched into."""

    name: str
    version: str
    runtime: str
    tools: tuple[str, ...]
    files: tuple[str, ...]
    fetch: tuple[str, ...]
    start: Callable[[Path, int], list[str]]
    environment: Mapping[str, str] = {}
    # Says the version of the runtime, if that is not pinned with the peer.
    version_command: tuple[str, ...] = ()

    def digest(self) -> str:
        """Of everything that decides what is fetched."""
        parts = [*self.fetch, *self.environment.items(), *map(read_file, self.files)]
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def read_file(name: str) -> str:
    """One of the files that a peer is fetched and started with."""
    return (FILES / name).read_text()


# --- versions ------------------------------------------------------------------------------------


def maven_version(pom: str) -> str:
    """The version of the only dependency."""
    (found,) = ElementTree.fromstring(pom).iterfind(f".//*/{MAVEN_VERSION}")
    assert found.text is not None
    return found.text


def npm_version(package: str, name: str) -> str:
    """The version of a dependency, which must be an exact one."""
    found = str(json.loads(package)["dependencies"][name])
    assert re.fullmatch(r"[0-9.]+", found), f"{name} {found} is not pinned"
    return found


def go_version(module: str, name: str) -> str:
    """The required version of a module, without its `v`."""
    found = re.search(rf"^\s*(?:require )?{re.escape(name)} v(\S+)", module, re.MULTILINE)
    assert found is not None, f"{name} is not required"
    return found[1]


# --- the peers -----------------------------------------------------------------------------------


def start_elasticmq(home: Path, port: int) -> list[str]:
    properties = [f"-Dpeer.port={port}", f"-Dconfig.file={home / 'elasticmq.conf'}"]
    return ["java", *properties, "-cp", f"{home}/lib/*", "org.elasticmq.server.Main"]


def start_fauxqs(home: Path, port: int) -> list[str]:
    return [f"{home}/node_modules/node/bin/node", f"{home}/fauxqs.mjs", str(port)]


def start_goaws(home: Path, port: int) -> list[str]:
    return [f"{home}/goaws", str(port), f"{home}/goaws.yaml"]


ELASTICMQ = Peer(
    name="ElasticMQ",
    version=maven_version(read_file("pom.xml")),
    runtime="Java",
    tools=("java", "mvn"),
    files=("pom.xml", "elasticmq.conf"),
    fetch=(
        *("mvn", "-q", "-B", "-Dmaven.repo.local=repository", "dependency:copy-dependencies"),
        *("-DincludeScope=runtime", "-DoutputDirectory=lib"),
    ),
    start=start_elasticmq,
    version_command=("java", "-version"),
)
FAUXQS = Peer(
    name="fauxqs",
    version=npm_version(read_file("package.json"), "fauxqs"),
    runtime=f"Node.js {npm_version(read_file('package.json'), 'node')}",
    tools=("npm",),
    files=("package.json", "fauxqs.mjs"),
    fetch=("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--cache=cache"),
    start=start_fauxqs,
)
GOAWS = Peer(
    name="goaws",
    version=go_version(read_file("go.mod"), "github.com/Admiral-Piett/goaws"),
    runtime="Go",
    tools=("go",),
    files=("go.mod", "main.go", "goaws.yaml"),
    fetch=("go", "build", "-o", "goaws", "."),
    start=start_goaws,
    # Go makes its module cache read-only unless told otherwise, and then nothing can remove it.
    environment={"GOPATH": "gopath", "GOCACHE": "gocache", "GOFLAGS": "-mod=mod -modcacherw"},
    version_command=("go", "version"),
)
PEERS = (ELASTICMQ, FAUXQS, GOAWS)


# --- fetching ------------------------------------------------------------------------------------


def fetch(peer: Peer, parent: Path) -> Path:
    """Its directory, filled now unless the same thing was fetched before."""
    for tool in peer.tools:
        if shutil.which(tool) is None:
            raise PeerMissing(f"{tool} is not installed")
    home = (parent / peer.name.lower()).resolve()
    mark, digest = home / "fetched", peer.digest()
    if mark.exists() and mark.read_text() == digest:
        return home
    home.mkdir(parents=True, exist_ok=True)
    for name in peer.files:
        shutil.copy(FILES / name, home / name)
    run_fetch(peer, home)
    mark.write_text(digest)
    return home


def run_fetch(peer: Peer, home: Path) -> None:
    """The command of its own world, with all that it keeps under the peer's directory."""
    own = {
        name: str(home / value) if name in ("GOPATH", "GOCACHE") else value
        for name, value in peer.environment.items()
    }
    try:
        subprocess.run(
            peer.fetch,
            cwd=home,
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS_MAX,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise PeerMissing(f"not fetched within {FETCH_SECONDS_MAX:g} s") from None
    except subprocess.CalledProcessError as failed:
        said = (failed.stderr.strip() or failed.stdout.strip()).splitlines()
        raise PeerMissing(
            f"{peer.fetch[0]} could not fetch it: {said[0] if said else ''}"
        ) from None


# --- running -------------------------------------------------------------------------------------


@contextmanager
def running(peer: Peer, home: Path, core: int | None) -> Iterator[Server]:
    """The peer on a free port, pinned like the others, with its output in a file."""
    port = free_port()
    log = home / "output.log"
    begun = time.monotonic()
    with log.open("wb") as output, pinned(core):
        process = subprocess.Popen(
            peer.start(home, port), cwd=home, stdout=output, stderr=subprocess.STDOUT, text=True
        )
    try:
        wait_until_open(process, port, begun + READY_SECONDS_MAX, log)
        yield Server(process.pid, f"127.0.0.1:{port}", None, time.monotonic() - begun)
    finally:
        stop(process)


def free_port() -> int:
    """A port that was free a moment ago: none of them takes a socket that is already open."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_until_open(
    process: "subprocess.Popen[str]", port: int, deadline: float, log: Path
) -> None:
    """Until it takes connections; raises if it ends or is silent too long."""
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = log.read_text(errors="replace")[-LOG_BYTES_MAX:].strip()
            raise ServerError(f"ended at once with {process.returncode}: {said}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise ServerError(f"not ready within {READY_SECONDS_MAX:g} s")
