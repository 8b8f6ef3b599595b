"""Secrets stay where they are: not in logs, answers, metrics, process lists or the environment of a
process; and what a node writes is for its own user alone.
"""

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.certificates import make_certificate, make_signer
from tests.integration.test_access_matrix import Site
from tests.nodes import ROOT, Node, boto3_client, environment

KEY, KEY_SECRET = "AKIDOFSOMEBODY", "wJalrXUtnFEMI-of-somebody"
GUESS = "wJalrXUtnFEMI-a-guess"
FULL, STRANGE = "a-full-token-4f6d8a2b", "a-strange-token-99ab12"
CLUSTER_SECRET = "a-cluster-secret-7d1e55"
BODY = "a-body-that-nobody-else-should-see"
DEADLINE_SECONDS = 120.0


class Scene(NamedTuple):
    site: Site
    folder: Path
    secrets: dict[str, str]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A node that has been told every secret, and used by all sorts of people."""
    signer = make_signer(tmp_path / "signer")
    files = make_certificate(signer)
    flags = [
        *("--credentials", private(tmp_path / "keys.json", keys_document())),
        *("--admin-tokens", private(tmp_path / "tokens.json", tokens_document())),
        *("--cluster-secret", private(tmp_path / "secret", CLUSTER_SECRET)),
        *("--peer-tls-cert", files.certificate, "--peer-tls-key", files.key),
        *("--peer-tls-ca", files.authority, "--access-log", str(tmp_path / "access")),
        *("--log-level", "debug", "--slow-request-ms", "1"),
    ]
    with contextlib.ExitStack() as stack:
        before = os.umask(0)
        try:
            node = stack.enter_context(Node(tmp_path / "node", *flags))
        finally:
            os.umask(before)
        site = Site(node, None)
        key_line = Path(files.key).read_text().splitlines()[1]
        secrets = {"private key": key_line, **use(site)}
        node.process.send_signal(signal.SIGHUP)
        until_logged(node, "settings read")
        yield Scene(site, tmp_path, secrets)


def private(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(0o600)
    return str(path)


def keys_document() -> object:
    return {"credentials": [{"access_key_id": KEY, "secret_access_key": KEY_SECRET}]}


def tokens_document() -> object:
    return {"tokens": [{"name": "ops", "token": FULL, "role": "full"}]}


def use(site: Site) -> dict[str, str]:
    """Right and wrong; the secrets that came of it, and those that were shown."""
    client = boto3_client(site.node.sqs_url)
    signer = client._request_signer
    signer._credentials.access_key, signer._credentials.secret_key = KEY, KEY_SECRET
    url = client.create_queue(QueueName="private")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody=BODY)
    client.receive_message(QueueUrl=url)
    signer._credentials.secret_key = GUESS
    with pytest.raises(client.exceptions.ClientError, match="SignatureDoesNotMatch"):
        client.list_queues()
    admin, kind = site.node.admin_url, {"Content-Type": "application/json"}
    for body in (b'{"token": "%b"}', b'{"token": "%b", "x": 1}', b'"%b'):
        asked = body % STRANGE.encode()
        assert site.ask(admin, "POST", "/api/v1/session", kind, asked)[0].status in (400, 401)
    assert site.ask(admin, "GET", "/api/v1/queues", bearer(STRANGE))[0].status == 401
    assert site.ask(admin, "GET", "/api/v1/queues", bearer(FULL))[0].status == 200
    cookie, csrf = site.sign_in(FULL)
    change = kind | {"Cookie": cookie, "X-CSRF-Token": csrf}
    created = site.ask(admin, "POST", "/api/v1/queues", change, b'{"name": "second"}')
    assert created[0].status == 200
    return {
        "secret of a key": KEY_SECRET,
        "secret that was guessed": GUESS,
        "token": FULL,
        "token of a stranger": STRANGE,
        "cluster secret": CLUSTER_SECRET,
        "session": cookie.partition("=")[2],
        "CSRF token": csrf,
    }


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def until_logged(node: Node, words: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while words not in node.stderr_tail():
        assert time.monotonic() < deadline, node.stderr_tail()
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """It, and what it has started. The kernel lists those of each thread."""
    lists = (path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return [pid, *(one for found in lists for child in found for one in children(int(child)))]


def test_no_secret_is_written_or_shown(scene: Scene) -> None:
    node, site = scene.site.node, scene.site
    pages = ("/metrics", "/api/v1/overview", "/api/v1/queues", "/api/v1/cluster")
    shown = [site.ask(node.admin_url, "GET", page, bearer(FULL))[1].decode() for page in pages]
    assert all('"private"' in page for page in (shown[0], shown[2]))
    processes = children(node.process.pid)
    for pid in processes:
        shown += [Path(f"/proc/{pid}/{what}").read_text() for what in ("cmdline", "environ")]
    assert node.stop() == 0
    log = (scene.folder / "node.stderr").read_text()
    access = "".join(path.read_text() for path in (scene.folder / "access").iterdir())
    # They would tell, if something were told: the places are the right ones.
    assert "an admin change" in log and "SendMessage" in access
    assert str(scene.folder / "keys.json") in "".join(shown)
    for name, secret in scene.secrets.items():
        assert len(secret) >= 16
        for place, text in (("log", log), ("access log", access), ("answers", "".join(shown))):
            assert secret not in text, f"the {name} is in the {place}"
    for place, text in (("log", log), ("access log", access), ("metrics", shown[0])):
        assert BODY not in text, f"a message is in the {place}"


def test_what_a_node_writes_is_for_its_user_alone(scene: Scene) -> None:
    """Although the shell that started it has a umask of 0."""
    for folder in ("node", "access"):
        found = [scene.folder / folder, *(scene.folder / folder).rglob("*")]
        assert len(found) > (10 if folder == "node" else 1)
        for path in found:
            if path.is_symlink():
                continue
            mode = stat.S_IMODE(path.stat().st_mode)
            assert not mode & 0o077, f"{path} has mode {mode:o}"


def test_workers_are_not_told_by_their_arguments(tmp_path: Path) -> None:
    keys = private(tmp_path / "keys.json", keys_document())
    with Node(tmp_path / "node", "--workers", "2", "--credentials", keys) as node:
        processes = children(node.process.pid)
        assert len(processes) == 3
        for pid in processes:
            for what in ("cmdline", "environ"):
                assert KEY_SECRET not in Path(f"/proc/{pid}/{what}").read_text()
        for path in (tmp_path / "node").rglob("*"):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_a_command_has_no_flag_for_a_secret() -> None:
    """A token, a key, a passphrase: from files and variables only."""
    for command in (("run",), ("queue", "send"), ("cluster", "status")):
        ended = subprocess.run(
            [sys.executable, "-m", "fastnode", *command, "--help"],
            env=environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        words = [line.split() for line in ended.stdout.splitlines() if line.startswith("  --")]
        suspects = ("secret", "token", "password", "credential", "key")
        for flag, *rest in words:
            if any(suspect in flag for suspect in suspects):
                assert rest[0] == "FILE", f"{flag} {rest[0]}"
