"""The Query protocol without its names: form → members of a Struct, Struct → XML. Sans-IO.

The obviously correct version of `_query.pyx`. What parameters and elements are called is written in
plans, which `http/query_plans.py` derives from the Structs; this file follows them.

The parameters of a list's entry (`Entry.3.Id`) or of a nested Struct (`Value.DataType`) are,
without their head, a form again, so one way of reading serves every depth; the plans bound it.
"""

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple

Form = dict[bytes, bytes]

# What a parameter or an element holds.
TEXT: Final = 0
NUMBER: Final = 1
FLAG: Final = 2
OCTETS: Final = 3
STRUCT: Final = 4
# How many of them a member holds.
ONE: Final = 0
LIST: Final = 1
MAP: Final = 2

KEY: Final = "Key"
VALUE: Final = "Value"

# Ten entries with ten attributes of three parameters each need 350; a client that exceeds a limit
# of the contract still gets the contract's error.
PARAMETERS_MAX: Final = 4_096
# Larger indexes name nothing. They are only sorted by, so a large one costs no more than a small.
INDEX_DIGITS_MAX: Final = 10
# No number of the contract comes near; longer ones are not worth the time to parse them.
_NUMBER_MATCH: Final = re.compile(r"[+-]?[0-9]{1,30}").fullmatch
_HEX: Final = {f"{octet:02x}".encode(): bytes([octet]) for octet in range(256)}
# Characters that no XML document can contain, not even escaped.
_ILLEGAL: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REPLACEMENT: Final = "\ufffd"


class FormError(Exception):
    """Parameters that make no request. `missing` names one that has to be there; if it is empty,
    `reason` says what is wrong.
    """

    def __init__(self, reason: str, missing: str = "") -> None:
        super().__init__(reason, missing)
        self.reason = reason
        self.missing = missing


class Field(NamedTuple):
    """How to read a member. `plan` is that of a Struct or, for a map, of its entries: they are
    Structs with the members `KEY` and `VALUE`.
    """

    parameter: bytes
    member: str
    many: int
    content: int
    plan: "tuple[Field, ...]"


class Element(NamedTuple):
    """How to write the member at a position of its Struct: what goes before and after each of its
    values, and, in a map, between a key and its value. `plan` is that of a Struct.
    """

    position: int
    many: int
    content: int
    opening: bytes
    between: bytes
    closing: bytes
    plan: "tuple[Element, ...]"


# --- Reading ------------------------------------------------------------------------------------


def find_parameter(raw: bytes, name: bytes) -> str | None:
    """Of a form; the first of several values counts."""
    for found, value in _pairs(raw):
        if found == name:
            return _text(value)
    return None


class FormReader:
    """Reads one kind of Struct."""

    def __init__(self, plan: tuple[Field, ...]) -> None:
        self._plan = plan

    def read(self, raw: bytes) -> dict[str, Any]:
        """The members by name, as `msgspec.convert` takes them. Other parameters are ignored."""
        form: Form = {}
        for name, value in _pairs(raw):
            form.setdefault(name, value)
        return _read_struct(form, self._plan)


