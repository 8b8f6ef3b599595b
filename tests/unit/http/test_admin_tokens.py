"""The file of admin tokens: what is taken, what is refused, and that secrets stay out of errors."""

import json
from pathlib import Path

import pytest

from fastnode.errors import StartError
from fastnode.http.admin_tokens import Holder, TokensFile, digest_of, parse_tokens, read_tokens

TOKEN = "0123456789abcdef"
GOOD = {"tokens": [{"name": "ops", "token": TOKEN, "role": "full"}]}


def written(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(0o600)
    return str(path)


def test_tokens_are_known_by_their_digest(tmp_path: Path) -> None:
    holders = read_tokens(written(tmp_path / "tokens", GOOD))
    assert holders == {digest_of(TOKEN): Holder("ops", "full")}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "larger than"),
        ("[" * 60_000, "nested too deeply"),
        ("{}", "tokens"),
        ({"tokens": []}, "nobody could use"),
        ({"tokens": [{"name": "a", "token": TOKEN, "role": "root"}]}, "role"),
        ({"tokens": [{"name": "a", "token": "short", "role": "full"}]}, "openssl rand"),
        ({"tokens": [{"name": "a", "token": TOKEN + " x", "role": "full"}]}, "visible ASCII"),
        ({"tokens": [{"name": "a b", "token": TOKEN, "role": "full"}]}, "name must be"),
        ({"tokens": [*GOOD["tokens"], *GOOD["tokens"]]}, "repeats a token"),
        ({"tokens": GOOD["tokens"], "more": 1}, "more"),
        ('{"tokens": [], "tokens": []}', "given twice"),
    ],
)
def test_what_is_no_file_of_tokens_is_refused(tmp_path: Path, content: object, reason: str) -> None:
    with pytest.raises(StartError, match=reason) as refused:
        read_tokens(written(tmp_path / "tokens", content))
    assert TOKEN not in str(refused.value)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    written(path, GOOD)
    path.chmod(0o640)
    with pytest.raises(StartError, match="chmod 600"):
        read_tokens(str(path))
    with pytest.raises(StartError, match="--admin-tokens"):
        read_tokens(str(tmp_path / "missing"))


def test_no_bytes_are_a_surprise() -> None:
    with pytest.raises(ValueError, match="UTF-8"):
        parse_tokens(b'{"tokens": "\xff"}')


def test_a_new_file_counts_and_a_bad_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    file = TokensFile(written(path, GOOD))
    written(path, "not JSON")
    file.reload_if_changed()
    assert digest_of(TOKEN) in file.holders
    other = {"tokens": [{"name": "new", "token": TOKEN[::-1], "role": "read-only"}]}
    written(path, other)
    file.reload_if_changed()
    assert list(file.holders.values()) == [Holder("new", "read-only")]
