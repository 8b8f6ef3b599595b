"""Queue policies: the text of the `Policy` attribute, read and judged. Pure.

A policy is read in full when it is set, and what cannot be enforced is refused then. Which calls
need a judgement, and what a refusal looks like, is decided in `policy_access.py`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, Literal, NoReturn, TypeVar

import msgspec
from msgspec import Struct

from fastnode.queue.errors import invalid_attribute_value, over_limit
from fastnode.queue.policy_conditions import (
    AccessRequest,
    Condition,
    Test,
    glob,
    parse_condition,
)

POLICY_BYTES_MAX: Final = 8_192
STATEMENTS_MAX: Final = 20
ACTIONS_MAX: Final = 7
PRINCIPALS_MAX: Final = 50
_CONDITIONS_MAX: Final = 10

# What a policy can grant to another account.
GRANTABLE_ACTIONS: Final = frozenset(
    {"ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl"}
    | {"ListDeadLetterSourceQueues", "PurgeQueue", "ReceiveMessage", "SendMessage"}
)
# A right to the single form is a right to the batch.
BATCH_ACTIONS: Final = {
    f"{single}Batch": single
    for single in ("ChangeMessageVisibility", "DeleteMessage", "SendMessage")
}
OWNER_ACTIONS: Final = frozenset(
    {"AddPermission", "CancelMessageMoveTask", "CreateQueue", "DeleteQueue", "ListMessageMoveTasks"}
    | {"ListQueueTags", "ListQueues", "RemovePermission", "SetQueueAttributes"}
    | {"StartMessageMoveTask", "TagQueue", "UntagQueue"}
)
_ACTIONS: Final = GRANTABLE_ACTIONS | OWNER_ACTIONS | BATCH_ACTIONS.keys()


# --- The text -----------------------------------------------------------------------------------

_Texts = str | list[str]
_Principal = Literal["*"] | dict[str, _Texts]
_Values = str | bool | list[str | bool]
_Item = TypeVar("_Item")


class _StatementText(Struct, frozen=True, rename="pascal", forbid_unknown_fields=True):
    """An element is written plainly or as its opposite; an empty one is as good as none."""

    effect: Literal["Allow", "Deny"]
    sid: str = ""
    principal: _Principal = {}
    not_principal: _Principal = {}
    action: _Texts = []
    not_action: _Texts = []
    resource: _Texts = []
    not_resource: _Texts = []
    condition: dict[str, dict[str, _Values]] = {}

    @property
    def principals(self) -> list[tuple[str, str]]:
        """Everyone that is named, with the kind of name."""
        return _one_of(_named(self.principal), _named(self.not_principal))

    @property
    def actions(self) -> list[str]:
        return _one_of(_listed(self.action), _listed(self.not_action))

    @property
    def resources(self) -> list[str]:
        return _one_of(_listed(self.resource), _listed(self.not_resource))

    @property
    def conditions(self) -> list[tuple[str, str, list[str]]]:
        """Operator, key and values of each."""
        return [
            (operator, key, _words(values))
            for operator, keys in self.condition.items()
            for key, values in keys.items()
        ]


class _PolicyText(Struct, frozen=True, rename="pascal", forbid_unknown_fields=True):
    statement: _StatementText | list[_StatementText]
    version: Literal["2008-10-17", "2012-10-17"] = "2008-10-17"
    id: str = ""


def _one_of(plain: list[_Item], opposite: list[_Item]) -> list[_Item]:
    if bool(plain) is bool(opposite):
        raise ValueError("an element is missing, or there with its opposite")
    return plain or opposite


def _named(principal: _Principal) -> list[tuple[str, str]]:
    kinds = principal if isinstance(principal, dict) else {"AWS": principal}
    return [(kind, name) for kind, names in kinds.items() for name in _listed(names)]


def _listed(texts: _Texts) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _words(values: _Values) -> list[str]:
    """JSON's truths are the words that they are written as."""
    listed = values if isinstance(values, list) else [values]
    return [str(value).lower() if isinstance(value, bool) else value for value in listed]


def load_policy(text: str) -> dict[str, object]:
    """The text as plain values. Numbers stay as written: a policy has no arithmetic."""
    loaded: dict[str, object] = json.loads(
        text,
        object_pairs_hook=_distinct,
        parse_int=str,
        parse_float=str,
        parse_constant=_refuse_constant,
    )
    return loaded


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Of two members of one name, readers differ in which one counts."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is there twice")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# --- The meaning --------------------------------------------------------------------------------


class Principals(Struct, frozen=True):
    """Whom a statement names. A service is nobody who calls a node."""

    is_everybody: bool
    accounts: frozenset[str]
    users: frozenset[tuple[str, str]]

    def include(self, request: AccessRequest) -> bool:
        account = request.account
        if self.is_everybody or account is None:
            return self.is_everybody
        return account in self.accounts or (account, request.user) in self.users