def _pairs(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    for count, pair in enumerate(raw.split(b"&")):
        if count == PARAMETERS_MAX:
            raise FormError("The request has too many parameters.")
        name, _, value = pair.partition(b"=")
        yield _octets(name), value


def _octets(raw: bytes) -> bytes:
    first, *others = raw.replace(b"+", b" ").split(b"%")
    octets = [first]
    for part in others:
        octet = _HEX.get(part[:2].lower())
        if octet is None:
            raise FormError("The request has a percent sign that begins no escape.")
        octets += octet, part[2:]
    return b"".join(octets)


def _text(raw: bytes) -> str:
    try:
        return _octets(raw).decode()
    except UnicodeDecodeError:
        raise FormError("The request is not in UTF-8.") from None


def parse_number(text: str) -> int:
    """The words are those of the JSON protocol."""
    if not _NUMBER_MATCH(text):
        raise FormError("STRING_VALUE can not be converted to an Integer")
    return int(text)


def _read_struct(form: Form, plan: tuple[Field, ...]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for field in plan:
        if field.many == ONE and field.content != STRUCT:
            if field.parameter in form:
                text = _text(form[field.parameter])
                members[field.member] = parse_number(text) if field.content == NUMBER else text
            continue
        inner = _behind(field.parameter, form)
        if field.many != ONE:
            members |= _read_many(inner, field)
        elif inner:
            members[field.member] = _read_struct(inner, field.plan)
    return members


def _behind(head: bytes, form: Form) -> Form:
    parts = [(name.partition(b"."), raw) for name, raw in form.items()]
    return {rest: raw for (first, _, rest), raw in parts if first == head}


def _read_many(form: Form, field: Field) -> dict[str, Any]:
    """Without parameters there is no list; but a batch without entries is an empty one."""
    entries = _entries(form)
    read: Any
    if field.many == MAP:
        read = _read_map([_read_struct(entry, field.plan) for entry in entries], field)
    elif field.content == STRUCT:
        return {field.member: [_read_struct(entry, field.plan) for entry in entries]}
    else:
        read = [_text(entry[b""]) for entry in entries if b"" in entry]
    return {field.member: read} if read else {}


def _read_map(entries: list[dict[str, Any]], field: Field) -> dict[str, Any]:
    """Of two entries with the same key, the one with the lower index counts."""
    read: dict[str, Any] = {}
    for entry in entries:
        if KEY not in entry:
            raise missing_half(field, 0)
        if field.content == STRUCT:
            entry.setdefault(VALUE, {})
        if VALUE not in entry:
            raise missing_half(field, 1)
        read.setdefault(entry[KEY], entry[VALUE])
    return read


def missing_half(field: Field, half: int) -> FormError:
    return FormError("", b".".join((field.parameter, field.plan[half].parameter)).decode())


def _entries(form: Form) -> list[Form]:
    """The forms of a list's entries, by index. A list of one may go without: `Attribute.Name`."""
    entries: dict[int, Form] = {}
    for name, raw in form.items():
        index, _, rest = name.partition(b".")
        if not index.isdigit():
            index, rest = b"0", name
        if len(index) <= INDEX_DIGITS_MAX:
            entries.setdefault(int(index), {}).setdefault(rest, raw)
    return [entries[index] for index in sorted(entries)]


# --- Writing ------------------------------------------------------------------------------------


class XmlWriter:
    """Writes one kind of Struct."""

    def __init__(self, plan: tuple[Element, ...]) -> None:
        self._plan = plan

    def write(self, struct: Struct) -> bytes:
        """The elements of its members; absent ones have none."""
        return b"".join(_write_struct(struct, self._plan))


def escape_xml(text: str) -> bytes:
    """Text may quote what a client sent: characters that XML cannot carry are replaced. A carriage
    return is escaped, because a parser would hand it on as a line feed.
    """
    text = _ILLEGAL.sub(_REPLACEMENT, text).replace("&", "&amp;").replace("<", "&lt;")
    return text.replace(">", "&gt;").replace('"', "&quot;").replace("\r", "&#xD;").encode()


def _write_struct(struct: Struct, plan: tuple[Element, ...]) -> list[bytes]:
    parts: list[bytes] = []
    values = astuple(struct)
    for element in plan:
        value = values[element.position]
        if value is None:
            continue
        if element.many == ONE:
            parts += element.opening, *_write(value, element), element.closing
        elif element.many == LIST:
            for each in value:
                parts += element.opening, *_write(each, element), element.closing
        else:
            for key, each in value.items():
                parts += element.opening, escape_xml(key), element.between
                parts += *_write(each, element), element.closing
    return parts


def _write(value: Any, element: Element) -> list[bytes]:
    if element.content == STRUCT:
        return _write_struct(value, element.plan)
    if element.content == TEXT:
        return [escape_xml(value)]
    if element.content == OCTETS:
        return [b64encode(value)]
    return [str(value).lower().encode()]
