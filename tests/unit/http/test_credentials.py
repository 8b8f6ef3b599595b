"""The credentials file: what is accepted, what is refused, and how a running node follows it."""

import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.errors import StartError
from fastnode.http.credentials import (
    WATCH_SECONDS,
    CredentialsFile,
    parse_credentials,
    read_credentials,
)
from fastnode.http.sigv4 import Key

SECRET = "wJalrXUtnFEMI/K7MDENG"


def entry(name: str = "AKID", **more: object) -> dict[str, object]:
    return {"access_key_id": name, "secret_access_key": SECRET} | more


def document(*entries: dict[str, object]) -> bytes:
    return json.dumps({"credentials": entries}).encode()


def write(path: Path, content: bytes, mode: int = 0o600) -> str:
    """In one step, as the manual says."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.chmod(mode)
    new.replace(path)
    return str(path)


def test_a_key_belongs_to_its_account() -> None:
    content = document(entry("A", account="123456789012"), entry("B"))
    assert parse_credentials(content) == {
        "A": Key(SECRET, "123456789012"),
        "B": Key(SECRET, "000000000000"),
    }


def test_a_file_may_let_nobody_in() -> None:
    assert parse_credentials(document()) == {}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "it is not JSON: Expecting value at line 1 column 1"),
        (b"{", "it is not JSON"),
        (b"\xff", "it is not UTF-8"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b" " * 1_048_577, "it is larger than 1048576 bytes"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "missing required field `credentials`"),
        (b'{"credentials": [], "x": 1}', "unknown field `x`"),
        (b'{"credentials": [], "credentials": []}', "a name is given twice"),
        (document({"access_key_id": "A"}), "missing required field `secret_access_key`"),
        (document(entry(secret="x")), "unknown field `secret` - at `$.credentials[0]`"),
        (document(entry(), entry()), "credentials[1] repeats an access_key_id"),
        (document(entry("")), "credentials[0].access_key_id must be"),
        (document(entry("A/B")), "credentials[0].access_key_id must be"),
        (document(entry("A" * 129)), "credentials[0].access_key_id must be"),
        (document(entry(secret_access_key="")), "credentials[0].secret_access_key must be"),
        (document(entry(secret_access_key="a\nb")), "credentials[0].secret_access_key must be"),
        (document(entry(account="12345678901")), "credentials[0].account must be 12 digits"),
        (document(entry(account="12345678901a")), "credentials[0].account must be 12 digits"),
        (document(entry(account=123456789012)), "Expected `str`, got `int`"),
    ],
)
def test_what_is_wrong_is_said(content: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)) as caught:
        parse_credentials(content)
    assert SECRET not in str(caught.value)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode()))
def test_any_bytes_are_keys_or_a_value_error(content: bytes) -> None:
    try:
        parse_credentials(content)
    except ValueError:
        pass


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o666, 0o700 | 0o010])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "keys", document(entry()), mode)
    with pytest.raises(StartError) as caught:
        read_credentials(path)
    assert str(caught.value).endswith(f"chmod 600 {path}")


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_of_the_owner_alone_is_read(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "keys", document(entry()), mode)
    assert read_credentials(path) == {"AKID": Key(SECRET, "000000000000")}


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(StartError, match="is not a file"):
        read_credentials(str(pipe))
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(StartError, match="cannot read the credentials file"):
            read_credentials(str(path))
    with pytest.raises(StartError, match="keys is not usable: it is not JSON"):
        read_credentials(write(tmp_path / "keys", b"x"))


class Followed:
    """A file in use, and what its user was told."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path / "keys"
        write(self.path, document(entry("OLD")))
        self.file = CredentialsFile(str(self.path))
        self.told: list[list[str]] = []
        self.file.on_change = self.on_change

    def on_change(self, keys: Mapping[str, Key]) -> None:
        self.told.append(list(keys))


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    followed.file.reload_if_changed()
    assert followed.told == []
    write(followed.path, document(entry("NEW")))
    followed.file.reload_if_changed()
    followed.file.reload_if_changed()
    assert followed.told == [["NEW"]]
    assert list(followed.file.keys) == ["NEW"]


def test_a_reload_that_is_asked_for_happens(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    followed.file.reload()
    assert followed.told == [["OLD"]]


@pytest.mark.parametrize("spoil", [b"{", None])
def test_a_bad_new_file_keeps_the_old_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: bytes | None
) -> None:
    followed = Followed(tmp_path)
    if spoil is None:
        followed.path.unlink()
    else:
        write(followed.path, spoil)
    followed.file.reload_if_changed()
    followed.file.reload_if_changed()
    assert (followed.told, list(followed.file.keys)) == ([], ["OLD"])
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.message.startswith("the old credentials stay in force: ")
    write(followed.path, document(entry("NEW")))
    followed.file.reload_if_changed()
    assert followed.told == [["NEW"]]


def test_a_file_that_is_opened_to_others_keeps_the_old_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    followed = Followed(tmp_path)
    followed.path.chmod(0o644)
    followed.file.reload_if_changed()
    assert followed.told == []
    assert "chmod 600" in caplog.text


def test_watching_never_ends(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    planned: list[tuple[float, Callable[..., None], tuple[object, ...]]] = []

    def call_later(seconds: float, look: Callable[..., None], *arguments: object) -> None:
        planned.append((seconds, look, arguments))

    followed.file.watch(call_later)
    for name in ("A", "B"):
        write(followed.path, document(entry(name)))
        seconds, look, arguments = planned.pop()
        assert (seconds, planned) == (WATCH_SECONDS, [])
        look(*arguments)
    assert followed.told == [["A"], ["B"]]
