"""`fastnode config`: the file that it writes, what it finds in one, where a value comes from."""

import json
import tomllib
from pathlib import Path

import pytest

from fastnode.__main__ import main
from fastnode.cli.config import example
from fastnode.settings import OPTIONS, Settings, load_settings


def uncommented(text: str) -> str:
    """As if an operator took every default out of its comment."""
    lines = (line.removeprefix("# ") for line in text.splitlines() if line != "#")
    keys = tuple(f"{option.field} = " for option in OPTIONS)
    queues = text[text.index("# [queues.orders-dead]") :]
    chosen = [line for line in lines if line.startswith(keys)]
    return "\n".join([*chosen, *(line.removeprefix("#") for line in queues.splitlines())])


def test_what_init_writes_is_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "fastnode.toml"
    assert main(["config", "init", str(path)]) == 0
    loaded = load_settings({}, {}, config=str(path))
    assert loaded.explicit == frozenset() and loaded.queues == {}
    path.write_text(uncommented(example()))
    loaded = load_settings({}, {}, config=str(path))
    assert loaded.explicit == {option.field for option in OPTIONS}
    assert all(getattr(loaded, name) == getattr(Settings(), name) for name in loaded.explicit)
    assert list(loaded.queues) == ["orders-dead", "orders", "orders.fifo"]
    assert loaded.queue_tags == {"orders": {"team": "blue"}}
    assert main(["config", "check", str(path)]) == 0


def test_init_replaces_nothing_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("groups = 3\n")
    assert main(["config", "init", str(path)]) == 1
    assert "add --force" in capsys.readouterr().err
    assert path.read_text() == "groups = 3\n"
    assert main(["config", "init", str(path), "--force"]) == 0
    assert tomllib.loads(path.read_text()) == {}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (
            b"groups = 3\nthis is no TOML\n",
            "not valid TOML: Expected '=' after a key in a key/value",
        ),
        (b"groups = 3\n\xff\xfe", "not valid TOML: not UTF-8 text (at line 2)"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"grups = 3\n", "unknown key grups in {}; did you mean groups?"),
        (b"[queues.a]\nVisibilityTimeot = 3\n", "did you mean VisibilityTimeout?"),
        (b"[queues.a]\nVisibilityTimeout = -1\n", "[queues.a]: "),
        (b'[queues."a b"]\n', "[queues.a b]: "),
        (b"[queues.a]\ntags = 3\n", "tags of queues.a in {} must be a table of strings"),
        (b"[queues.a.tags]\nx = 3\n", "tags of queues.a in {} must be a table of strings"),
        (b'credentials = "/nowhere"\n', "cannot read the credentials file /nowhere"),
    ],
)
def test_a_wrong_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, line: str
) -> None:
    path = tmp_path / "node.toml"
    path.write_bytes(content)
    assert main(["config", "check", str(path)]) in (1, 2)
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert line.format(path) in shown.err


def test_not_toml_names_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "node.toml"
    path.write_text("groups = 3\n\nthis is no TOML\n")
    assert main(["config", "check", str(path)]) == 2
    assert "(at line 3, column 6)" in capsys.readouterr().err


def test_a_directory_or_device_is_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "check", str(tmp_path)]) == 2
    assert main(["config", "check", "/dev/zero"]) == 2
    assert capsys.readouterr().err.count("give --config a TOML file") == 2


def test_show_says_where_a_value_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "node.toml"
    path.write_text('groups = 3\nregion = "eu-west-1"\n[queues.jobs]\n')
    monkeypatch.setenv("FASTNODE_REGION", "eu-west-2")
    monkeypatch.setenv("FASTNODE_STRICT", "1")
    assert main(["config", "show", "--json", "--config", str(path), "--strict=false"]) == 0
    shown = json.loads(capsys.readouterr().out)
    settings = shown["settings"]
    assert settings["groups"] == {"value": "3", "from": str(path)}
    assert settings["region"] == {"value": "eu-west-2", "from": "FASTNODE_REGION"}
    assert settings["strict"] == {"value": "false", "from": "--strict"}
    assert settings["fsync"] == {"value": "always", "from": "default"}
    assert shown["queues"] == {"jobs": {}}
