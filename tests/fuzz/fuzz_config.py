"""Any text as a configuration: `t` a TOML file of ours, `h` a HOCON file of ElasticMQ, `f` flags
and variables, one to a line.

It is understood, or refused with a line that says what is wrong. What is converted from HOCON is a
file that we read.
"""

import contextlib
import tempfile
from pathlib import Path
from typing import Final

from fastnode.cli.elasticmq import convert
from fastnode.errors import FastnodeError, UsageError
from fastnode.settings import OPTIONS, load_settings

LINES_MAX: Final = 12
FIELDS: Final = {option.field for option in OPTIONS}


def check(data: bytes) -> None:
    kind, rest = data[:1], data[1:]
    if kind == b"t":
        _load(rest)
    elif kind == b"h":
        _convert(rest.decode("utf-8", "replace"))
    elif kind == b"f":
        _flags(rest.decode("utf-8", "replace"))


def _load(content: bytes) -> bool:
    with tempfile.NamedTemporaryFile(suffix=".toml", dir=_place()) as file:
        file.write(content)
        file.flush()
        try:
            load_settings({}, {}, config=file.name)
        except UsageError as refusal:
            assert str(refusal).strip() and "\n" not in str(refusal), refusal
            return False
    return True


def _place() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _convert(text: str) -> None:
    try:
        converted = convert(text)
    except ValueError as refusal:
        assert str(refusal).strip(), "a refusal says why"
        return
    assert _load(converted.toml.encode()), "what was converted is not read"


def _flags(text: str) -> None:
    lines = [line.partition("=") for line in text.splitlines()[:LINES_MAX]]
    flags = {name: value for name, _, value in lines if name in FIELDS}
    variables = {name: value for name, _, value in lines if name.startswith("FASTNODE_")}
    # A path that is named here is somebody's, and is not looked for.
    variables.pop("FASTNODE_CONFIG", None)
    with contextlib.suppress(FastnodeError):
        load_settings(flags, variables)
