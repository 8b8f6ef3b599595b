"""Shell completion: what it offers comes from the tables of the commands."""

import subprocess

import pytest

from fastnode.__main__ import main
from fastnode.cli.commands import COMMANDS
from fastnode.cli.completion import suggest


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ver"], ["version"]),
        (["queue", "p"], ["peek", "purge"]),
        (["queue", "peek", "--st"], ["--state"]),
        (["queue", "peek", "--state", "--state"], []),
        (["queue", "nothing", ""], []),
        (["cluster", "tr"], ["transfer"]),
        (["run", "--lis"], ["--listen"]),
        (["doctor", "--js"], ["--json"]),
        (["check", "--gr"], ["--group"]),
        (["check", ""], []),
        (["backup", "--ra"], ["--rate"]),
        (["backup", "dir", ""], []),
        (["restore", "--no"], ["--node-id"]),
        (["queue", "ex"], ["export"]),
        (["queue", "import", "--from"], ["--from-line"]),
        (["completion", "b"], ["bash"]),
        (["nothing", ""], []),
    ],
)
def test_suggestions(words: list[str], found: list[str]) -> None:
    assert suggest(words) == found


def test_every_command_is_offered() -> None:
    assert suggest([""]) == list(COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_ask_this_program(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert main(["completion", shell]) == 0
    assert "fastnode completion suggest -- " in capsys.readouterr().out


def test_bash_takes_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = "fastnode() { echo peek; echo purge; }\n" + capsys.readouterr().out
    script += "COMP_WORDS=(fastnode queue pe); COMP_CWORD=2; _fastnode; echo ${COMPREPLY[@]}"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "peek\n"


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bsh"]) == 2
    assert "did you mean bash?" in capsys.readouterr().err
