"""The file of admin tokens: who may use the admin API, and for what. Read at start, and again when
it changes. A shell.

What is kept of a token is its digest. A new file is used as a whole or not at all, as that of
`credentials.py` is.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

from msgspec import Struct

from fastnode.config import ADMIN_TOKEN_CHARACTERS_MIN, ADMIN_TOKENS_BYTES_MAX
from fastnode.errors import StartError
from fastnode.http.credentials import WATCH_SECONDS
from fastnode.http.private_file import fingerprint, parse_private_json, read_private_file

FULL: Final = "full"
READ_ONLY: Final = "read-only"
Role = Literal["full", "read-only"]
_TOKEN: Final = re.compile(rf"[!-~]{{{ADMIN_TOKEN_CHARACTERS_MIN},512}}")
_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")
log: Final = logging.getLogger("fastnode.admin")


class Holder(Struct, frozen=True):
    """Whose token it is."""

    name: str
    role: Role


class _Entry(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    token: str
    role: Role


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    tokens: list[_Entry]


# By the digest of the token: nobody learns from the time that a look-up takes.
Holders = Mapping[bytes, Holder]


def digest_of(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class TokensFile:
    """`holders` are those of the last good file."""

    def __init__(self, path: str) -> None:
        """Raises `StartError`."""
        self._path = path
        self._seen = fingerprint(path)
        self.holders = read_tokens(path)

    def reload_if_changed(self) -> None:
        seen = fingerprint(self._path)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.holders = read_tokens(self._path)
        except StartError as error:
            log.error("the old admin tokens stay in force: %s", error)
        else:
            log.info("admin tokens read tokens=%d", len(self.holders))

    def watch(self, call_later: Callable[..., object]) -> None:
        """Look at the file now and every few seconds, by the event loop's `call_later`."""
        self.reload_if_changed()
        call_later(WATCH_SECONDS, self.watch, call_later)


def read_tokens(path: str) -> Holders:
    """Raises `StartError`, which says what to do."""
    content = read_private_file(path, "admin tokens", "--admin-tokens", ADMIN_TOKENS_BYTES_MAX)
    try:
        return parse_tokens(content)
    except ValueError as error:
        raise StartError(f"the admin tokens file {path} is not usable: {error}") from None


def parse_tokens(content: bytes) -> Holders:
    """Raises `ValueError`; its text says where, and never what: the file is full of secrets."""
    entries = parse_private_json(content, _File, ADMIN_TOKENS_BYTES_MAX).tokens
    if not entries:
        raise ValueError("tokens is empty: nobody could use the admin API")
    return _holders(entries)


def _holders(entries: list[_Entry]) -> Holders:
    holders: dict[bytes, Holder] = {}
    for number, entry in enumerate(entries):
        where = f"tokens[{number}]"
        if not _TOKEN.fullmatch(entry.token):
            wanted = f"{ADMIN_TOKEN_CHARACTERS_MIN} to 512 visible ASCII characters"
            raise ValueError(f"{where}.token must be {wanted}, such as `openssl rand -hex 24`")
        if not _NAME.fullmatch(entry.name):
            raise ValueError(f"{where}.name must be 1 to 64 letters, digits or ._@-")
        if digest_of(entry.token) in holders:
            raise ValueError(f"{where} repeats a token")
        holders[digest_of(entry.token)] = Holder(entry.name, entry.role)
    return holders
