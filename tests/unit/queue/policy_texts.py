"""Policies and calls for tests, with everything that a test does not care about filled in."""

import json
from typing import Any

from fastnode.queue.policy_conditions import AccessRequest

OWNER = "000000000000"
FRIEND = "111111111111"
STRANGER = "222222222222"
ARN = f"arn:aws:sqs:us-east-1:{OWNER}:q"
# 2023-11-14T22:13:20Z
NOW_MS = 1_700_000_000_000

Members = dict[str, Any]


def statement(**members: Any) -> Members:
    """Everybody may do everything, unless `members` say otherwise; None leaves one out."""
    usual = {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": ARN}
    return {name: value for name, value in (usual | members).items() if value is not None}


def policy(*statements: Members, **members: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)} | members)


def request(**facts: Any) -> AccessRequest:
    """A friend sends a message from somewhere, without TLS."""
    usual: Members = {
        "action": "SendMessage",
        "resource": ARN,
        "account": FRIEND,
        "user": "AKIDFRIEND",
        "source_ip": "203.0.113.7",
        "is_secure": False,
        "now_ms": NOW_MS,
    }
    return AccessRequest(**(usual | facts))
