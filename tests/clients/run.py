"""`make clients`: every real client against an open node and against one that verifies signatures.

A client is a program of its own in its own language; it prints `ok` and the name of each check that
held. What it needs besides its runtime is installed below `build/clients`, in the versions that
`pyproject.toml`, `package.json` and `pom.xml` pin. A runtime that is not installed is reported and
skipped; a client that does not print every check has failed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.clients.keys import client_environment, credentials_file
from tests.nodes import ROOT, Node

HERE: Final = Path(__file__).parent
BUILD: Final = ROOT / "build" / "clients"
CHECKS: Final = ("life cycle", "batch", "attributes", "errors", "long poll")
INSTALL_SECONDS: Final = 600
CHECK_SECONDS: Final = 180


class Client(NamedTuple):
    """`prepare` installs what is missing and returns the command that runs the checks."""

    name: str
    runtimes: tuple[str, ...]
    prepare: Callable[[], list[str]]


class Failed(Exception):
    """A command that did not end well; says what it wrote."""


def run(command: list[str], seconds: int, folder: Path, added: dict[str, str]) -> str:
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **added},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{command[0]} took more than {seconds} s") from error
    if ended.returncode:
        written = (ended.stdout + ended.stderr)[-3_000:]
        raise Failed(f"{command[0]} ended with {ended.returncode}\n{written}")
    return ended.stdout


def install(command: list[str], folder: Path) -> None:
    run(command, INSTALL_SECONDS, folder, {})


def virtual_environment(extra: str) -> Path:
    """The programs of an environment that holds exactly what the extra pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pins: list[str] = project["project"]["optional-dependencies"][extra]
    folder = BUILD / extra
    done = folder / "pins"
    if not done.exists() or done.read_text() != "\n".join(pins):
        BUILD.mkdir(parents=True, exist_ok=True)
        install([sys.executable, "-m", "venv", "--clear", str(folder)], BUILD)
        install([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *pins], BUILD)
        done.write_text("\n".join(pins))
    return folder / "bin"


def boto3() -> list[str]:
    return [sys.executable, str(HERE / "boto3_check.py")]


def old_boto3() -> list[str]:
    python = virtual_environment("client-boto3-query") / "python"
    return [str(python), str(HERE / "boto3_check.py")]


def aws_cli() -> list[str]:
    aws = virtual_environment("client-aws-cli") / "aws"
    return [sys.executable, str(HERE / "cli_check.py"), str(aws)]


def javascript() -> list[str]:
    folder = BUILD / "javascript"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "check.mjs"):
        shutil.copy(HERE / "javascript" / name, folder / name)
    quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
    install(["npm", "install", *quiet], folder)
    return ["node", str(folder / "check.mjs")]


def java() -> list[str]:
    folder = BUILD / "java"
    list_of_jars = folder / "classpath"
    project = ["mvn", "--quiet", "--batch-mode", "--file", str(HERE / "java" / "pom.xml")]
    written = f"-Dmdep.outputFile={list_of_jars}"
    install([*project, "compile", "dependency:build-classpath", written], ROOT)
    return ["java", "-cp", f"{folder / 'classes'}:{list_of_jars.read_text().strip()}", "Check"]


CLIENTS: Final = (
    Client("boto3 (JSON)", (), boto3),
    Client("boto3 of 2023 (Query)", (), old_boto3),
    Client("AWS CLI", (), aws_cli),
    Client("JavaScript SDK v3", ("node", "npm"), javascript),
    Client("Java SDK v2", ("java", "mvn"), java),
)


def missing_runtime(client: Client) -> str | None:
    return next((name for name in client.runtimes if shutil.which(name) is None), None)


def complaint_about(client: Client, nodes: dict[str, Node], queue: str) -> str | None:
    """None if every check held on every node."""
    try:
        command = client.prepare()
        for kind, node in nodes.items():
            told = {"AWS_ENDPOINT_URL": node.sqs_url, "CHECK_QUEUE": queue}
            printed = run(command, CHECK_SECONDS, BUILD, client_environment() | told)
            held = [line[3:] for line in printed.splitlines() if line.startswith("ok ")]
            if held != list(CHECKS):
                raise Failed(f"{kind}: of {CHECKS} only {held}")
    except Failed as failure:
        return str(failure)
    return None


def verdict_on(client: Client, nodes: dict[str, Node], queue: str) -> tuple[str, str]:
    missing = missing_runtime(client)
    if missing is not None:
        return "skipped", f"{missing} is not installed"
    complaint = complaint_about(client, nodes, queue)
    return ("passed", ", ".join(CHECKS)) if complaint is None else ("failed", complaint)


def main() -> int:
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    BUILD.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        Node(Path(folder) / "open") as open_node,
        Node(
            Path(folder) / "verified", "--credentials", str(credentials_file(Path(folder)))
        ) as verified,
    ):
        nodes = {"open node": open_node, "node that verifies signatures": verified}
        for number, client in enumerate(CLIENTS):
            verdict, reason = verdict_on(client, nodes, f"client-{number}")
            print(f"{client.name}: {verdict}: {reason}", flush=True)
            counts[verdict] += 1
        for kind, node in nodes.items():
            if "Traceback" in node.stderr_tail():
                print(f"{kind}: failed: it logged a bug\n{node.stderr_tail()}")
                counts["failed"] += 1
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
