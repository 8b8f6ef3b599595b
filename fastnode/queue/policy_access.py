"""Whether a call may use a queue: its owner unless denied, everybody else if its policy allows."""

from typing import Final

from fastnode.queue.caller import Call
from fastnode.queue.errors import access_denied
from fastnode.queue.live import LiveQueue
from fastnode.queue.policy import OWNER_ACTIONS, Verdict, evaluate
from fastnode.queue.policy_conditions import AccessRequest
from fastnode.queue.queue_url import build_arn, build_url

# No policy takes these from the owner: one that denies everything could not be mended any more.
_MENDING_ACTIONS: Final = frozenset({"RemovePermission", "SetQueueAttributes"})


def require_access(queue: LiveQueue, call: Call) -> None:
    if not has_access(queue, call):
        url = build_url(call.caller.endpoint, queue.account, queue.name)
        raise access_denied(f"Access to the resource {url} is denied.")


def has_access(queue: LiveQueue, call: Call) -> bool:
    is_owner = call.caller.account == queue.account and not call.caller.is_anonymous
    if queue.policy is None:
        return is_owner
    verdict = evaluate(queue.policy, _access_request(queue, call))
    if is_owner:
        return verdict is not Verdict.DENIED or call.action in _MENDING_ACTIONS
    return verdict is Verdict.ALLOWED and call.action not in OWNER_ACTIONS


def _access_request(queue: LiveQueue, call: Call) -> AccessRequest:
    caller = call.caller
    return AccessRequest(
        action=call.action,
        resource=build_arn(queue.region, queue.account, queue.name),
        account=None if caller.is_anonymous else caller.account,
        user=caller.sender_id,
        source_ip=call.source_ip,
        is_secure=call.is_secure,
        now_ms=queue.group.now() >> 16,
    )
