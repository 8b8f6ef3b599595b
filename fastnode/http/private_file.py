"""Files with secrets that an operator gives us: read whole, refused if others can read them."""

import json
import os
import stat
from typing import Any, Final, TypeVar

import msgspec

from fastnode.errors import StartError

_OTHERS: Final = 0o077
Document = TypeVar("Document")


def read_private_file(path: str, kind: str, flag: str, bytes_max: int) -> bytes:
    """At most one byte more than `bytes_max`. Raises `StartError`, which says what to do; `kind` is
    what the file is called there.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(bytes_max + 1) if stat.S_ISREG(mode) else b""
    except OSError as error:
        raise StartError(
            f"cannot read the {kind} file {path}: {error.strerror}: correct {flag} or "
            "the file's owner"
        ) from error
    if not stat.S_ISREG(mode):
        raise StartError(f"{path} is not a file: give {flag} a JSON file")
    if stat.S_IMODE(mode) & _OTHERS:
        raise StartError(f"the {kind} file {path} is open to other users: chmod 600 {path}")
    return content


def parse_private_json(content: bytes, kind: type[Document], bytes_max: int) -> Document:
    """Raises `ValueError`; its text says where, and never what: the file is full of secrets."""
    if len(content) > bytes_max:
        raise ValueError(f"it is larger than {bytes_max} bytes")
    try:
        return msgspec.convert(json.loads(content, object_pairs_hook=_distinct_members), kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise ValueError(f"it is not JSON: {error.msg} at {where}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _distinct_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice in one object")
    return found


def fingerprint(path: str) -> tuple[int, ...] | None:
    """Changes whenever the file is replaced, written or given another mode."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_dev, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _open_at_once(path: str, flags: int) -> int:
    """A pipe that was named by mistake may never be written to."""
    return os.open(path, flags | os.O_NONBLOCK)
