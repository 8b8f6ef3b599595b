"""The `queues` block of an ElasticMQ configuration file → our TOML. Pure.

What has no counterpart is left out and said so; what cannot be understood is refused.
"""

import json
import re
from typing import Any, Final, NamedTuple

from fastnode.cli.hocon import parse_hocon
from fastnode.cli.toml_text import toml_value
from fastnode.settings import nearest

_ACCOUNT: Final = "000000000000"
_REGION: Final = "us-east-1"
_FIFO_SUFFIX: Final = ".fifo"
_SECONDS: Final = {
    "defaultVisibilityTimeout": "VisibilityTimeout",
    "delay": "DelaySeconds",
    "receiveMessageWait": "ReceiveMessageWaitTimeSeconds",
}
_SWITCHES: Final = {
    "fifo": "FifoQueue",
    "contentBasedDeduplication": "ContentBasedDeduplication",
}
_DEAD_LETTERS: Final = "deadLettersQueue"
_LEFT_OUT: Final = {
    "copyTo": "send to both queues, or let a consumer copy",
    "moveTo": "send to the other queue",
}
_KNOWN: Final = (*_SECONDS, *_SWITCHES, _DEAD_LETTERS, "tags", *_LEFT_OUT)
_RECEIVES_DEFAULT: Final = 10
_WORDS_TRUE: Final = ("true", "yes", "on")
_WORDS_FALSE: Final = ("false", "no", "off")
_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([a-z]*)")
# Milliseconds of a unit; without one it is milliseconds.
_UNITS: Final = {
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


class Converted(NamedTuple):
    toml: str
    warnings: list[str]


class _Queue(NamedTuple):
    attributes: dict[str, object]
    tags: dict[str, str]
    dead_letters: str


def convert(text: str) -> Converted:
    """Raises `ValueError`."""
    document = parse_hocon(text)
    queues = document.get("queues")
    if not isinstance(queues, dict):
        raise ValueError("it has no queues { … } block")
    aws = document.get("aws", {})
    region = str(aws.get("region", _REGION)) if isinstance(aws, dict) else _REGION
    reader = _Converter(queues, region)
    found = {reader.name_of(name): reader.queue(name) for name in queues}
    for ignored in sorted(document.keys() - {"queues", "aws"}):
        reader.warnings.append(f"{ignored} is left out: see fastnode config init for our settings")
    for missing in {queue.dead_letters for queue in found.values()} - found.keys() - {""}:
        reader.warnings.append(f"dead-letter queue {missing} is not in the file and was added")
        found[missing] = _Queue({}, {}, "")
    head = "" if region == _REGION else f"region = {_toml(region)}\n\n"
    return Converted(head + "\n".join(map(_table, _in_order(found))), reader.warnings)


class _Converter:
    def __init__(self, queues: dict[str, Any], region: str) -> None:
        self._queues = queues
        self._region = region
        self.warnings: list[str] = []

    def name_of(self, name: str) -> str:
        """ElasticMQ adds the suffix by itself."""
        queue = self._queues.get(name, {})
        is_fifo = isinstance(queue, dict) and queue.get("fifo") in _WORDS_TRUE
        return name + _FIFO_SUFFIX if is_fifo and not name.endswith(_FIFO_SUFFIX) else name

    def queue(self, name: str) -> _Queue:
        given, where = self._queues[name], f"queues.{name}"
        if not isinstance(given, dict):
            raise ValueError(f"{where} must be an object")
        attributes: dict[str, object] = {}
        for key, value in given.items():
            if key in _SECONDS:
                attributes[_SECONDS[key]] = seconds(
                    _text(value, f"{where}.{key}"), f"{where}.{key}"
                )
            elif key in _SWITCHES:
                if _switch(_text(value, f"{where}.{key}"), f"{where}.{key}"):
                    attributes[_SWITCHES[key]] = True
            elif key in _LEFT_OUT:
                self.warnings.append(f"{where}.{key} is left out: {_LEFT_OUT[key]}")
            elif key not in _KNOWN:
                raise ValueError(f"{where} has an unknown key {key}{nearest(key, _KNOWN)}")
        if self.name_of(name) != name:
            self.warnings.append(f"{where} is called {self.name_of(name)}, as ElasticMQ does")
        target = self._dead_letters(
            given.get(_DEAD_LETTERS), f"{where}.{_DEAD_LETTERS}", attributes
        )
        return _Queue(attributes, _tags(given.get("tags", {}), f"{where}.tags"), target)

    def _dead_letters(self, given: object, where: str, attributes: dict[str, object]) -> str:
        if given is None:
            return ""
        if not isinstance(given, dict) or "name" not in given:
            raise ValueError(f"{where} must be an object with a name")
        name = self.name_of(_text(given["name"], f"{where}.name"))
        count = _text(given.get("maxReceiveCount", str(_RECEIVES_DEFAULT)), where)
        if not count.isdigit():
            raise ValueError(f"{where}.maxReceiveCount must be a number, not {count!r}")
        arn = f"arn:aws:sqs:{self._region}:{_ACCOUNT}:{name}"
        policy = {"deadLetterTargetArn": arn, "maxReceiveCount": int(count)}
        attributes["RedrivePolicy"] = json.dumps(policy, separators=(",", ":"))
        return name


def seconds(text: str, where: str) -> int:
    """A duration, in whole seconds that are not shorter."""
    match = _DURATION.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{where} must be a duration such as 10 seconds, not {text!r}")
    return -int(-float(match[1]) * _UNITS[match[2]] // 1_000)


def _switch(text: str, where: str) -> bool:
    if text not in (*_WORDS_TRUE, *_WORDS_FALSE):
        raise ValueError(f"{where} must be true or false, not {text!r}")
    return text in _WORDS_TRUE


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{where} must be a single value")
    if "${" in value:
        raise ValueError(f"{where} is a substitution, {value}: write the value itself")
    return value


def _tags(given: object, where: str) -> dict[str, str]:
    if not isinstance(given, dict):
        raise ValueError(f"{where} must be an object")
    return {key: _text(value, f"{where}.{key}") for key, value in given.items()}


def _in_order(queues: dict[str, _Queue]) -> list[tuple[str, _Queue]]:
    """A dead-letter queue before those that use it."""
    ordered: dict[str, _Queue] = {}
    waiting = dict(queues)
    while waiting:
        ready = [
            name
            for name, queue in waiting.items()
            if queue.dead_letters in ordered or not queue.dead_letters
        ]
        if not ready:
            names = ", ".join(waiting)
            raise ValueError(f"dead-letter queues lead round in a circle: {names}")
        for name in ready:
            ordered[name] = waiting.pop(name)
    return list(ordered.items())


def _table(item: tuple[str, _Queue]) -> str:
    name, queue = item
    lines = [f"[queues.{_key(name)}]"]
    lines += [f"{key} = {_toml(value)}" for key, value in queue.attributes.items()]
    if queue.tags:
        tags = ", ".join(f"{_key(key)} = {_toml(value)}" for key, value in queue.tags.items())
        lines.append(f"tags = {{ {tags} }}")
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return toml_value(str(value), type(value))
