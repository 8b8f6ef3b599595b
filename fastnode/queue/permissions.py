"""AddPermission and RemovePermission: statements of a queue's policy, one label each.

What a policy means is in `policy.py`. Here it is plain values: what others wrote into it stays.
"""

import json
import re
from typing import Any, Final

from msgspec.structs import replace

from fastnode.queue.api import AddPermissionRequest, RemovePermissionRequest
from fastnode.queue.caller import Call
from fastnode.queue.errors import SqsError, invalid_value, missing_parameter, over_limit
from fastnode.queue.live import LiveQueue
from fastnode.queue.policy import (
    ACTIONS_MAX,
    GRANTABLE_ACTIONS,
    OWNER_ACTIONS,
    PRINCIPALS_MAX,
    STATEMENTS_MAX,
    load_policy,
    parse_policy,
)
from fastnode.queue.queue_url import build_arn, is_account
from fastnode.queue.queues import store_record, unchanging_queue
from fastnode.queue.service import Service

_VERSION: Final = "2008-10-17"
_LABEL_MATCH: Final = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch
_LABEL_REASON: Final = (
    "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
)
_OWNER_REASON: Final = "Only the queue owner is allowed to invoke this action."
_UNKNOWN_REASON: Final = "Please refer to the appropriate WSDL for a list of valid actions."

Members = dict[str, Any]


async def add_permission(service: Service, call: Call, request: AddPermissionRequest) -> None:
    queue = await unchanging_queue(service, call, request.queue_url)
    arn = build_arn(queue.region, queue.account, queue.name)
    statement = _new_statement(arn, request)
    policy = _policy_of(queue) or _empty_policy(arn)
    statements = _statements_of(policy)
    labelled = [one for one in statements if one.get("Sid") == statement["Sid"]]
    if statement in labelled:
        await service.still_led(queue.group)
        return
    if labelled:
        raise invalid_value(request.label, "Label", "Already exists.")
    if len(statements) >= STATEMENTS_MAX:
        raise _too_many("Statements", len(statements) + 1, STATEMENTS_MAX)
    text = _written(policy | {"Statement": [*statements, statement]})
    parse_policy(text)
    await _store_policy(service, queue, queue.record.attributes | {"Policy": text})


async def remove_permission(service: Service, call: Call, request: RemovePermissionRequest) -> None:
    queue = await unchanging_queue(service, call, request.queue_url)
    label = _label(request.label)
    policy = _policy_of(queue)
    if policy is None:
        raise invalid_value(label, "Label", "can't find label.")
    statements = _statements_of(policy)
    kept = [one for one in statements if one.get("Sid") != label]
    if len(kept) == len(statements):
        raise invalid_value(label, "Label", "can't find label on existing policy.")
    attributes = {name: text for name, text in queue.record.attributes.items() if name != "Policy"}
    if kept:
        attributes["Policy"] = _written(policy | {"Statement": kept})
    await _store_policy(service, queue, attributes)


async def _store_policy(service: Service, queue: LiveQueue, attributes: dict[str, str]) -> None:
    txn = queue.group.begin(service.new_request())
    modified_ms = txn.commit_ts >> 16
    record = replace(queue.record, attributes=attributes, modified_ms=modified_ms)
    await store_record(queue, txn, record)


# --- The policy as plain values -------------------------------------------------------------------


def _policy_of(queue: LiveQueue) -> Members | None:
    text = queue.record.attributes.get("Policy")
    return load_policy(text) if text else None


def _empty_policy(arn: str) -> Members:
    return {"Version": _VERSION, "Id": f"{arn}/SQSDefaultPolicy", "Statement": []}


def _statements_of(policy: Members) -> list[Members]:
    statements = policy["Statement"]
    return statements if isinstance(statements, list) else [statements]


def _written(policy: Members) -> str:
    return json.dumps(policy, separators=(",", ":"))


# --- The statement of a request -------------------------------------------------------------------


def _new_statement(arn: str, request: AddPermissionRequest) -> Members:
    label = _label(request.label)
    accounts = _required(request.aws_account_ids, "AWSAccountIds")
    actions = _required(request.actions, "ActionName")
    if len(actions) > ACTIONS_MAX:
        raise _too_many("Actions", len(actions), ACTIONS_MAX)
    if len(accounts) > PRINCIPALS_MAX:
        raise _too_many("Principals", len(accounts), PRINCIPALS_MAX)
    partition = arn.split(":", 2)[1]
    return {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": _one_or_many([_root_arn(partition, one) for one in accounts])},
        "Action": _one_or_many([_granted(one) for one in actions]),
        "Resource": arn,
    }


def _label(label: str | None) -> str:
    if not label:
        raise missing_parameter("Label")
    if _LABEL_MATCH(label) is None:
        raise invalid_value(label, "Label", _LABEL_REASON)
    return label


def _required(values: list[str] | None, name: str) -> list[str]:
    if not values:
        raise missing_parameter(name)
    return values


def _granted(action: str) -> str:
    name = f"SQS:{action}"
    if action != "*" and action not in GRANTABLE_ACTIONS:
        is_owners = action in OWNER_ACTIONS
        raise invalid_value(name, "ActionName", _OWNER_REASON if is_owners else _UNKNOWN_REASON)
    return name


def _root_arn(partition: str, account: str) -> str:
    if not is_account(account):
        raise invalid_value(f"[{account}]", "PrincipalId", "Unable to verify principal.")
    return f"arn:{partition}:iam::{account}:root"


def _one_or_many(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values


def _too_many(things: str, count: int, limit: int) -> SqsError:
    return over_limit(f"{count} {things} were found, maximum allowed is {limit}.")
