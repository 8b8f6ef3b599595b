"""The command line: what it offers, and one line for whatever is missing or wrong."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fastnode.__main__ import main as fastnode_main
from spark_load import session
from spark_load.cli import COMMANDS, main
from spark_load.errors import LoadError
from spark_load.headers import read_trace_header, write_trace_header
from spark_load.schema import Consumers, Queue, TraceHeader

ROOT = Path(__file__).parents[2]


def said_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that cannot run."""
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("spark_load: ") and said.count("\n") == 1
    return said


def test_every_command_has_flags_and_a_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert "--master" in shown and "--dry-run" in shown


def test_a_dry_run_of_everything_says_what_would_be_done(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ["run", "smoke", str(tmp_path / "out"), "--dry-run", "--endpoint"]
    assert main([*flags, "http://127.0.0.1:1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("smoke: trace ") and "would replay it to http://127.0.0.1:1" in said
    assert list(tmp_path.iterdir()) == []
    capsys.readouterr()
    assert "not an endpoint: 'nowhere'" in said_by(capsys, *flags, "nowhere")


def test_an_unknown_command_is_hinted_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown command 'replai'; did you mean 'replay'?" in said_by(capsys, "replai")
    assert main([]) == 2
    assert main(["--help"]) == 0


def test_missing_java_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(session, "_active", lambda: None)
    said = said_by(capsys, "generate", "smoke", str(tmp_path / "trace"))
    assert "Java is missing: install a JRE 17 or newer" in said


def test_a_setting_without_a_value_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session, "_active", lambda: None)
    flags = ["generate", "smoke", str(tmp_path / "trace"), "--conf", "spark.x"]
    assert "--conf spark.x: expected KEY=VALUE" in said_by(capsys, *flags)


def test_what_is_no_trace_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"is not a trace: it has no trace\.json"):
        read_trace_header(tmp_path)
    (tmp_path / "trace.json").write_text('{"version": 7}')
    with pytest.raises(LoadError, match="has version 7; this program reads version 1"):
        read_trace_header(tmp_path)
    (tmp_path / "trace.json").write_text('{"version": 1}')
    with pytest.raises(LoadError, match="is damaged"):
        read_trace_header(tmp_path)
    (tmp_path / "trace.json").write_text("{")
    with pytest.raises(LoadError, match="cannot read"):
        read_trace_header(tmp_path)


def test_a_header_comes_back_as_it_was(tmp_path: Path) -> None:
    queue = Queue("q.fifo", {"FifoQueue": "true"}, "d.fifo", 3, Consumers(count=2))
    header = TraceHeader("abcd0123", "w", "abcd", 1, 2, 3, 4, (queue, Queue("d.fifo")))
    write_trace_header(tmp_path, header)
    assert read_trace_header(tmp_path) == header
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


GISTS = (
    ("", "without a message"),
    ("[X] no such table\n\tat org.apache.Spark(Spark.scala:1)\n", "[X] no such table"),
    (
        "Job aborted.\n\tat org.apache.Spark(S.scala:1)\nCaused by: x is damaged\nCaused by: y\n",
        "Caused by: x is damaged",
    ),
    (
        "An exception was thrown:\nTraceback (most recent call last):\n"
        '  File "x.py", line 1\nValueError: broken\n\n\tat org.apache.Spark(Spark.scala:1)\n',
        "ValueError: broken",
    ),
)


@pytest.mark.parametrize(("message", "gist"), GISTS)
def test_the_gist_of_a_page_is_one_line(message: str, gist: str) -> None:
    assert session.gist(message) == gist


def test_a_jvm_here_is_given_the_classes_that_were_prepared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session, "CLASSES", tmp_path / "classes.jsa")
    assert session.local_settings() == session.LOCAL_SETTINGS
    (tmp_path / "classes.jsa").touch()
    flags = session.local_settings()["spark.driver.extraJavaOptions"]
    assert flags == f"-XX:SharedArchiveFile={tmp_path}/classes.jsa -Xlog:disable"


def test_the_archive_is_all_that_an_executor_needs(tmp_path: Path) -> None:
    path = session.archive(tmp_path)
    assert "spark_load/workloads/smoke.toml" in zipfile.ZipFile(path).namelist()
    code = "import spark_load.operations, spark_load.replay.job; print(spark_load.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(path))


def test_fastnode_load_is_the_same_program() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "fastnode", "load", "generat"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "did you mean 'generate'?" in run.stderr


def test_fastnode_load_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert fastnode_main(["load", "generate"]) == 2
    assert "the load pipeline" in capsys.readouterr().err


def test_the_pipeline_never_imports_fastnode() -> None:
    for path in (ROOT / "spark_load").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import fastnode" not in text and "from fastnode" not in text, path
