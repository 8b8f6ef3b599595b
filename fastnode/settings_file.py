"""The TOML file as it is read: bytes → tables, and the queues in it. A leaf.

What the other keys mean is in `settings.py`. Every refusal is one line that names the place.
"""

import os
import stat
import tomllib
from typing import Final, NamedTuple

from fastnode.errors import UsageError

QUEUES_KEY: Final = "queues"
TAGS_KEY: Final = "tags"
FILE_BYTES_MAX: Final = 4 * 1_048_576


class Declared(NamedTuple):
    """The queues of the file: name → attributes, and name → tags, both as SQS spells them."""

    queues: dict[str, dict[str, str]]
    tags: dict[str, dict[str, str]]


def read_document(path: str) -> dict[str, object]:
    content = _read(path)
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path} is not valid TOML: not UTF-8 text (at line {line})") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path} is not valid TOML: it is nested too deeply") from None


def _read(path: str) -> bytes:
    try:
        # A pipe that was named by mistake may never be written to.
        with open(
            path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
        ) as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            content = file.read(FILE_BYTES_MAX + 1) if is_file else b""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot read the configuration file {path}: {reason}: give --config a TOML file"
        ) from None
    if not is_file:
        raise UsageError(f"{path} is not a file: give --config a TOML file")
    if len(content) > FILE_BYTES_MAX:
        raise UsageError(f"{path} is larger than {FILE_BYTES_MAX} bytes: is it a TOML file?")
    return content


def take_queues(path: str, document: dict[str, object]) -> Declared:
    """Takes them out of the document."""
    queues = document.pop(QUEUES_KEY, {})
    if not isinstance(queues, dict):
        raise UsageError(f"queues in {path} must be tables: write [queues.NAME]")
    declared = Declared({}, {})
    for name, queue in queues.items():
        if not isinstance(queue, dict):
            raise UsageError(f"queues.{name} in {path} must be a table: write [queues.{name}]")
        tags = queue.pop(TAGS_KEY, {})
        declared.queues[name] = _attributes(path, name, queue)
        if tags:
            declared.tags[name] = _tags(path, name, tags)
    return declared


def _attributes(path: str, name: str, queue: dict[str, object]) -> dict[str, str]:
    for attribute, value in queue.items():
        if isinstance(value, dict):
            raise UsageError(
                f"{attribute} in [queues.{name}] in {path} is a table; a queue name with a dot is "
                f'written in quotes: [queues."{name}.{attribute}"]'
            )
        if not isinstance(value, str | int):
            raise UsageError(
                f"{attribute} in [queues.{name}] in {path} must be a string, an integer, "
                "true or false"
            )
    return {attribute: as_text(value) for attribute, value in queue.items()}


def _tags(path: str, name: str, tags: object) -> dict[str, str]:
    if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
        raise UsageError(f"tags of queues.{name} in {path} must be a table of strings")
    return tags


def as_text(value: object) -> str:
    """As a flag would spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
