"""Runs the blocks of a page, as a reader would who copies them one after the other.

A page has a folder and ports of its own: the documented ones are replaced, in the text where they
are written out and by variables where they are defaults. Without a `server` block, the page finds a
node that runs already.
"""

import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from tests.clients.catalog import virtual_environment
from tests.docs.blocks import Block, blocks_of, exchanges
from tests.nodes import ROOT

HERE: Final = Path(__file__).parent
HOST: Final = "127.0.0.1"
DOCUMENTED: Final = 9324
# SQS, admin, raft and control of three nodes, as `fastnode cluster dev` counts them.
OFFSETS: Final = tuple(10 * node + at for node in range(3) for at in range(4))
STOP_SECONDS: Final = 30
# A page has one server at a time; the next one takes its ports.
PROLOGUE: Final = """set -euo pipefail
beside=()
server=
end_server() {
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" || true; fi
}"""
OUTPUT_SHOWN: Final = 4_000


class Ended(NamedTuple):
    code: int
    output: str
    folder: Path

    @property
    def place(self) -> str:
        """The step that ran last."""
        return self.output.rpartition("\n@@ ")[2].partition("\n")[0]


def free_ports() -> int:
    """The first of a range with the ports of a cluster, below those that a system gives out."""
    for base in random.sample(range(20_000, 30_000, 40), 100):
        with ExitStack() as sockets:
            try:
                for offset in OFFSETS:
                    probe = sockets.enter_context(socket.socket())
                    probe.bind((HOST, base + offset))
            except OSError:
                continue
            return base
    raise AssertionError("no free ports")


def script_of(page: str, name: str, folder: Path, base: int, *, slow: bool) -> str:
    """Files are written here; everything else is for the shell."""
    steps = [PROLOGUE]
    for block in blocks_of(page):
        own = block._replace(text=replaced(block.text, base))
        if block.file_name:
            (folder / block.file_name).write_text(own.text, encoding="utf-8")
        elif block.is_run and (slow or block.mark != "slow"):
            steps += [f"printf '\\n@@ %s\\n' {name}:{block.line}", step(own, folder, base)]
    return "\n".join([*steps, 'for one in "${beside[@]}"; do wait "$one"; done', ""])


def replaced(text: str, base: int) -> str:
    for offset in OFFSETS:
        text = text.replace(f"{HOST}:{DOCUMENTED + offset}", f"{HOST}:{base + offset}")
    of_cluster = f"--port {base} --data-dir $PWD/fastnode-cluster"
    text = text.replace("make cluster", f'make cluster ARGS="{of_cluster}"')
    text = text.replace("fastnode cluster dev", f"fastnode cluster dev {of_cluster}")
    return re.sub("^make ", f"make -C {shlex.quote(str(ROOT))} ", text, flags=re.M)


def step(block: Block, folder: Path, base: int) -> str:
    if block.language == "python":
        path = folder / f"block-{block.line}.py"
        path.write_text(block.text, encoding="utf-8")
        return f"python {path.name}"
    if block.language == "console":
        return "\n".join(
            f"( {one.command} ) 2>&1 | tee printed-{block.line}-{number}"
            for number, one in enumerate(exchanges(block))
        )
    if block.mark == "server":
        nodes = 3 if "cluster" in block.text else 1
        addresses = " ".join(f"{HOST}:{base + 10 * node + 1}" for node in range(nodes))
        waits = f"python {shlex.quote(str(HERE / 'ready.py'))} $! {addresses}"
        log = f"server-{block.line}.log"
        begin = f"( exec {block.text.strip()} ) >{log} 2>&1 &"
        return f"end_server\n{begin}\nserver=$!\n{waits} || {{ cat {log}; exit 1; }}"
    if block.mark == "background":
        return f"( {block.text}) &\nbeside+=($!)"
    return block.text


def variables(folder: Path, base: int, *, slow: bool) -> dict[str, str]:
    foreign = ("FASTNODE", "AWS", "MAKE")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    programs = [Path(sys.executable).parent]
    if slow:
        programs.append(virtual_environment("client-aws-cli"))
    return own | {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "PATH": ":".join([*map(str, programs), own["PATH"]]),
        "FASTNODE_LISTEN": f"{HOST}:{base}",
        "FASTNODE_ADMIN": f"{HOST}:{base + 1}",
        "FASTNODE_RAFT": f"{HOST}:{base + 2}",
        "FASTNODE_DATA_DIR": str(folder / "fastnode-data"),
    }


def run_page(page: str, name: str, folder: Path, base: int, seconds: float, *, slow: bool) -> Ended:
    # A reader is in the clone; what a page writes is not to land there.
    for link in (".venv", "deploy"):
        (folder / link).symlink_to(ROOT / link)
    script = folder / "page.sh"
    script.write_text(script_of(page, name, folder, base, slow=slow), encoding="utf-8")
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            ["bash", str(script)],
            cwd=folder,
            env=variables(folder, base, slow=slow),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            end_group(process.pid)
    return Ended(code, (folder / "output").read_text(errors="replace"), folder)


def end_group(leader: int) -> None:
    """All that the page has started: asked first, so that a cluster takes its nodes along."""
    for kind, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        deadline = time.monotonic() + patience
        while members_of(leader):
            os.killpg(leader, kind)
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)


def members_of(leader: int) -> list[int]:
    """Processes of the group that still run; ended ones may wait for whoever started them."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = path.read_text().rpartition(") ")[2].split()[:3]
        except OSError:
            continue
        if int(group) == leader and state != "Z":
            found.append(int(path.parent.name))
    return found
