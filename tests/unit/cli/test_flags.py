"""Flags: derived from the table of options, strict about everything else."""

import pytest

from fastnode.cli.flags import parse_flags
from fastnode.errors import UsageError
from fastnode.settings import OPTIONS


def refusal(*arguments: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_flags("run", arguments)
    return str(caught.value)


def test_no_flags_give_no_texts() -> None:
    assert parse_flags("run", []) == ({}, None)


def test_flags_give_the_text_and_the_file() -> None:
    arguments = ["--groups", "3", "--config", "a.toml", "--strict", "--listen=[::1]:0"]
    texts = {"groups": "3", "strict": "true", "listen": "[::1]:0"}
    assert parse_flags("run", arguments) == (texts, "a.toml")


@pytest.mark.parametrize("arguments", [["--strict", "false"], ["--strict=false"]])
def test_switch_can_be_cleared(arguments: list[str]) -> None:
    assert parse_flags("run", arguments)[0] == {"strict": "false"}


def test_switch_does_not_swallow_the_next_flag() -> None:
    texts, _ = parse_flags("run", ["--strict", "--groups", "2"])
    assert texts == {"strict": "true", "groups": "2"}


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--grups=4", "unknown flag --grups; did you mean --groups?"),
        ("--data_dir", "unknown flag --data_dir; did you mean --data-dir?"),
        ("--confg", "unknown flag --confg; did you mean --config?"),
        ("--zzzzzzzz", "unknown flag --zzzzzzzz; see fastnode run --help"),
        ("--group", "unknown flag --group; did you mean --groups?"),
        ("stray", "unexpected argument 'stray'; see fastnode run --help"),
        ("--groups", "--groups: expected one argument"),
    ],
)
def test_wrong_argument_is_named(argument: str, message: str) -> None:
    assert refusal(argument) == message


@pytest.mark.parametrize("flag", ["--replicas", "--threads"])
def test_flag_of_something_that_does_not_exist_is_unknown(flag: str) -> None:
    assert refusal(flag, "x").startswith(f"unknown flag {flag}")


def test_help_shows_every_flag_with_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_flags("run", ["--help"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "FASTNODE_CONFIG" in shown
    for option in OPTIONS:
        assert f"{option.flag} " in shown
        assert f"(default {option.default_text or 'none'}; {option.variable})" in shown
