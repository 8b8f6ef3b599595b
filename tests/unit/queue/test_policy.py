"""Section 3.4: which texts are policies, and what they say about a call."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.queue.errors import SqsError
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.policy import (
    BATCH_ACTIONS,
    GRANTABLE_ACTIONS,
    OWNER_ACTIONS,
    Verdict,
    evaluate,
    parse_policy,
)
from tests.unit.queue.policy_texts import (
    ARN,
    FRIEND,
    OWNER,
    STRANGER,
    Members,
    policy,
    request,
    statement,
)

ALLOWED, DENIED, UNMENTIONED = Verdict


def verdict(*statements: Members, **facts: Any) -> Verdict:
    return evaluate(parse_policy(policy(*statements)), request(**facts))


def aws(*names: str) -> Members:
    return {"AWS": list(names)}


def user(account: str, name: str) -> str:
    return f"arn:aws:iam::{account}:user/{name}"


# --- who ----------------------------------------------------------------------------------------

ROOT = f"arn:aws:iam::{FRIEND}:root"
PRINCIPALS = [
    ("everybody", {"Principal": "*"}, {}, ALLOWED),
    ("everybody-by-kind", {"Principal": {"AWS": "*"}}, {}, ALLOWED),
    ("everybody-is-also-nobody-known", {"Principal": "*"}, {"account": None}, ALLOWED),
    ("account", {"Principal": {"AWS": FRIEND}}, {}, ALLOWED),
    ("other-account", {"Principal": {"AWS": STRANGER}}, {}, UNMENTIONED),
    ("account-does-not-mean-anonymous", {"Principal": {"AWS": FRIEND}}, {"account": None},
     UNMENTIONED),
    ("root", {"Principal": {"AWS": ROOT}}, {}, ALLOWED),
    ("root-of-another-partition", {"Principal": {"AWS": ROOT.replace("aws", "aws-cn")}}, {},
     ALLOWED),
    ("one-of-several", {"Principal": aws(STRANGER, ROOT)}, {}, ALLOWED),
    ("user", {"Principal": aws(user(FRIEND, "AKIDFRIEND"))}, {}, ALLOWED),
    ("other-user", {"Principal": aws(user(FRIEND, "AKIDOTHER"))}, {}, UNMENTIONED),
    ("same-user-name-elsewhere", {"Principal": aws(user(STRANGER, "AKIDFRIEND"))}, {}, UNMENTIONED),
    ("service-is-nobody-here", {"Principal": {"Service": "sns.amazonaws.com"}}, {}, UNMENTIONED),
    ("service-beside-account",
     {"Principal": {"Service": ["sns.amazonaws.com"], "AWS": FRIEND}}, {}, ALLOWED),
    ("all-but-him", {"Principal": None, "NotPrincipal": {"AWS": FRIEND}}, {}, UNMENTIONED),
    ("all-but-another", {"Principal": None, "NotPrincipal": {"AWS": STRANGER}}, {}, ALLOWED),
    ("all-but-another-is-also-anonymous", {"Principal": None, "NotPrincipal": {"AWS": STRANGER}},
     {"account": None}, ALLOWED),
]  # fmt: skip


@pytest.mark.parametrize(
    ("members", "facts", "expected"),
    [case[1:] for case in PRINCIPALS],
    ids=[case[0] for case in PRINCIPALS],
)
def test_principals(members: Members, facts: Members, expected: Verdict) -> None:
    assert verdict(statement(**members), **facts) is expected


# --- what ---------------------------------------------------------------------------------------

ACTIONS = [
    ("exact", "sqs:SendMessage", "SendMessage", ALLOWED),
    ("exact-other", "sqs:SendMessage", "ReceiveMessage", UNMENTIONED),
    ("service-in-capitals", "SQS:SendMessage", "SendMessage", ALLOWED),
    ("any-case", "sqs:sendmessage", "SendMessage", ALLOWED),
    ("all-of-sqs", "SQS:*", "PurgeQueue", ALLOWED),
    ("all", "*", "PurgeQueue", ALLOWED),
    ("star-inside", "sqs:*Message", "DeleteMessage", ALLOWED),
    ("star-inside-other", "sqs:*Message", "PurgeQueue", UNMENTIONED),
    ("question-mark", "sqs:?urgeQueue", "PurgeQueue", ALLOWED),
    ("one-of-several", ["sqs:PurgeQueue", "sqs:SendMessage"], "SendMessage", ALLOWED),
    ("grant-covers-the-batch", "sqs:SendMessage", "SendMessageBatch", ALLOWED),
    ("grant-covers-the-batch-delete", "sqs:DeleteMessage", "DeleteMessageBatch", ALLOWED),
    ("grant-covers-the-batch-change", "sqs:ChangeMessageVisibility",
     "ChangeMessageVisibilityBatch", ALLOWED),
    ("batch-does-not-cover-the-single", "sqs:SendMessageBatch", "SendMessage", UNMENTIONED),
    ("batch-by-name", "sqs:SendMessageBatch", "SendMessageBatch", ALLOWED),
]  # fmt: skip


@pytest.mark.parametrize(
    ("named", "action", "expected"),
    [case[1:] for case in ACTIONS],
    ids=[case[0] for case in ACTIONS],
)
def test_actions(named: Any, action: str, expected: Verdict) -> None:
    assert verdict(statement(Action=named), action=action) is expected


@pytest.mark.parametrize("action", ["SendMessage", "SendMessageBatch"])
def test_not_action_spares_the_named_and_their_batches(action: str) -> None:
    denies = statement(Effect="Deny", Action=None, NotAction="sqs:SendMessage")
    assert verdict(denies, action=action) is UNMENTIONED
    assert verdict(denies, action="ReceiveMessage") is DENIED


def test_every_action_of_the_table_is_known() -> None:
    parts = [GRANTABLE_ACTIONS, OWNER_ACTIONS, frozenset(BATCH_ACTIONS)]
    assert frozenset().union(*parts) == OPERATIONS.keys()
    assert sum(map(len, parts)) == len(OPERATIONS)
    assert GRANTABLE_ACTIONS >= set(BATCH_ACTIONS.values())


# --- where --------------------------------------------------------------------------------------

RESOURCES = [
    ("exact", {"Resource": ARN}, ALLOWED),
    ("another-queue", {"Resource": ARN + "2"}, UNMENTIONED),
    ("another-region", {"Resource": ARN.replace("east", "west")}, UNMENTIONED),
    ("any", {"Resource": "*"}, ALLOWED),
    ("any-region", {"Resource": f"arn:aws:sqs:*:{OWNER}:q"}, ALLOWED),
    ("any-of-account", {"Resource": f"arn:aws:sqs:*:{OWNER}:*"}, ALLOWED),
    ("one-of-several", {"Resource": [ARN + "2", ARN]}, ALLOWED),
    ("case-counts", {"Resource": ARN.replace(":q", ":Q")}, UNMENTIONED),
    ("dots-are-dots", {"Resource": ARN.replace("-", ".")}, UNMENTIONED),
    ("not-this", {"Resource": None, "NotResource": ARN}, UNMENTIONED),
    ("not-another", {"Resource": None, "NotResource": ARN + "2"}, ALLOWED),
]


@pytest.mark.parametrize(
    ("members", "expected"), [case[1:] for case in RESOURCES], ids=[case[0] for case in RESOURCES]
)
def test_resources(members: Members, expected: Verdict) -> None:
    assert verdict(statement(**members)) is expected


# --- together -----------------------------------------------------------------------------------


def test_all_conditions_must_hold() -> None:
    home = {"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}}
    secure = {"Bool": {"aws:SecureTransport": "true"}}
    assert verdict(statement(Condition=home)) is ALLOWED
    assert verdict(statement(Condition=home | secure)) is UNMENTIONED
    assert verdict(statement(Condition=home | secure), is_secure=True) is ALLOWED


def test_one_statement_needs_no_list_and_old_policies_no_version() -> None:
    text = json.dumps({"Id": "x", "Statement": statement(Sid="one")})
    assert evaluate(parse_policy(text), request()) is ALLOWED


def test_in_old_policies_a_variable_is_plain_text() -> None:
    text = policy(statement(Resource=[ARN, "${x}"]), Version="2008-10-17")
    assert evaluate(parse_policy(text), request()) is ALLOWED


STATEMENTS = st.builds(
    statement,
    Effect=st.sampled_from(["Allow", "Deny"]),
    Principal=st.sampled_from(["*", aws(FRIEND), aws(STRANGER), aws(FRIEND, OWNER)]),
    Action=st.sampled_from(["sqs:*", "sqs:SendMessage", "sqs:ReceiveMessage"]),
    Resource=st.sampled_from(["*", ARN, "arn:aws:sqs:*:*:other"]),
    Condition=st.sampled_from(
        [None, {"Bool": {"aws:SecureTransport": "true"}}, {"Null": {"aws:SourceArn": "true"}}]
    ),
)
LISTS = st.lists(STATEMENTS, min_size=1, max_size=5)
REQUESTS = st.fixed_dictionaries(
    {
        "account": st.sampled_from([None, OWNER, FRIEND, STRANGER]),
        "action": st.sampled_from(["SendMessage", "SendMessageBatch", "ReceiveMessage"]),
        "is_secure": st.booleans(),
    }
)


@given(LISTS, REQUESTS)
def test_one_denial_outweighs_everything(statements: list[Members], facts: Members) -> None:
    alone = [verdict(one, **facts) for one in statements]
    together = verdict(*statements, **facts)
    assert (together is DENIED) == (DENIED in alone)
    assert (together is ALLOWED) == (ALLOWED in alone and DENIED not in alone)


@given(LISTS, STATEMENTS, REQUESTS)
def test_another_permission_takes_nothing_away(
    statements: list[Members], added: Members, facts: Members
) -> None:
    before = verdict(*statements, **facts)
    after = verdict(*statements, added | {"Effect": "Allow"}, **facts)
    assert after is before or (before, after) == (UNMENTIONED, ALLOWED)


@given(LISTS.flatmap(lambda items: st.tuples(st.just(items), st.permutations(items))), REQUESTS)
def test_the_order_of_statements_is_irrelevant(
    orders: tuple[list[Members], list[Members]], facts: Members
) -> None:
    assert verdict(*orders[0], **facts) is verdict(*orders[1], **facts)


# --- refused ------------------------------------------------------------------------------------

INVALID = ("InvalidAttributeValue", "Invalid value for the parameter Policy.")
REFUSED = [
    ("no-json", "{"),
    ("text-after", policy(statement()) + "x"),
    ("not-an-object", "[]"),
    ("null", "null"),
    ("deep", "[" * 8_000),
    ("long-number", "1" * 5_000),
    ("lone-surrogate", "\ud800"),
    ("no-statement", json.dumps({"Version": "2012-10-17"})),
    ("empty-statements", policy()),
    ("unknown-member", policy(statement(), Owner="x")),
    ("unknown-version", policy(statement(), Version="2020-01-01")),
    ("unknown-statement-member", policy(statement(Comment="x"))),
    ("member-in-lower-case", policy(statement(Effect=None, effect="Allow"))),
    ("no-effect", policy(statement(Effect=None))),
    ("effect", policy(statement(Effect="allow"))),
    ("member-twice", policy(statement()).replace('"Effect"', '"Effect": "Deny", "Effect"')),
    ("operator-twice",
     policy(statement(Condition={"Bool": {}})).replace('"Bool"', '"Bool": {}, "Bool"')),
    ("not-a-number", policy(statement(Condition={"Bool": {"aws:SecureTransport": float("nan")}}))),
    ("no-principal", policy(statement(Principal=None))),
    ("null-principal", policy(statement()).replace('"*"', "null")),
    ("two-principals", policy(statement(NotPrincipal={"AWS": FRIEND}))),
    ("empty-principal", policy(statement(Principal={}))),
    ("principal-list", policy(statement(Principal={"AWS": []}))),
    ("principal-text", policy(statement(Principal=FRIEND))),
    ("short-account", policy(statement(Principal={"AWS": "123"}))),
    ("account-with-root", policy(statement(Principal={"AWS": FRIEND + ":root"}))),
    ("principal-wildcard", policy(statement(Principal={"AWS": "arn:aws:iam::*:root"}))),
    ("role", policy(statement(Principal={"AWS": f"arn:aws:iam::{FRIEND}:role/x"}))),
    ("federated", policy(statement(Principal={"Federated": "accounts.example.com"}))),
    ("no-action", policy(statement(Action=None))),
    ("empty-action", policy(statement(Action=[]))),
    ("two-actions", policy(statement(NotAction="sqs:SendMessage"))),
    ("action-of-another-service", policy(statement(Action="sns:Publish"))),
    ("unknown-action", policy(statement(Action=["sqs:SendMessage", "sqs:SendMesage"]))),
    ("action-without-service", policy(statement(Action="SendMessage"))),
    ("no-resource", policy(statement(Resource=None))),
    ("two-resources", policy(statement(NotResource=ARN + "2"))),
    ("variable-in-resource", policy(statement(Resource="arn:aws:sqs:*:*:${aws:username}"))),
    ("variable-in-condition",
     policy(statement(Condition={"StringLike": {"aws:PrincipalArn": "${x}"}}))),
    ("unknown-operator", policy(statement(Condition={"StringIs": {"aws:SourceArn": "x"}}))),
    ("unknown-key", policy(statement(Condition={"StringLike": {"aws:PrincipalOrgID": "o-*"}}))),
    ("no-values", policy(statement(Condition={"StringLike": {"aws:SourceArn": []}}))),
]  # fmt: skip


def refusal_of(text: str) -> tuple[str, str]:
    with pytest.raises(SqsError) as caught:
        parse_policy(text)
    return caught.value.row.shape, caught.value.message


@pytest.mark.parametrize("text", [case[1] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_no_policy_or_cannot_be_enforced_is_refused(text: str) -> None:
    assert refusal_of(text) == INVALID


def test_size_is_counted_in_bytes() -> None:
    room = 8_192 - len(policy(statement(Sid="")))
    filled = policy(statement(Sid="_")).replace("_", "ø" * (room // 2) + "x" * (room % 2))
    assert len(filled.encode()) == 8_192
    parse_policy(filled)
    assert refusal_of(filled + " ") == INVALID


def test_an_empty_element_does_not_turn_its_opposite_around() -> None:
    spared = statement(Principal={"AWS": []}, NotPrincipal={"AWS": FRIEND})
    assert verdict(spared) is UNMENTIONED
    assert verdict(spared, account=STRANGER) is ALLOWED


def test_limits_are_inclusive_and_named() -> None:
    actions = sorted(f"sqs:{name}" for name in GRANTABLE_ACTIONS)
    keys = ["aws:SourceArn", "aws:SourceAccount", "aws:CurrentTime", "aws:PrincipalArn"]
    ten = {operator: dict.fromkeys(keys, "arn:a:b:c:d:e") for operator in ("StringLike", "ArnLike")}
    ten["ArnLike"] = dict.fromkeys(keys[:2], "arn:a:b:c:d:e")
    ten["StringEquals"] = dict.fromkeys(keys, "x")
    people = [f"{number:012}" for number in range(51)]
    assert refusal_of(policy(*[statement()] * 21)) == (
        "OverLimit", "21 statements were found in the submitted policy, max allowed is 20",
    )  # fmt: skip
    assert refusal_of(policy(statement(Action=actions))) == (
        "OverLimit",
        "8 actions were found in a statement from the submitted policy, max allowed is 7",
    )
    assert refusal_of(policy(statement(Principal=aws(*people)))) == (
        "OverLimit", "51 principals were found in the submitted policy, max allowed is 50",
    )  # fmt: skip
    eleven = ten | {"Bool": {"aws:SecureTransport": "true"}}
    assert refusal_of(policy(statement(Condition=eleven))) == (
        "OverLimit", "11 conditions were found in the submitted policy, max allowed is 10",
    )  # fmt: skip
    parse_policy(policy(*[statement()] * 20))
    parse_policy(policy(statement(Action=actions[:7], Principal=aws(*people[:50]), Condition=ten)))


NAMES = st.sampled_from([*statement(), "Statement", "AWS", "Condition", "Bool"])
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("*")
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner)
)


@given(st.text(max_size=200) | VALUES.map(json.dumps))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_policy(text)
    except SqsError as error:
        assert (error.row.shape, error.message) == INVALID
