"""What the Query protocol calls the members of Structs. Pure.

Lists and maps are flattened: each of their entries goes under the singular of the member's name
(`Attributes` → `Attribute`), entries that are Structs under the name of the Struct. Only names that
do not follow the rule are written down here.
"""

from typing import Final, NamedTuple

from msgspec import Struct, inspect

# Member of a request → parameter.
_PARAMETERS: Final = {
    "Actions": "ActionName",
    # The model gives two members of ReceiveMessage the same parameter.
    "MessageSystemAttributeNames": "AttributeName",
    # What takes tags has a member for either spelling, and one SDK sends the plural.
    "tags": "Tag",
    "Tags": "Tags",
}
# Member of a response → element.
_ELEMENTS: Final = {"queueUrls": "QueueUrl"}
# Member of a response → member of its JSON form.
_JSON_MEMBERS: Final = {"Messages": "messages", "QueueUrls": "queueUrls"}
# Parameter or element of a map whose entries have another key than `Name`.
_ENTRY_KEYS: Final = {"Tag": "Key", "Tags": "Key"}


class Member(NamedTuple):
    """That it may be absent is not part of `kind`."""

    name: str
    kind: inspect.Type


def members(struct: type[Struct]) -> list[Member]:
    described = inspect.type_info(struct)
    assert isinstance(described, inspect.StructType)
    return [Member(field.encode_name, _present(field.type)) for field in described.fields]


def parameter_of(member: str, kind: inspect.Type) -> str:
    return _PARAMETERS.get(member) or _singular(member, kind)


def element_of(member: str, kind: inspect.Type) -> str:
    return _ELEMENTS.get(member) or _singular(member, kind)


def json_member(member: str) -> str:
    return _JSON_MEMBERS.get(member, member)


def entry_key(name: str) -> str:
    """What the key of a map's entry is called; the other half is `Value`."""
    return _ENTRY_KEYS.get(name, "Name")


def _singular(member: str, kind: inspect.Type) -> str:
    if isinstance(kind, inspect.ListType) and isinstance(kind.item_type, inspect.StructType):
        return kind.item_type.cls.__name__
    is_many = isinstance(kind, inspect.ListType | inspect.DictType)
    return member.removesuffix("s") if is_many else member


def _present(kind: inspect.Type) -> inspect.Type:
    """A type without its `| None`."""
    if not isinstance(kind, inspect.UnionType):
        return kind
    (present,) = (each for each in kind.types if not isinstance(each, inspect.NoneType))
    return present