class Statement(Struct, frozen=True):
    is_deny: bool
    principals: Principals
    is_other_principals: bool
    actions: frozenset[str]
    resources: Test
    is_other_resources: bool
    conditions: tuple[Condition, ...]

    def applies(self, request: AccessRequest) -> bool:
        return (
            request.action in self.actions
            and self.principals.include(request) is not self.is_other_principals
            and self.resources(request.resource) is not self.is_other_resources
            and all(condition.holds(request) for condition in self.conditions)
        )


class Policy(Struct, frozen=True):
    statements: tuple[Statement, ...]


class Verdict(Enum):
    """What a policy says about a call. What it does not mention is not allowed to strangers."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNMENTIONED = "unmentioned"


def evaluate(policy: Policy, request: AccessRequest) -> Verdict:
    """One denial outweighs every permission, whatever the order."""
    denials = {item.is_deny for item in policy.statements if item.applies(request)}
    if True in denials:
        return Verdict.DENIED
    return Verdict.ALLOWED if denials else Verdict.UNMENTIONED


# --- Reading ------------------------------------------------------------------------------------


def parse_policy(text: str) -> Policy:
    """Raises `SqsError` for what is no policy, is too large, or cannot be enforced here."""
    try:
        if len(text.encode()) > POLICY_BYTES_MAX:
            raise ValueError("too long")
        read = msgspec.convert(load_policy(text), _PolicyText)
        statements = read.statement if isinstance(read.statement, list) else [read.statement]
        _check_limits(statements)
        has_variables = read.version != "2008-10-17"
        return Policy(tuple(_statement(item, has_variables) for item in statements))
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise invalid_attribute_value("Policy") from error


def policy_of(attributes: Mapping[str, str]) -> Policy | None:
    text = attributes.get("Policy")
    return parse_policy(text) if text else None


def as_valid_policy(text: str) -> str:
    """The text as it was sent, once it is known to be a policy."""
    parse_policy(text)
    return text


def _statement(text: _StatementText, has_variables: bool) -> Statement:
    actions, resources, conditions = _covered(text.actions), text.resources, text.conditions
    if has_variables:
        _refuse_variables([*resources, *(word for _, _, words in conditions for word in words)])
    return Statement(
        is_deny=text.effect == "Deny",
        principals=_principals(text.principals),
        is_other_principals=bool(_named(text.not_principal)),
        actions=_ACTIONS - actions if _listed(text.not_action) else actions,
        resources=glob(resources),
        is_other_resources=bool(_listed(text.not_resource)),
        conditions=tuple(parse_condition(*condition) for condition in conditions),
    )


def _refuse_variables(texts: Iterable[str]) -> None:
    """Since 2012, `${…}` stands for something about the caller."""
    for text in texts:
        if "${" in text:
            raise ValueError(f"policy variables are not supported: {text}")


def _covered(patterns: list[str]) -> frozenset[str]:
    """The actions that the patterns name; one that names none is a mistake."""
    covered: set[str] = set()
    for pattern in patterns:
        is_named = glob([pattern], ignores_case=True)
        named = {
            action
            for action in _ACTIONS
            if is_named(f"sqs:{action}") or is_named(f"sqs:{BATCH_ACTIONS.get(action, action)}")
        }
        if not named:
            raise ValueError(f"no such action: {pattern}")
        covered |= named
    return frozenset(covered)


# --- Principals ---------------------------------------------------------------------------------

_ACCOUNT_MATCH: Final = re.compile(
    r"(?P<account>[0-9]{12})|arn:aws[a-z-]*:iam::(?P<root>[0-9]{12}):root"
).fullmatch
_USER_MATCH: Final = re.compile(r"arn:aws[a-z-]*:iam::([0-9]{12}):user/([!-~]{1,512})").fullmatch


def _principals(named: list[tuple[str, str]]) -> Principals:
    is_everybody, accounts, users = False, set(), set()
    for kind, name in named:
        if kind == "AWS" and name == "*":
            is_everybody = True
        elif kind == "AWS" and (account := _ACCOUNT_MATCH(name)):
            accounts.add(account["account"] or account["root"])
        elif kind == "AWS" and (user := _USER_MATCH(name)):
            users.add((user[1], user[2]))
        elif kind != "Service":
            raise ValueError(f"nobody here is {kind} {name}")
    return Principals(is_everybody, frozenset(accounts), frozenset(users))


# --- Limits -------------------------------------------------------------------------------------


def _check_limits(statements: list[_StatementText]) -> None:
    if not statements:
        raise ValueError("no statement")
    _check_count(len(statements), "statements", STATEMENTS_MAX)
    for item in statements:
        _check_count(len(item.actions), "actions", ACTIONS_MAX, "a statement from ")
    principals = sum(len(item.principals) for item in statements)
    _check_count(principals, "principals", PRINCIPALS_MAX)
    conditions = sum(len(item.conditions) for item in statements)
    _check_count(conditions, "conditions", _CONDITIONS_MAX)


def _check_count(count: int, things: str, limit: int, where: str = "") -> None:
    if count > limit:
        found = f"{count} {things} were found in {where}the submitted policy"
        raise over_limit(f"{found}, max allowed is {limit}")
