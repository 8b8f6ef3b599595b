"""The clients of `make clients`: which version, what is checked, how it is installed and started.

A client is a program of its own in its own language; it prints `ok` and the name of each check that
held. Versions are pinned in `pyproject.toml`, `package.json`, `go.mod` and the `pom.xml` files, and
read from there.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.nodes import ROOT

HERE: Final = Path(__file__).parent
BUILD: Final = ROOT / "build" / "clients"
INSTALL_SECONDS: Final = 600
SDK_CHECKS: Final = ("life cycle", "batch", "attributes", "errors", "long poll")


class Client(NamedTuple):
    """`prepare` installs what is missing and returns the command that runs the checks."""

    name: str
    version: str
    checks: tuple[str, ...]
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
    folder.mkdir(parents=True, exist_ok=True)
    run(command, INSTALL_SECONDS, folder, {})


# --- versions -----------------------------------------------------------------------------------


def _pins(extra: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins: list[str] = project["project"]["optional-dependencies"][extra]
    return pins


def pinned(extra: str, package: str) -> str:
    (version,) = (pin.partition("==")[2] for pin in _pins(extra) if pin.startswith(package + "=="))
    return version


def npm_version(package: str) -> str:
    described: dict[str, Any] = json.loads((HERE / "javascript" / "package.json").read_bytes())
    return str(described["dependencies"][package])


def _found(pattern: str, path: Path) -> str:
    match = re.search(pattern, path.read_text(encoding="utf-8"))
    assert match is not None, f"{path} pins no {pattern}"
    return match[1]


def maven_version(folder: str, artifact: str) -> str:
    pattern = rf"<artifactId>{artifact}</artifactId>\s*<version>([^<]+)<"
    return _found(pattern, HERE / folder / "pom.xml")


def go_version(module: str) -> str:
    return _found(rf"{re.escape(module)} v(\S+)", HERE / "go" / "go.mod")


# --- commands -----------------------------------------------------------------------------------


def virtual_environment(extra: str) -> Path:
    """The programs of an environment that holds exactly what the extra pins."""
    pins = _pins(extra)
    folder = BUILD / extra
    done = folder / "pins"
    if not done.exists() or done.read_text() != "\n".join(pins):
        install([sys.executable, "-m", "venv", "--clear", str(folder)], BUILD)
        install([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *pins], BUILD)
        done.write_text("\n".join(pins))
    return folder / "bin"


def program(name: str, extra: str = "") -> Callable[[], list[str]]:
    """A check in Python, in an environment of its own if it needs other packages than our tests."""

    def prepare() -> list[str]:
        python = virtual_environment(extra) / "python" if extra else Path(sys.executable)
        return [str(python), str(HERE / name)]

    return prepare


def aws_cli() -> list[str]:
    aws = virtual_environment("client-aws-cli") / "aws"
    return [sys.executable, str(HERE / "cli_check.py"), str(aws)]


def celery() -> list[str]:
    return [sys.executable, "-c", "from tests.clients.celery_check import main; main()"]


def javascript(name: str) -> Callable[[], list[str]]:
    def prepare() -> list[str]:
        folder = BUILD / "javascript"
        folder.mkdir(parents=True, exist_ok=True)
        for source in ("package.json", name):
            shutil.copy(HERE / "javascript" / source, folder / source)
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        install(["npm", "install", *quiet], folder)
        return ["node", str(folder / name)]

    return prepare


def go() -> list[str]:
    built = BUILD / "go" / "check"
    install(["go", "build", "-o", str(built), "."], HERE / "go")
    return [str(built)]


def maven(name: str, main_class: str) -> Callable[[], list[str]]:
    def prepare() -> list[str]:
        folder = BUILD / name
        list_of_jars = folder / "classpath"
        project = ["mvn", "--quiet", "--batch-mode", "--file", str(HERE / name / "pom.xml")]
        written = f"-Dmdep.outputFile={list_of_jars}"
        install([*project, "compile", "dependency:build-classpath", written], ROOT)
        jars = list_of_jars.read_text().strip()
        return ["java", "-cp", f"{folder / 'classes'}:{jars}", main_class]

    return prepare


CLIENTS: Final = (
    Client("boto3 (JSON)", pinned("dev", "boto3"), SDK_CHECKS, (), program("boto3_check.py")),
    Client(
        "boto3 of 2023 (Query)",
        pinned("client-boto3-query", "boto3"),
        SDK_CHECKS,
        (),
        program("boto3_check.py", "client-boto3-query"),
    ),
    Client(
        "aioboto3",
        pinned("client-aioboto3", "aioboto3"),
        SDK_CHECKS,
        (),
        program("aioboto3_check.py", "client-aioboto3"),
    ),
    Client("AWS CLI", pinned("client-aws-cli", "awscli"), SDK_CHECKS, (), aws_cli),
    Client(
        "JavaScript SDK v3",
        npm_version("@aws-sdk/client-sqs"),
        SDK_CHECKS,
        ("node", "npm"),
        javascript("check.mjs"),
    ),
    Client(
        "sqs-consumer (JavaScript)",
        npm_version("sqs-consumer"),
        ("messages", "batches", "retries", "dead letters", "heartbeat"),
        ("node", "npm"),
        javascript("consumer.mjs"),
    ),
    Client(
        "Java SDK v2",
        maven_version("java", "sqs"),
        SDK_CHECKS,
        ("java", "mvn"),
        maven("java", "Check"),
    ),
    Client(
        "Spring Cloud AWS",
        maven_version("spring", "spring-cloud-aws-starter-sqs"),
        ("messages", "batches", "retries", "dead letters", "order"),
        ("java", "mvn"),
        maven("spring", "check.SpringCheck"),
    ),
    Client(
        "Go SDK v2",
        go_version("github.com/aws/aws-sdk-go-v2/service/sqs"),
        SDK_CHECKS,
        ("go",),
        go,
    ),
    Client(
        "Celery",
        pinned("dev", "celery"),
        ("tasks", "retries", "ETA", "late acknowledgement"),
        (),
        celery,
    ),
    Client(
        "Dramatiq with dramatiq-sqs",
        f"{pinned('client-dramatiq', 'dramatiq')}, {pinned('client-dramatiq', 'dramatiq-sqs')}",
        ("tasks", "delays", "retries", "dead letters"),
        (),
        program("dramatiq_check.py", "client-dramatiq"),
    ),
)
