"""Log lines: one record is one line that a program can take apart."""

import io
import logging
import re
import shlex

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastnode.logs import LineFormatter, configure_logs


def line_of(message: str, **fields: object) -> str:
    attributes = {"name": "fastnode.x", "levelname": "INFO", "msg": message, **fields}
    record = logging.makeLogRecord(attributes)
    record.created, record.msecs = 1_700_000_000.25, 250.0
    return LineFormatter().format(record)


def test_line_has_utc_time_level_logger_message_and_fields() -> None:
    assert line_of("node is ready", group=3, path="a b") == (
        "2023-11-14T22:13:20.250Z level=info logger=fastnode.x "
        'message="node is ready" group=3 path="a b"'
    )


def test_plain_values_are_not_quoted_and_empty_ones_are() -> None:
    assert line_of("ready", at="127.0.0.1:9324", note="").endswith(
        'message=ready at=127.0.0.1:9324 note=""'
    )


def test_traceback_stays_on_the_line() -> None:
    try:
        raise ValueError("line\nbreak")
    except ValueError as error:
        line = line_of("failed", exc_info=(ValueError, error, error.__traceback__))
    assert len(line.splitlines()) == 1
    assert 'error="Traceback (most recent call last):\\n' in line
    assert "ValueError: line\\nbreak" in line


@settings(deadline=None)
@given(st.text(), st.text())
@example("a", '" level="error')
@example("\\", '\\" x=1\r\u2028')
def test_nothing_in_a_value_breaks_the_line_or_forges_a_field(message: str, value: str) -> None:
    line = line_of("%s", args=(message,), field=value)
    assert len(line.splitlines()) == 1
    names = [word.partition("=")[0] for word in shlex.split(line)[1:]]
    assert names == ["level", "logger", "message", "field"]


def test_configured_logs_drop_what_is_below_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    level = root.level
    stream = io.StringIO()
    try:
        configure_logs("warning", stream)
        logging.getLogger("fastnode.x").info("quiet")
        logging.getLogger("fastnode.x").warning("loud")
    finally:
        root.setLevel(level)
    assert re.fullmatch(r"\S+Z level=warning logger=fastnode.x message=loud\n", stream.getvalue())
