"""The program: which command runs, and what an error looks like from outside."""

import logging
import platform
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import fastnode
from fastnode.__main__ import main
from fastnode.cli import run
from fastnode.cli.commands import COMMANDS, Command
from fastnode.errors import OperationError, StartError, UsageError
from fastnode.option_values import Address
from fastnode.settings import Settings


def command_that(do: Callable[[Sequence[str]], int]) -> Command:
    return Command("for this test", lambda: do)


def raising(error: BaseException) -> Command:
    def do(_: Sequence[str]) -> int:
        raise error

    return command_that(do)


def test_no_command_shows_help_and_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert all(f"\n  {name} " in shown.err for name in COMMANDS)


@pytest.mark.parametrize("argument", ["-h", "--help", "help"])
def test_help_is_no_error(capsys: pytest.CaptureFixture[str], argument: str) -> None:
    assert main([argument]) == 0
    assert capsys.readouterr().out.startswith("usage: fastnode COMMAND")


@pytest.mark.parametrize(
    ("name", "hint"), [("rnu", "; did you mean run?"), ("qqqqqq", "; see fastnode --help")]
)
def test_unknown_command_names_the_nearest(
    capsys: pytest.CaptureFixture[str], name: str, hint: str
) -> None:
    assert main([name]) == 2
    assert capsys.readouterr().err == f"fastnode: unknown command '{name}'{hint}\n"


def test_command_gets_the_rest_and_gives_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Sequence[str]] = []

    def do(arguments: Sequence[str]) -> int:
        seen.append(arguments)
        return 7

    monkeypatch.setitem(COMMANDS, "probe", command_that(do))
    assert main(["probe", "--a", "b"]) == 7
    assert seen == [["--a", "b"]]


@pytest.mark.parametrize(
    ("error", "exit_code", "line"),
    [
        (UsageError("wrong: do this"), 2, "fastnode: wrong: do this\n"),
        (StartError("cannot: do that"), 1, "fastnode: cannot: do that\n"),
        (OperationError("not now"), 1, "fastnode: not now\n"),
        (StartError("two\nlines"), 1, "fastnode: two lines\n"),
        (KeyboardInterrupt(), 1, "fastnode: interrupted\n"),
    ],
)
def test_refusal_is_one_line_and_an_exit_code(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    exit_code: int,
    line: str,
) -> None:
    monkeypatch.setitem(COMMANDS, "probe", raising(error))
    assert main(["probe"]) == exit_code
    assert capsys.readouterr() == ("", line)


def test_bug_is_not_dressed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "probe", raising(AssertionError("bug")))
    with pytest.raises(AssertionError, match="bug"):
        main(["probe"])


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_version_says_what_is_installed(capsys: pytest.CaptureFixture[str], argument: str) -> None:
    assert main([argument]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"fastnode {fastnode.__version__}"
    assert lines[1] == f"python {platform.python_version()}"
    assert lines[2].startswith("native modules ")
    assert lines[3].startswith("raft extension ")


def test_version_takes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--verbose"]) == 2
    assert capsys.readouterr().err == (
        "fastnode: fastnode version takes no arguments but --json, not '--verbose'\n"
    )


def test_version_is_the_one_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert project["project"]["version"] == fastnode.__version__


def test_ready_line_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    run.announce("http://127.0.0.1:9324", "http://127.0.0.1:9325")
    assert capsys.readouterr().out == (
        "fastnode ready sqs=http://127.0.0.1:9324 admin=http://127.0.0.1:9325\n"
    )


def test_dangerous_choices_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    run.warn_of_choices(Settings())
    assert caplog.records == []
    run.warn_of_choices(Settings(fsync="never", admin=Address("0.0.0.0", 1)))
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.WARNING]
    assert "power cut" in caplog.messages[0]
    assert vars(caplog.records[1])["admin"] == "0.0.0.0:1"
