"""Structs → the plans by which the Query protocol reads and writes them (`native.FormReader`,
`native.XmlWriter`). Derived once per operation. Pure.
"""

from typing import Final

from msgspec import Struct, inspect

from fastnode.http.query_names import Member, element_of, entry_key, members, parameter_of
from fastnode.native import (
    FLAG,
    KEY,
    LIST,
    MAP,
    NUMBER,
    OCTETS,
    ONE,
    STRUCT,
    TEXT,
    VALUE,
    Element,
    Field,
)

_CONTENTS: Final[dict[type[inspect.Type], int]] = {
    inspect.StrType: TEXT,
    inspect.IntType: NUMBER,
    inspect.BoolType: FLAG,
    inspect.BytesType: OCTETS,
    inspect.StructType: STRUCT,
}


def read_plan(struct: type[Struct]) -> tuple[Field, ...]:
    return tuple(map(_field, members(struct)))


def write_plan(struct: type[Struct]) -> tuple[Element, ...]:
    """Members in their order, flags last."""
    planned = [_element(position, member) for position, member in enumerate(members(struct))]
    return tuple(sorted(planned, key=lambda element: element.content == FLAG))


def _field(member: Member) -> Field:
    many, kind = _many_and_kind(member)
    parameter = parameter_of(member.name, member.kind)
    content = _CONTENTS[type(kind)]
    plan = read_plan(kind.cls) if isinstance(kind, inspect.StructType) else ()
    if many == MAP:
        key = Field(entry_key(parameter).encode(), KEY, ONE, TEXT, ())
        plan = key, Field(b"Value", VALUE, ONE, content, plan)
    return Field(parameter.encode(), member.name, many, content, plan)


def _element(position: int, member: Member) -> Element:
    many, kind = _many_and_kind(member)
    name = element_of(member.name, member.kind)
    opening, between, closing = f"<{name}>", "", f"</{name}>"
    if many == MAP:
        key = entry_key(name)
        opening, between, closing = f"{opening}<{key}>", f"</{key}><Value>", f"</Value>{closing}"
    return Element(
        position,
        many,
        _CONTENTS[type(kind)],
        opening.encode(),
        between.encode(),
        closing.encode(),
        write_plan(kind.cls) if isinstance(kind, inspect.StructType) else (),
    )


def _many_and_kind(member: Member) -> tuple[int, inspect.Type]:
    if isinstance(member.kind, inspect.ListType):
        return LIST, member.kind.item_type
    if isinstance(member.kind, inspect.DictType):
        return MAP, member.kind.value_type
    return ONE, member.kind
