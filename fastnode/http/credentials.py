"""The credentials file: who may sign requests. Read at start, and again when it changes. A shell.

A new file is used as a whole or not at all: one that cannot be used leaves the old keys in force
and says so in the log. What a key signs is checked in `sigv4.py`.
"""

import json
import logging
import os
import re
import stat
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from fastnode.config import CREDENTIALS_BYTES_MAX
from fastnode.errors import StartError
from fastnode.http.identity import ACCOUNT_DEFAULT
from fastnode.http.sigv4 import Key

WATCH_SECONDS: Final = 2.0
_ACCESS_KEY: Final = re.compile(r"[A-Za-z0-9+=.@_-]{1,128}")
_ACCOUNT: Final = re.compile(r"[0-9]{12}")
log: Final = logging.getLogger("fastnode.credentials")


class _Entry(Struct, frozen=True, forbid_unknown_fields=True):
    access_key_id: str
    secret_access_key: str
    account: str = ACCOUNT_DEFAULT


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    credentials: list[_Entry]


class CredentialsFile:
    """`keys` are those of the last good file. `on_change` is told when they are others."""

    def __init__(self, path: str) -> None:
        """Raises `StartError`."""
        self._path = path
        self._seen = _fingerprint(path)
        self.keys = read_credentials(path)
        self.on_change: Callable[[Mapping[str, Key]], None] | None = None

    def reload(self) -> None:
        self._seen = _fingerprint(self._path)
        try:
            self.keys = read_credentials(self._path)
        except StartError as error:
            log.error("the old credentials stay in force: %s", error)
            return
        log.info("credentials read keys=%d", len(self.keys))
        if self.on_change is not None:
            self.on_change(self.keys)

    def reload_if_changed(self) -> None:
        if _fingerprint(self._path) != self._seen:
            self.reload()

    def watch(self, call_later: Callable[..., object]) -> None:
        """Look at the file now and every few seconds, by the event loop's `call_later`."""
        self.reload_if_changed()
        call_later(WATCH_SECONDS, self.watch, call_later)


def read_credentials(path: str) -> dict[str, Key]:
    """Access key → what is known of it. Raises `StartError`, which says what to do."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(CREDENTIALS_BYTES_MAX + 1) if stat.S_ISREG(mode) else b""
    except OSError as error:
        raise StartError(
            f"cannot read the credentials file {path}: {error.strerror}: correct --credentials or "
            "the file's owner"
        ) from error
    if not stat.S_ISREG(mode):
        raise StartError(f"{path} is not a file: give --credentials a JSON file")
    if stat.S_IMODE(mode) & 0o077:
        raise StartError(f"the credentials file {path} is open to other users: chmod 600 {path}")
    try:
        return parse_credentials(content)
    except ValueError as error:
        raise StartError(f"the credentials file {path} is not usable: {error}") from error


def parse_credentials(content: bytes) -> dict[str, Key]:
    """Raises `ValueError`; its text says where, and never what: the file is full of secrets."""
    if len(content) > CREDENTIALS_BYTES_MAX:
        raise ValueError(f"it is larger than {CREDENTIALS_BYTES_MAX} bytes")
    try:
        document = json.loads(content, object_pairs_hook=_distinct)
        entries = msgspec.convert(document, _File).credentials
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise ValueError(f"it is not JSON: {error.msg} at {where}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    keys: dict[str, Key] = {}
    for number, entry in enumerate(entries):
        _check_entry(entry, f"credentials[{number}]")
        if entry.access_key_id in keys:
            raise ValueError(f"credentials[{number}] repeats an access_key_id")
        keys[entry.access_key_id] = Key(entry.secret_access_key, entry.account)
    return keys


def _open_at_once(path: str, flags: int) -> int:
    """A pipe that was named by mistake may never be written to."""
    return os.open(path, flags | os.O_NONBLOCK)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice in one object")
    return found


def _check_entry(entry: _Entry, where: str) -> None:
    if not _ACCESS_KEY.fullmatch(entry.access_key_id):
        raise ValueError(f"{where}.access_key_id must be 1 to 128 letters, digits or +=.@_-")
    if not (entry.secret_access_key and entry.secret_access_key.isprintable()):
        raise ValueError(f"{where}.secret_access_key must be visible characters")
    if not _ACCOUNT.fullmatch(entry.account):
        raise ValueError(f"{where}.account must be 12 digits")


def _fingerprint(path: str) -> tuple[int, ...] | None:
    """Changes whenever the file is replaced, written or given another mode."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_dev, found.st_mtime_ns, found.st_ctime_ns, found.st_size
