"""Structs and errors → the JSON that the Query protocol gives to clients that ask for it. Sans-IO.

It is the XML answer in other clothes, not the JSON protocol: there is an envelope, maps are lists
of pairs, and absent members are shown as `null`, which clients rely on.
"""

from typing import Any

import msgspec
from msgspec import Struct

from fastnode.http.query_names import entry_key, json_member
from fastnode.queue.errors import SqsError


def json_answer(action: str, response: Struct | None, request_id: str) -> bytes:
    envelope: dict[str, Any] = {"ResponseMetadata": {"RequestId": request_id}}
    if response is not None:
        envelope[f"{action}Result"] = _members_of(response)
    return msgspec.json.encode({f"{action}Response": envelope})


def json_error_answer(error: SqsError, request_id: str) -> bytes:
    fault = "Sender" if error.row.is_sender_fault else "Receiver"
    shown = {"Type": fault, "Code": error.row.query_code, "Message": error.query_message}
    return msgspec.json.encode({"Error": shown, "RequestId": request_id})


def _members_of(struct: Struct) -> dict[str, Any]:
    return {
        json_member(field.encode_name): _shown(
            getattr(struct, field.name), field.encode_name.removesuffix("s")
        )
        for field in msgspec.structs.fields(struct)
    }


def _shown(value: Any, element: str) -> Any:
    if isinstance(value, Struct):
        return _members_of(value)
    if isinstance(value, dict):
        key = entry_key(element)
        pairs = [{key: name, "Value": _shown(each, "")} for name, each in value.items()]
        return pairs or None
    if isinstance(value, list):
        return [_shown(each, "") for each in value] or None
    return value
