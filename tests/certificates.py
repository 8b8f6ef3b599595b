"""Certificates for members, made by the commands that docs/cluster.md shows to operators."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fastnode.peers.tls import PeerTls, TlsFiles, load_tls

DOCUMENT = Path(__file__).parents[1] / "docs" / "cluster.md"
LOOPBACK = "IP:127.0.0.1"


def documented() -> tuple[str, str]:
    """The blocks to copy: one for the signer, one for each node. The last one starts a node."""
    chapter = DOCUMENT.read_text().split("### TLS between members\n")[1]
    signer, node, _start = re.findall(r"```sh\n(.*?)```", chapter.split("\n## ")[0], re.DOTALL)
    return signer, node


def make_signer(folder: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command makes the certificates")
    folder.mkdir(exist_ok=True)
    _run(documented()[0], folder)
    return folder


def make_certificate(
    signer: Path, node: int = 1, host: str = LOOPBACK, *, days: int = 365, use: str = ""
) -> TlsFiles:
    """Of a node; `days` may be over, and `use` one end of a connection only."""
    script = documented()[1].replace("NODE=1 HOST=DNS:a\n", f"NODE={node} HOST={host}\n")
    script = script.replace("-days 365", f"-days {days}")
    if use:
        script = script.replace("serverAuth,clientAuth", use)
    _run(script, signer)
    return files_of(signer, node)


def files_of(signer: Path, node: int = 1) -> TlsFiles:
    own = (signer / f"node{node}.pem", signer / f"node{node}.key", signer / "ca.pem")
    return TlsFiles(*map(str, own))


def make_ours_and_theirs(folder: Path) -> tuple[PeerTls, PeerTls]:
    """A node's own certificate, and one that somebody else has signed."""
    ours, theirs = (make_signer(folder / name) for name in ("ours", "theirs"))
    return load_tls(make_certificate(ours)), load_tls(make_certificate(theirs))


def flags_of(files: TlsFiles) -> tuple[str, ...]:
    names = ("--peer-tls-cert", "--peer-tls-key", "--peer-tls-ca")
    return tuple(text for pair in zip(names, files, strict=True) for text in pair)


def _run(script: str, folder: Path) -> None:
    ended = subprocess.run(
        ["sh", "-eu", "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"{script}\n{ended.stderr}"
