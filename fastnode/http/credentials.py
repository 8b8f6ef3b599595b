"""The credentials file: who may sign requests. Read at start, and again when it changes. A shell.

A new file is used as a whole or not at all: one that cannot be used leaves the old keys in force
and says so in the log. What a key signs is checked in `sigv4.py`.
"""

import logging
import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from fastnode.config import CREDENTIALS_BYTES_MAX
from fastnode.errors import StartError
from fastnode.http.identity import ACCOUNT_DEFAULT
from fastnode.http.private_file import fingerprint, parse_private_json, read_private_file
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
        self._seen = fingerprint(path)
        self.keys = read_credentials(path)
        self.on_change: Callable[[Mapping[str, Key]], None] | None = None

    def reload(self) -> None:
        self._seen = fingerprint(self._path)
        try:
            self.keys = read_credentials(self._path)
        except StartError as error:
            log.error("the old credentials stay in force: %s", error)
            return
        log.info("credentials read keys=%d", len(self.keys))
        if self.on_change is not None:
            self.on_change(self.keys)

    def reload_if_changed(self) -> None:
        if fingerprint(self._path) != self._seen:
            self.reload()

    def watch(self, call_later: Callable[..., object]) -> None:
        """Look at the file now and every few seconds, by the event loop's `call_later`."""
        self.reload_if_changed()
        call_later(WATCH_SECONDS, self.watch, call_later)


def read_credentials(path: str) -> dict[str, Key]:
    """Access key → what is known of it. Raises `StartError`, which says what to do."""
    content = read_private_file(path, "credentials", "--credentials", CREDENTIALS_BYTES_MAX)
    try:
        return parse_credentials(content)
    except ValueError as error:
        raise StartError(f"the credentials file {path} is not usable: {error}") from error


def parse_credentials(content: bytes) -> dict[str, Key]:
    """Raises `ValueError`; its text says where, and never what: the file is full of secrets."""
    entries = parse_private_json(content, _File, CREDENTIALS_BYTES_MAX).credentials
    keys: dict[str, Key] = {}
    for number, entry in enumerate(entries):
        _check_entry(entry, f"credentials[{number}]")
        if entry.access_key_id in keys:
            raise ValueError(f"credentials[{number}] repeats an access_key_id")
        keys[entry.access_key_id] = Key(entry.secret_access_key, entry.account)
    return keys


def _check_entry(entry: _Entry, where: str) -> None:
    if not _ACCESS_KEY.fullmatch(entry.access_key_id):
        raise ValueError(f"{where}.access_key_id must be 1 to 128 letters, digits or +=.@_-")
    if not (entry.secret_access_key and entry.secret_access_key.isprintable()):
        raise ValueError(f"{where}.secret_access_key must be visible characters")
    if not _ACCOUNT.fullmatch(entry.account):
        raise ValueError(f"{where}.account must be 12 digits")
