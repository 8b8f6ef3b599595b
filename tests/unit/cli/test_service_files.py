"""Unit, container and kernel files of `deploy/`: checked with what there is to check them."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from fastnode.config import HTTP_CONNECTIONS_MAX
from fastnode.data_format import FORMAT_VERSION
from fastnode.settings import OPTIONS

ROOT: Final = Path(__file__).parents[3]
UNIT: Final = ROOT / "deploy" / "systemd" / "fastnode.service"
DOCKERFILE: Final = (ROOT / "deploy" / "docker" / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: Final = ROOT / "deploy" / "docker" / "compose.yaml"
INSTRUCTIONS: Final = frozenset(
    {"FROM", "COPY", "ENV", "RUN", "WORKDIR", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK"}
    | {"ENTRYPOINT", "CMD"}
)
COMMAND_SECONDS: Final = 60


def fastnode(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fastnode", *words]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=COMMAND_SECONDS, check=False
    )


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is not installed: apt install systemd",
)
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    # The program need not be installed here.
    copy = tmp_path / "fastnode.service"
    copy.write_text(text.replace("/opt/fastnode/bin/fastnode", sys.executable), encoding="utf-8")
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


def test_the_unit_allows_the_files_that_a_node_wants() -> None:
    limit = re.search(r"^LimitNOFILE=(\d+)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    assert limit is not None and int(limit[1]) >= HTTP_CONNECTIONS_MAX + 1_024


def test_the_configuration_of_the_unit_is_one() -> None:
    assert fastnode("config", "check", "deploy/systemd/fastnode.toml").returncode == 0


# --- containers ---------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in joined.splitlines() if line]


def test_the_dockerfile_names_what_exists() -> None:
    stages: set[str] = set()
    for word, rest in instructions():
        assert word in INSTRUCTIONS, word
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            assert re.fullmatch(r"[a-z]+:\d[\w.-]+", base), f"{base} has no version"
            stages.add(name)
        elif word == "COPY" and rest.startswith("--from="):
            assert rest.removeprefix("--from=").split()[0] in stages
        elif word == "COPY":
            missing = [name for name in rest.split()[:-1] if not (ROOT / name).exists()]
            assert missing == []
        elif word in ("ENTRYPOINT", "CMD"):
            assert json.loads(rest)


def test_the_dockerfile_copies_what_a_build_reads() -> None:
    copied = {name for word, rest in instructions() if word == "COPY" for name in rest.split()}
    ignored = (ROOT / "deploy/docker/Dockerfile.dockerignore").read_text(encoding="utf-8")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "build_backend", "fastnode"):
        assert name in copied and f"!{name}\n" in ignored
    assert {"rust_ext", "spark_load"} <= copied


def test_the_dockerfile_starts_a_node_that_is_allowed_to() -> None:
    (command,) = (json.loads(rest) for word, rest in instructions() if word == "CMD")
    shown = fastnode("config", "show", *command[1:])
    assert command[0] == "run" and shown.returncode == 0, shown.stderr


def compose_commands() -> list[list[str]]:
    text = COMPOSE.read_text(encoding="utf-8")
    return [line.split() for line in re.findall(r"^    command: (.+)$", text, re.MULTILINE)]


def test_nodes_of_the_compose_file_are_one_cluster(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef")
    secret.chmod(0o600)
    names = {option.flag for option in OPTIONS}
    peers: set[str] = set()
    for number, words in enumerate(compose_commands(), start=1):
        assert words[:3] == ["run", "--node-id", str(number)]
        assert {word for word in words if word.startswith("--")} <= names
        flags = [str(secret) if word == "/secret" else word for word in words[1:]]
        shown = fastnode("config", "show", *flags)
        assert shown.returncode == 0, shown.stderr
        peers.add(words[words.index("--peers") + 1])
        assert f"{number}={words[words.index('--raft') + 1]}" in words[-4]
    assert len(compose_commands()) == 3 and len(peers) == 1


@pytest.mark.skipif(
    shutil.which("docker-compose") is None,
    reason="docker-compose is not installed: apt install docker-compose",
)
def test_compose_resolves_the_file() -> None:
    ended = subprocess.run(
        ["docker-compose", "--file", str(COMPOSE), "config"],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert re.findall(r"^  ([abc]):$", ended.stdout, re.MULTILINE) == ["a", "b", "c"]


# --- the page -----------------------------------------------------------------------------------


def page() -> str:
    return (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


def test_every_format_has_its_rule() -> None:
    rows = re.findall(r"^\| (\d+) \| .{5,} \| .{5,} \|$", page(), re.MULTILINE)
    assert rows == [str(number) for number in range(1, FORMAT_VERSION + 1)]


def test_every_dependency_has_its_reason() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = {pin.partition("==")[0] for pin in project["project"]["dependencies"]}
    section = page().split("| package | why |\n")[1].split("\n\n")[0]
    named = re.findall(r"^\| ([\w, ]+) \|", section, re.MULTILINE)
    assert {name for row in named for name in row.split(", ")} == pinned


def test_kernel_settings_are_names_and_values() -> None:
    lines = (ROOT / "deploy/sysctl/90-fastnode.conf").read_text(encoding="utf-8").splitlines()
    settings = [line for line in lines if line and not line.startswith("#")]
    assert len(settings) > 5
    for setting in settings:
        name, value = setting.split(" = ")
        # A container may not show every name of the kernel.
        path = Path("/proc/sys") / name.replace(".", "/")
        assert path.exists() or not path.parent.exists(), name
        assert re.fullmatch(r"\d+", value), setting
