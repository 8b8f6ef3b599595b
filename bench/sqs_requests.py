"""Raw HTTP requests as botocore sends them, signed beforehand; pure: the time is an argument.

A signature is good for 15 minutes, so the load generator repeats these bytes for a while; it gives
each request that has an invocation id one of its own, which no signature covers. The batch deletes
that it fills in it also signs, with the key that their file tells it.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

SERVICE = "sqs"
ACCESS_KEY, SECRET_KEY = "AKIDEXAMPLE", "benchmark-secret"
SIGNED_HEADERS = ("content-type", "host", "x-amz-date", "x-amz-target")
USER_AGENT = (
    "Boto3/1.44.0 md/Botocore#1.44.0 ua/2.1 os/linux#6.8.0 md/arch#x86_64 lang/python#3.12.3 "
    "md/pyimpl#CPython m/Z,b cfg/retry-mode#legacy Botocore/1.44.0"
)


@dataclass(frozen=True)
class Signer:
    """Whose key signs, for which endpoint, and when."""

    host: str
    signed_at: datetime
    region: str = "us-east-1"
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY

    def request(
        self, action: str, members: Mapping[str, object], serial: int | None = None
    ) -> bytes:
        """One complete request. `serial` tells its invocation id from the others'; without one the
        request is never taken for another attempt of an earlier one.
        """
        body = json.dumps(members).encode()
        headers = {
            "X-Amz-Target": f"AmazonSQS.{action}",
            "Content-Type": "application/x-amz-json-1.0",
            "User-Agent": USER_AGENT,
            "X-Amz-Date": self.signed_at.strftime("%Y%m%dT%H%M%SZ"),
        }
        headers["Authorization"] = self.authorization(headers, body)
        if serial is not None:
            headers["amz-sdk-invocation-id"] = f"6f1c4a52-0d3e-4b77-9c18-{serial:012x}"
            headers["amz-sdk-request"] = "attempt=1"
        headers["Content-Length"] = str(len(body))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST / HTTP/1.1\r\nHost: {self.host}\r\nAccept-Encoding: identity\r\n{lines}\r\n"
        return head.encode() + body

    def authorization(self, headers: Mapping[str, str], body: bytes) -> str:
        """The value of the Authorization header: AWS Signature Version 4."""
        lowered = {name.lower(): value for name, value in headers.items()} | {"host": self.host}
        listed = "".join(f"{name}:{lowered[name]}\n" for name in SIGNED_HEADERS)
        names = ";".join(SIGNED_HEADERS)
        canonical = f"POST\n/\n\n{listed}\n{names}\n{hashlib.sha256(body).hexdigest()}"
        scope = self.scope()
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        to_sign = f"AWS4-HMAC-SHA256\n{lowered['x-amz-date']}\n{scope}\n{digest}"
        key = signing_key(self.secret_key, scope)
        signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
        credential = f"Credential={self.access_key}/{scope}"
        return f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"

    def scope(self) -> str:
        """What the signatures are good for besides their time: a day, region and service."""
        return f"{self.signed_at:%Y%m%d}/{self.region}/{SERVICE}/aws4_request"


@lru_cache
def signing_key(secret_key: str, scope: str) -> bytes:
    """The key of one day, region and service."""
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def credentials() -> str:
    """The credentials file of a node that believes these signatures."""
    key = {"access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY}
    return json.dumps({"credentials": [key]})


def message_body(serial: int, length: int = 200) -> str:
    """Text of exactly `length` characters that differs from message to message."""
    assert length >= 16
    return f"message {serial:08d}".ljust(length, "x")


def sends(signer: Signer, queue_url: str, *, count: int) -> bytes:
    """A file of SendMessage requests with 200-byte bodies."""
    return b"".join(
        signer.request(
            "SendMessage", {"QueueUrl": queue_url, "MessageBody": message_body(serial)}, serial
        )
        for serial in range(count)
    )


def batch_sends(signer: Signer, queue_url: str, *, count: int) -> bytes:
    """A file of SendMessageBatch requests, ten 200-byte bodies each."""
    return b"".join(
        signer.request(
            "SendMessageBatch",
            {
                "QueueUrl": queue_url,
                "Entries": [
                    {"Id": str(entry), "MessageBody": message_body(serial * 10 + entry)}
                    for entry in range(10)
                ],
            },
            serial,
        )
        for serial in range(count)
    )


def consumer_script(signer: Signer, queue_url: str, *, wait_seconds: int = 0) -> bytes:
    """A consumer's file: a receive of ten, and the batch delete that the load generator fills in
    and signs, for which it is told the key.
    """
    receive = {
        "QueueUrl": queue_url,
        "MaxNumberOfMessages": 10,
        "WaitTimeSeconds": wait_seconds,
    }
    delete = {"QueueUrl": queue_url, "Entries": []}
    key = signing_key(signer.secret_key, signer.scope()).hex()
    marked = f"\r\nX-Loadgen-Signing-Key: {key}\r\nHost: ".encode()
    first = signer.request("ReceiveMessage", receive, 0)
    second = signer.request("DeleteMessageBatch", delete, 1)
    return first + second.replace(b"\r\nHost: ", marked, 1)
