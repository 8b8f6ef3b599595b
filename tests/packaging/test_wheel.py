"""`make wheel-check`: the wheel in `dist/` is installed in a fresh environment, far from the tree,
where a node runs from it. Slow, because the wheel is built first.
"""

import ast
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from fastnode._ways import WAYS
from tests.nodes import READY, ROOT, JsonClient

INSTALL_SECONDS: Final = 600


@pytest.fixture(scope="module")
def wheel() -> Path:
    wheels = sorted((ROOT / "dist").glob("fastnode-*.whl"), key=lambda path: path.stat().st_mtime)
    assert wheels, "there is no wheel: run make wheel"
    return wheels[-1]


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`fastnode` of an environment that holds the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", str(wheel)]
    subprocess.run(install, check=True, timeout=INSTALL_SECONDS, cwd=folder)
    return folder / "bin" / "fastnode"


def own_environment() -> dict[str, str]:
    """Nothing of it leads back to the sources."""
    foreign = ("FASTNODE_", "PYTHON", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def test_the_wheel_holds_every_compiled_part(wheel: Path) -> None:
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    found = re.search(r"MODULES = \(([^()]+)\.split\(\)", setup)
    assert found is not None
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    native: str = ast.literal_eval(f"({found[1]})")
    for module in (*native.split(), *WAYS, "_raftlog"):
        path = "fastnode/" + module.replace(".", "/")
        assert any(re.fullmatch(rf"{path}\.[\w.-]+\.so", name) for name in names), module
    assert "fastnode/http/console/index.html" in names
    assert not [name for name in names if name.startswith(("tests/", "bench/"))]


@pytest.mark.timeout(INSTALL_SECONDS + 200)
def test_a_node_runs_from_it(program: Path, tmp_path: Path) -> None:
    version = subprocess.run(
        [str(program), "version"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=own_environment(),
        timeout=60,
    )
    assert "compiled" in version.stdout, version.stdout
    ports = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--raft", "127.0.0.1:0"]
    with subprocess.Popen(
        [str(program), "run", "--data-dir", str(tmp_path / "data"), *ports],
        cwd=tmp_path,
        env=own_environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as node:
        try:
            assert node.stdout is not None
            ready = READY.fullmatch(node.stdout.readline())
            assert ready is not None
            sqs = JsonClient(ready[1])
            queue = sqs.call("CreateQueue", QueueName="orders")["QueueUrl"]
            sqs.call("SendMessage", QueueUrl=queue, MessageBody="from a wheel")
            (message,) = sqs.call("ReceiveMessage", QueueUrl=queue)["Messages"]
            assert message["Body"] == "from a wheel"
            sqs.close()
            node.send_signal(signal.SIGTERM)
            assert node.wait(30) == 0
        finally:
            node.kill()
