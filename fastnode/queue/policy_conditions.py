"""Conditions of a policy: what a statement may ask about a call besides who, what and where. Pure.

Every operator and key that can be written here is answered; any other is refused when the policy is
set, because a condition that is skipped opens what it should have closed.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from operator import eq, ge, gt, le, lt
from typing import Final

from msgspec import Struct

# Whether a text passes: the value that a call has for a key, an action, an ARN.
Test = Callable[[str], bool]
Builder = Callable[[list[str]], Test]


class AccessRequest(Struct, frozen=True, kw_only=True):
    """A call as a policy sees it. `account` is None for an anonymous caller."""

    action: str
    resource: str
    account: str | None
    user: str
    source_ip: str | None
    is_secure: bool
    now_ms: int


class Condition(Struct, frozen=True):
    """One key under one operator; `test` covers all of its values. `without_value` is the answer
    for a call that has no value for the key.
    """

    key: str
    test: Test
    without_value: bool

    def holds(self, request: AccessRequest) -> bool:
        value = _KEYS[self.key](request)
        return self.without_value if value is None else self.test(value)


def parse_condition(operator: str, key: str, values: list[str]) -> Condition:
    """Raises `ValueError` for an operator, a key or a value that has no meaning here."""
    if key.lower() not in _KEYS or not values:
        raise ValueError(f"unknown condition key {key}, or no values")
    if operator == "Null":
        words = {_boolean(value) for value in values}
        return Condition(key.lower(), lambda _: "false" in words, "true" in words)
    name = operator.removesuffix("IfExists")
    if name not in _OPERATORS:
        raise ValueError(f"unknown condition operator {operator}")
    # "Not" is true of what is not there; everything else needs something to look at.
    without_value = name != operator or "Not" in name
    return Condition(key.lower(), _OPERATORS[name](values), without_value)


# --- Keys ---------------------------------------------------------------------------------------


def principal_arn(request: AccessRequest) -> str | None:
    """Whoever calls is a user of its account, named as in `SenderId`."""
    partition = request.resource.split(":", 2)[1]
    account = request.account
    return None if account is None else f"arn:{partition}:iam::{account}:user/{request.user}"


def _current_time(request: AccessRequest) -> str:
    return datetime.fromtimestamp(request.now_ms // 1_000, UTC).isoformat()


def _none(_: AccessRequest) -> None:
    """Only services have a value for this key, and none of them calls a node."""


_KEYS: Final[Mapping[str, Callable[[AccessRequest], str | None]]] = {
    "aws:sourceip": lambda request: request.source_ip,
    "aws:securetransport": lambda request: "true" if request.is_secure else "false",
    "aws:principalaccount": lambda request: request.account,
    "aws:principalarn": principal_arn,
    "aws:currenttime": _current_time,
    "aws:epochtime": lambda request: str(request.now_ms // 1_000),
    "aws:sourcearn": _none,
    "aws:sourceaccount": _none,
}


# --- Texts --------------------------------------------------------------------------------------


def glob(patterns: Iterable[str], *, ignores_case: bool = False) -> Test:
    """Whether a text has one of the forms: `*` stands for any characters, `?` for one."""
    return _matches(map(_expression, patterns), re.IGNORECASE if ignores_case else re.NOFLAG)


def _arn_like(values: list[str]) -> Test:
    """Each of the six parts has to match on its own: a star does not reach over a colon."""
    return _matches(map(_arn_expression, values), re.NOFLAG)


def _matches(expressions: Iterable[str], flags: re.RegexFlag) -> Test:
    match = re.compile("|".join(expressions), flags | re.DOTALL).fullmatch
    return lambda text: match(text) is not None


def _arn_expression(pattern: str) -> str:
    *parts, resource = pattern.split(":", 5)
    if len(parts) != 5 or parts[0] != "arn":
        raise ValueError(f"not an ARN: {pattern}")
    return ":".join([*(_expression(part, "[^:]") for part in parts), _expression(resource)])


def _expression(pattern: str, any_character: str = ".") -> str:
    """What stands between two stars is taken where it comes first and never elsewhere: no other
    place would help, and trying them all takes exponential time.
    """
    escaped = (re.escape(part).replace(r"\?", any_character) for part in pattern.split("*"))
    first, *others = escaped
    if not others:
        return first
    between = "".join(f"(?>{any_character}*?{part})" for part in others[:-1])
    return f"{first}{between}{any_character}*{others[-1]}"


def _equals(values: list[str]) -> Test:
    return frozenset(values).__contains__


def _equals_in_any_case(values: list[str]) -> Test:
    folded = {value.casefold() for value in values}
    return lambda text: text.casefold() in folded


# --- Addresses, truths, numbers, dates ------------------------------------------------------------


def _in_network(values: list[str]) -> Test:
    networks = [ip_network(value, strict=False) for value in values]

    def test(text: str) -> bool:
        address = _address(text)
        return address is not None and any(address in network for network in networks)

    return test


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """IPv4 that arrives at an IPv6 socket is still IPv4."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _boolean(text: str) -> str:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"not a truth: {text}")
    return text.lower()


def _is_truth(values: list[str]) -> Test:
    words = {_boolean(value) for value in values}
    return lambda text: text.lower() in words


_NUMBER_MATCH: Final = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?").fullmatch


def _number(text: str) -> float:
    if _NUMBER_MATCH(text) is None:
        raise ValueError(f"not a number: {text}")
    return float(text)


def _moment(text: str) -> float:
    """Seconds since the epoch, or ISO 8601; a time without a zone is UTC."""
    if _NUMBER_MATCH(text):
        return float(text)
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _compared(parse: Callable[[str], float], compare: Callable[[float, float], bool]) -> Builder:
    def build(values: list[str]) -> Test:
        limits = [parse(value) for value in values]

        def test(text: str) -> bool:
            try:
                own = parse(text)
            except ValueError:
                return False
            return any(compare(own, limit) for limit in limits)

        return test

    return build


# --- Operators ------------------------------------------------------------------------------------


def _negated(build: Builder) -> Builder:
    def build_negated(values: list[str]) -> Test:
        test = build(values)
        return lambda text: not test(text)

    return build_negated


def _comparisons(kind: str, parse: Callable[[str], float]) -> dict[str, Builder]:
    equals = _compared(parse, eq)
    return {
        f"{kind}Equals": equals,
        f"{kind}NotEquals": _negated(equals),
        f"{kind}LessThan": _compared(parse, lt),
        f"{kind}LessThanEquals": _compared(parse, le),
        f"{kind}GreaterThan": _compared(parse, gt),
        f"{kind}GreaterThanEquals": _compared(parse, ge),
    }


_OPERATORS: Final[Mapping[str, Builder]] = {
    "StringEquals": _equals,
    "StringNotEquals": _negated(_equals),
    "StringEqualsIgnoreCase": _equals_in_any_case,
    "StringNotEqualsIgnoreCase": _negated(_equals_in_any_case),
    "StringLike": glob,
    "StringNotLike": _negated(glob),
    "ArnEquals": _arn_like,
    "ArnLike": _arn_like,
    "ArnNotEquals": _negated(_arn_like),
    "ArnNotLike": _negated(_arn_like),
    "IpAddress": _in_network,
    "NotIpAddress": _negated(_in_network),
    "Bool": _is_truth,
    **_comparisons("Numeric", _number),
    **_comparisons("Date", _moment),
}
