"""A client that speaks both protocols over plain sockets and gives one neutral result.

`call` takes and gives members as JSON spells them. Every answer is held against the rules of its
envelope (contract, sections 1.2 and 1.4), so a case about queues also notices a wrong header.
Nothing here comes from the code under test.
"""

import http.client
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from tests.conformance.kinds import Kind
from tests.conformance.query_wire import form_fields, local, members_of

REGION: Final = "us-east-1"
ACCOUNT: Final = "000000000000"
TIMEOUT_SECONDS: Final = 60.0
JSON_TYPE: Final = "application/x-amz-json-1.0"
FORM_TYPE: Final = "application/x-www-form-urlencoded"
PROLOG: Final = b'<?xml version="1.0"?>'
VOID: Final = frozenset(
    {"AddPermission", "ChangeMessageVisibility", "DeleteMessage", "DeleteQueue", "PurgeQueue"}
    | {"RemovePermission", "SetQueueAttributes", "TagQueue", "UntagQueue"}
)
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Headers = dict[str, str]
# Method, URL, headers, body → headers with a signature, or the URL with one.
Signer = Callable[[str, str, Headers, bytes], tuple[str, Headers]]


@dataclass(frozen=True)
class Reply:
    """An HTTP answer, uninterpreted."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Refused(Exception):
    """The answer was an error. `type` is None by Query, which does not carry it."""

    def __init__(self, status: int, type_: str | None, code: str, text: str, reply: Reply) -> None:
        super().__init__(status, type_, code, text)
        self.status = status
        self.type = type_
        self.code = code
        self.text = text
        self.reply = reply

    def assert_is(self, kind: Kind, text: str | None = None) -> None:
        expected = (kind.status, kind.type if self.type else None, kind.code)
        assert (self.status, self.type, self.code) == expected, self
        assert text is None or self.text == text, self.text


def claim(access_key: str, region: str = REGION) -> Signer:
    """What an open node wants to see: whose key it is, without a proof."""
    scope = f"{access_key}/20260101/{region}/sqs/aws4_request"
    text = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"

    def sign(_method: str, url: str, headers: Headers, _body: bytes) -> tuple[str, Headers]:
        return url, headers | {"Authorization": text}

    return sign


ANYBODY: Final = claim("test")


class Client:
    """One connection. Not for several threads at once: `another` makes a second one."""

    def __init__(self, url: str, protocol: str, sign: Signer | None = ANYBODY) -> None:
        address = urlsplit(url)
        assert address.hostname is not None
        self.url = url
        self.protocol = protocol
        self.sign = sign
        self._connection = http.client.HTTPConnection(
            address.hostname, address.port, timeout=TIMEOUT_SECONDS
        )
        self._others: list[Client] = []

    @property
    def is_json(self) -> bool:
        return self.protocol == "json"

    def another(self, sign: Signer | None = None) -> "Client":
        """A second connection to the same node, which closes with the first."""
        return self._opened(Client(self.url, self.protocol, sign or self.sign))

    def anonymous(self) -> "Client":
        return self._opened(Client(self.url, self.protocol, None))

    def _opened(self, other: "Client") -> "Client":
        self._others.append(other)
        return other

    def close(self) -> None:
        for each in (*self._others, self):
            each._connection.close()

    def call(self, action: str, **members: Any) -> dict[str, Any]:
        """The members of the answer; raises `Refused`."""
        return self.read(action, self.send(action, members))

    def refused(self, action: str, **members: Any) -> Refused:
        """The error that this call must end with."""
        try:
            answer = self.call(action, **members)
        except Refused as refusal:
            return refusal
        raise AssertionError(f"{action} was accepted: {answer}")

    def send(
        self,
        action: str,
        members: Mapping[str, Any],
        *,
        path: str = "/",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        if self.is_json:
            own = {"Content-Type": JSON_TYPE, "X-Amz-Target": f"AmazonSQS.{action}"}
            body = json.dumps(members).encode()
        else:
            own = {"Content-Type": FORM_TYPE}
            body = urlencode(form_fields(action, members)).encode()
        return self.exchange("POST", path, own | dict(headers or {}), body)

    def exchange(self, method: str, path: str, headers: Headers, body: bytes = b"") -> Reply:
        """Any request at all; signed as the client signs."""
        url = self.url + path
        if self.sign is not None:
            url, headers = self.sign(method, url, headers, body)
        self._connection.request(method, url.removeprefix(self.url), body, headers)
        response = self._connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, names, response.read())

    def read(self, action: str, reply: Reply) -> dict[str, Any]:
        """Interpret an answer by the rules of the protocol; raises `Refused`."""
        assert UUID.fullmatch(reply.headers["x-amzn-requestid"]), reply.headers
        return read_json(action, reply) if self.is_json else read_xml(action, reply)


# --- JSON ---------------------------------------------------------------------------------------


def read_json(action: str, reply: Reply) -> dict[str, Any]:
    assert reply.headers["content-type"] == JSON_TYPE, reply.headers
    if reply.status != 200:
        raise json_refusal(reply)
    assert (reply.body == b"") == (action in VOID), reply.body
    members: dict[str, Any] = json.loads(reply.body) if reply.body else {}
    assert isinstance(members, dict), members
    _check_absent(members)
    return members


def json_refusal(reply: Reply) -> Refused:
    error = json.loads(reply.body)
    assert set(error) == {"__type", "message"}, error
    code, _, fault = reply.headers["x-amzn-query-error"].partition(";")
    assert fault == ("Sender" if reply.status < 500 else "Receiver"), reply.headers
    return Refused(reply.status, error["__type"], code, error["message"], reply)


def _check_absent(value: object) -> None:
    """What has no value is left out: no null, no empty collection below the top."""
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        assert each is not None and each != [] and each != {}, value
        _check_absent(each)


# --- XML ----------------------------------------------------------------------------------------


def read_xml(action: str, reply: Reply) -> dict[str, Any]:
    root = parse_xml(reply)
    if reply.status != 200:
        raise xml_refusal(root, reply)
    assert local(root) == f"{action}Response", root.tag
    names = [local(child) for child in root]
    result = [] if action in VOID else [f"{action}Result"]
    assert names == [*result, "ResponseMetadata"], names
    assert [local(child) for child in root[-1]] == ["RequestId"]
    assert root[-1][0].text == reply.headers["x-amzn-requestid"]
    return members_of(action, root[0]) if result else {}


def parse_xml(reply: Reply) -> ET.Element:
    assert reply.headers["content-type"] == "text/xml", reply.headers
    assert reply.body.startswith(PROLOG + b"<"), reply.body[:80]
    root = ET.fromstring(reply.body)
    for element in root.iter():
        if len(element):
            spaces = [element.text, *(child.tail for child in element)]
            assert not any(spaces), f"text between elements of {element.tag}: {spaces}"
    return root


def xml_refusal(root: ET.Element, reply: Reply) -> Refused:
    assert [local(root), *map(local, root)] == ["ErrorResponse", "Error", "RequestId"]
    assert root[1].text == reply.headers["x-amzn-requestid"]
    fields = {local(child): child.text or "" for child in root[0]}
    assert list(fields) == ["Type", "Code", "Message", "Detail"], fields
    assert b"<Detail/>" in reply.body
    assert fields["Type"] == ("Sender" if reply.status < 500 else "Receiver"), fields
    return Refused(reply.status, None, fields["Code"], fields["Message"], reply)
