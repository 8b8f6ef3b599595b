"""How the fuzzers change an input besides flipping bytes: words of the API, and values inside JSON.

Byte changes alone seldom leave JSON whole, so most of them would only ever reach the decoder.
"""

import json
import random
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fastnode.queue.operations import OPERATIONS

Mutator = Callable[[bytes, int, int], bytes]

_NUMBERS: Final = (0, -1, 1, 10, 11, 2**31, 2**63 - 1, 2**63, 2**64, 10**40, 1.5, 1e308, -0.0)
_TEXTS: Final = (
    *("", "$H", "$N", "$T", "$Q", "q", "dead", "q.fifo", "All", "*", "\x00", "\x01", "\ud7ff"),
    *("\ufffe", "🐇", "a" * 300, "[" * 2_000, '{"a":' * 500, "0", "-1", "1" * 30, "true", "0x10"),
    *("String", "Number", "Binary", "String.x", "Number.int", "AP8=", "A", "AWSTraceHeader"),
    *("VisibilityTimeout", "Policy", "RedrivePolicy", "RedriveAllowPolicy", "FifoQueue"),
    *("arn:aws:sqs:us-east-1:000000000000:q", "arn:aws:sqs:us-east-1:000000000000:dead"),
    '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":1}',
    '{"redrivePermission":"denyAll"}',
    '{"Statement":[{"Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":"*"}]}',
)
_VALUES: Final[tuple[Any, ...]] = (
    *_NUMBERS,
    *_TEXTS,
    None,
    True,
    False,
    {},
    [],
    [None],
    [[]],
    {"": ""},
    ["All"],
)


def _names() -> list[str]:
    members = [
        field.encode_name
        for row in OPERATIONS.values()
        for field in msgspec.structs.fields(row.request)
    ]
    return [*OPERATIONS, *sorted(set(members))]


NAMES: Final = _names()
DICTIONARY: Final = "".join(f'"{word}"\n' for word in [*NAMES, "Entries.1.", "Attribute.1.Name="])


def mutator_of(name: str) -> Mutator:
    return _mutate_json if name == "json" else _mutate_bytes


def _mutate_bytes(data: bytes, size_max: int, seed: int) -> bytes:
    import atheris

    changed: bytes = atheris.Mutate(data, size_max)
    return changed


def _mutate_json(data: bytes, size_max: int, seed: int) -> bytes:
    """One line in three is changed as bytes; of the others one value, or the number of lines."""
    chance = random.Random(seed)
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    match chance.randrange(6):
        case 0 | 1:
            return _mutate_bytes(data, size_max, seed)
        case 2:
            lines.insert(at, _any_line(chance))
        case 3:
            lines.insert(at, lines[chance.randrange(len(lines))])
        case _:
            lines[at] = _changed_line(lines[at], chance)
    return b"\n".join(lines)[:size_max]


def _any_line(chance: random.Random) -> bytes:
    """A request with some of its members, or a pause."""
    if chance.randrange(8) == 0:
        return b"+%d" % chance.choice((1, 999, 30_000, 60_000, 400_000_000))
    row = chance.choice(list(OPERATIONS.values()))
    members: dict[str, Any] = {}
    for field in msgspec.structs.fields(row.request):
        if field.encode_name == "QueueUrl":
            members["QueueUrl"] = "$Q"
        elif chance.randrange(2):
            members[field.encode_name] = chance.choice(_VALUES)
    return _line(row.name.encode(), members)


def _changed_line(line: bytes, chance: random.Random) -> bytes:
    action, _, body = line.partition(b" ")
    try:
        members = json.loads(body)
    except (ValueError, RecursionError):
        return _any_line(chance)
    return _line(action, _changed(members, chance, 0))


def _changed(value: Any, chance: random.Random, depth: int) -> Any:
    """The value with something inside of it replaced, added or left out."""
    if depth > 6 or not isinstance(value, dict | list) or chance.randrange(6) == 0:
        return chance.choice(_VALUES)
    if isinstance(value, list):
        changed = list(value)
        if changed and chance.randrange(3):
            at = chance.randrange(len(changed))
            changed[at] = _changed(changed[at], chance, depth + 1)
        else:
            changed += changed[:1] or [chance.choice(_VALUES)]
        return changed
    key = chance.choice([*value, chance.choice(NAMES)])
    if chance.randrange(5) == 0:
        return {name: kept for name, kept in value.items() if name != key}
    return value | {key: _changed(value.get(key), chance, depth + 1)}


def _line(action: bytes, members: Any) -> bytes:
    return (
        action
        + b" "
        + json.dumps(members, ensure_ascii=bool(len(action) % 2)).encode("utf-8", "replace")
    )
