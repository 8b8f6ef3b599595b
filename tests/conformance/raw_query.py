"""Query requests as they stand, for cases about the form itself: no encoder of ours in between."""

from typing import Any, Final
from urllib.parse import urlencode

from tests.conformance.client import FORM_TYPE, Client, Refused, Reply, parse_xml, xml_refusal
from tests.conformance.query_wire import NAMESPACE

XML_NAMESPACE: Final = "http://queue.amazonaws.com/doc/2012-11-05/"


def form(sqs: Client, path: str = "/", **fields: str) -> Reply:
    """Fields as they stand, dots and all."""
    return sqs.exchange("POST", path, {"Content-Type": FORM_TYPE}, urlencode(fields).encode())


def get(sqs: Client, path: str = "/", accept: str = "", **fields: str) -> Reply:
    headers = {"Accept": accept} if accept else {}
    return sqs.exchange("GET", f"{path}?{urlencode(fields)}" if fields else path, headers)


def answer(sqs: Client, reply: Reply) -> dict[str, Any]:
    action = parse_xml(reply).tag.removeprefix(NAMESPACE).removesuffix("Response")
    return sqs.read(action, reply)


def refusal_of(reply: Reply) -> Refused:
    return xml_refusal(parse_xml(reply), reply)


def path_of(sqs: Client, queue: str) -> str:
    return queue.removeprefix(sqs.url)
