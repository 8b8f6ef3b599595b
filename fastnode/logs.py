"""Log lines on stderr: one line per record, key=value or JSON, UTC. A leaf.

    logger.info("recovered", extra={"group": 3, "entries": 120})
    2026-01-31T12:00:00.000Z level=info logger=fastnode.node message=recovered group=3 entries=120
    {"time":"2026-01-31T12:00:00.000Z","level":"info",…,"message":"recovered","group":3,…}

What is worth a line is decided where it happens; this file only gives the lines their shape.
"""

import json
import logging
import time
from typing import Final, TextIO

# The attributes every record has; whatever else is on a record came through `extra`.
_STANDARD_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_PLAIN_PUNCTUATION: Final = frozenset("-_.:/+@,()[]<>|~%*#")


class LineFormatter(logging.Formatter):
    """Nothing inside a record can end the line early or look like another field."""

    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields_of(record)
        return " ".join([_timestamp(record), *(f"{key}={_quote(fields[key])}" for key in fields)])

    def fields_of(self, record: logging.LogRecord) -> dict[str, object]:
        fields: dict[str, object] = {
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD_ATTRIBUTES:
                fields[name] = value
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return fields


class JsonFormatter(LineFormatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {"time": _timestamp(record), **self.fields_of(record)}
        return json.dumps(fields, default=str, separators=(",", ":"))


def configure_logs(level: str, stream: TextIO, form: str = "console") -> None:
    """Send every record of this process at `level` or above to `stream`, and nowhere else."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _timestamp(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _quote(value: object) -> str:
    text = str(value)
    if text and all(letter.isalnum() or letter in _PLAIN_PUNCTUATION for letter in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(map(_escape, escaped)) + '"'


def _escape(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
