"""What the end of an attempt says about its call and about the call's messages. Pure."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from spark_load.replay.answers import (
    NO_COST,
    Cost,
    MessageRow,
    cost_of,
    error_name,
    held_row,
    parse,
    received,
    settle,
    settle_batch,
    settle_plain,
    settle_send,
    settle_send_batch,
)
from spark_load.replay.attempts import Lost, outcome_of
from spark_load.replay.http1 import Answer
from spark_load.replay.named import maker
from spark_load.replay.requests import Held
from spark_load.schema import Outcome

RECEIVE: Final = "ReceiveMessage"


class Judgement(NamedTuple):
    """What becomes a row of the history, and what a receive brought."""

    outcome: Outcome
    status: int
    error: str | None
    messages: Sequence[MessageRow]
    cost: Cost = NO_COST
    held: Sequence[Held] = ()


judgement: Final = maker(Judgement)


def judge(action: str, messages: Sequence[MessageRow], result: Answer | Lost) -> Judgement:
    if isinstance(result, Lost):
        return Judgement(result.outcome, 0, result.reason, settle(messages, result.outcome))
    outcome = outcome_of(result.status)
    if outcome != "ok":
        rows = settle(messages, outcome)
        return Judgement(outcome, result.status, error_name(result), rows)
    try:
        if action == RECEIVE:
            return _judge_receive(result)
        settled = SETTLERS[action](messages, result.body)
        return judgement(("ok", result.status, None, settled, NO_COST, ()))
    except (ValueError, LookupError, TypeError, AttributeError):
        # Not an answer of SQS, so nobody knows what became of the call.
        return Judgement("unknown", result.status, "BadAnswer", settle(messages, "unknown"))


def _judge_receive(answer: Answer) -> Judgement:
    held = received(answer.body)
    rows = [held_row(message, "ok") for message in held]
    return Judgement("ok", answer.status, None, rows, cost_of(answer), held)


def _settle_nothing(messages: Sequence[MessageRow], body: bytes) -> Sequence[MessageRow]:
    """Of a call that is about no messages; whoever waits for it takes its answer for JSON."""
    if body:
        parse(body)
    return messages


SETTLERS: Final[dict[str, Callable[[Sequence[MessageRow], bytes], Sequence[MessageRow]]]] = {
    "SendMessage": settle_send,
    "SendMessageBatch": settle_send_batch,
    "DeleteMessage": settle_plain,
    "ChangeMessageVisibility": settle_plain,
    "DeleteMessageBatch": settle_batch,
    "CreateQueue": _settle_nothing,
    "DeleteQueue": _settle_nothing,
    "GetQueueAttributes": _settle_nothing,
    "GetQueueUrl": _settle_nothing,
    "ListQueueTags": _settle_nothing,
    "ListQueues": _settle_nothing,
}
