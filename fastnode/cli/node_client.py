"""What the commands say to a running node: SQS, signed, and the admin API. Over the standard
library; a whole SDK would be a large dependency for a dozen calls.
"""

import hashlib
import hmac
import http.client
import json
import os
import ssl
import time
from contextlib import closing
from typing import Any, Final
from urllib.parse import urlsplit

from fastnode.cli.target import Target
from fastnode.clock import NS_PER_MS, SystemClock, SystemIdSource
from fastnode.errors import FastnodeError, StartError, UsageError
from fastnode.native import message_id_text
from fastnode.settings import PROOF_VARIABLE
from fastnode.tls import reason_of

ANSWER_SECONDS: Final = 35.0
ANSWER_BYTES_MAX: Final = 64 * 1_048_576
# A node that has no leader yet, or too much to do, says when to come back.
_ATTEMPTS_MAX: Final = 4
_SERVICE: Final = "sqs"
_CONTENT_TYPE: Final = "application/x-amz-json-1.0"
# What a node says that was asked without TLS and has it.
_SPEAKS_TLS: Final = b"this address speaks TLS"
# By OpenSSL's numbers: the certificate is good, and another host's.
_OTHER_HOST: Final = (62, 64)
_NS_PER_SECOND: Final = 1_000 * NS_PER_MS


class Unreachable(StartError):
    """Nobody answers at the address."""

    exit_code = 3


class Refusal(FastnodeError):
    """The node answered, and said no."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Wire:
    """One connection to a node, opened when it is needed and again when it was cut."""

    def __init__(self, url: str, flag: str, ca: str, seconds: float = ANSWER_SECONDS) -> None:
        """`ca` as in `Target`. Raises `UsageError` if nothing in it can be trusted."""
        parts = urlsplit(url)
        self.host = _host_header(parts.scheme, parts.netloc)
        self._url, self._flag = url, flag
        assert parts.hostname is not None and parts.port is not None
        self._connection = (
            http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=seconds, context=_trust(ca)
            )
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
        )

    def close(self) -> None:
        self._connection.close()

    def ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            return answer, answer.read(ANSWER_BYTES_MAX)
        except ssl.SSLError as error:
            self._connection.close()
            raise StartError(self._distrust(error)) from error
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unreachable(
                f"no answer from {self._url.removeprefix('http://')}: {reason}: start the node with"
                f" 'fastnode run', or name another with {self._flag}"
            ) from error

    def _distrust(self, error: ssl.SSLError) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            advice = "give the certificate of who has signed it with --ca FILE"
            if error.verify_code in _OTHER_HOST:
                advice = "use a host that it is made out to"
            return f"the certificate of {self._url} is not trusted: {reason_of(error)}: {advice}"
        return (
            f"no TLS with {self._url}: {reason_of(error)}: if the node has no --tls-cert,"
            " begin the address with http://"
        )


def _host_header(scheme: str, netloc: str) -> str:
    """Without the port that the scheme means anyway: whoever looks at signatures leaves it out."""
    return netloc.removesuffix(":443" if scheme == "https" else ":80")


def _trust(ca: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except OSError as error:
        reason = reason_of(error) if isinstance(error, ssl.SSLError) else error.strerror
        raise UsageError(f"cannot trust {ca}: {reason}: give --ca a PEM certificate") from None
    # Whoever names a node's own certificate trusts it, also if another one has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


class Invocation:
    """One call, however often it is attempted: what has landed does not land twice."""

    def __init__(self, ids: SystemIdSource) -> None:
        self._id = message_id_text(ids.take(16))
        self._attempts = 0

    def next_headers(self) -> dict[str, str]:
        self._attempts += 1
        attempt = f"attempt={self._attempts}; max={max(self._attempts, _ATTEMPTS_MAX)}"
        return {"amz-sdk-invocation-id": self._id, "amz-sdk-request": attempt}


class SqsClient:
    def __init__(self, target: Target, seconds: float = ANSWER_SECONDS) -> None:
        self.target = target
        self._wire = Wire(target.endpoint, "--endpoint", target.ca, seconds)
        self._wall_ns, self._ids = SystemClock().wall_ns, SystemIdSource()

    def call(self, action: str, **parameters: object) -> dict[str, Any]:
        """What the action answers; `Refusal` if it was refused."""
        return self.attempt(self.invocation(), action, **parameters)

    def invocation(self) -> Invocation:
        """For a call that may have to be made again after `Unreachable`, in the same words."""
        return Invocation(self._ids)

    def attempt(self, invocation: Invocation, action: str, **parameters: object) -> dict[str, Any]:
        body = json.dumps(parameters).encode()
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            headers = self._headers(action, body) | invocation.next_headers()
            answer, text = self._wire.ask("POST", "/", body, headers)
            if answer.status != 503 or attempt == _ATTEMPTS_MAX:
                return self._read(answer.status, text)
            time.sleep(_patience(answer.getheader("Retry-After")))
        raise AssertionError("the last attempt returns")

    def close(self) -> None:
        self._wire.close()

    def _read(self, status: int, text: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(text or b"{}")
        except ValueError:
            answer = None
        if isinstance(answer, dict) and status == 200:
            return answer
        if _SPEAKS_TLS in text:
            raise StartError(_plain(self.target.endpoint, "--endpoint"))
        if not isinstance(answer, dict) or "__type" not in answer:
            raise StartError(
                f"{self.target.endpoint} answered {status} and not as SQS does: is it the"
                " --listen address of a fastnode?"
            )
        code = str(answer["__type"]).rpartition("#")[2]
        raise Refusal(code, str(answer.get("message") or answer.get("Message") or code))

    def _headers(self, action: str, body: bytes) -> dict[str, str]:
        now = time.gmtime(self._wall_ns() // _NS_PER_SECOND)
        headers = {
            "Content-Type": _CONTENT_TYPE,
            "Host": self._wire.host,
            "X-Amz-Date": time.strftime("%Y%m%dT%H%M%SZ", now),
            "X-Amz-Target": f"AmazonSQS.{action}",
        }
        if self.target.keys.token:
            headers["X-Amz-Security-Token"] = self.target.keys.token
        return headers | {"Authorization": signature(self.target, headers, body)}


def _patience(retry_after: str | None) -> float:
    return float(min(int(retry_after), 5)) if retry_after and retry_after.isdigit() else 1.0


def signature(target: Target, headers: dict[str, str], body: bytes) -> str:
    """Signature Version 4 of a POST to the root."""
    stamp = headers["X-Amz-Date"]
    scope = f"{stamp[:8]}/{target.region}/{_SERVICE}/aws4_request"
    lowered = sorted((name.lower(), value) for name, value in headers.items())
    names = ";".join(name for name, _ in lowered)
    lines = "".join(f"{name}:{value}\n" for name, value in lowered)
    canonical = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = b"AWS4" + target.keys.secret.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signed = hmac.digest(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}".encode(), "sha256")
    credential = f"Credential={target.keys.access}/{scope}"
    return f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signed.hex()}"


class AdminRefusal(StartError):
    """The node answered, and said no."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class AdminClient:
    """One connection to the admin API of a node; `place` is as `admin_of` tells it."""

    def __init__(self, place: tuple[str, str], seconds: float = ANSWER_SECONDS) -> None:
        self._url, ca = place
        self._shown = self._url.removeprefix("http://")
        self._wire = Wire(self._url, "--admin", ca, seconds)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The decoded answer; `AdminRefusal` with the node's own reason otherwise."""
        encoded = None if body is None else json.dumps(body).encode()
        decoded = _decoded(self._asked(method, path, encoded))
        if not isinstance(decoded, dict):
            raise StartError(f"the answer of {self._shown} is of another version: no JSON object")
        return decoded

    def octets(self, path: str) -> bytes:
        """An answer that is no JSON."""
        return self._asked("GET", path, None)

    def close(self) -> None:
        self._wire.close()

    def _asked(self, method: str, path: str, body: bytes | None) -> bytes:
        answer, text = self._wire.ask(method, path, body, _admin_headers())
        if answer.status == 200:
            return text
        if _SPEAKS_TLS in text:
            raise StartError(_plain(self._url, "--admin"))
        decoded = _decoded(text)
        raise AdminRefusal(_code(decoded), _refusal(self._shown, answer.status, decoded))


def ask_admin(
    place: tuple[str, str],
    method: str,
    path: str,
    body: object = None,
    seconds: float = ANSWER_SECONDS,
) -> Any:
    """One question on a connection of its own."""
    with closing(AdminClient(place, seconds)) as client:
        return client.ask(method, path, body)


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _code(decoded: Any) -> str:
    try:
        return str(decoded["error"]["code"])
    except (KeyError, TypeError):
        return ""


def _plain(url: str, flag: str) -> str:
    secured = url.replace("http://", "https://", 1)
    return f"{url} speaks TLS: give {flag} {secured}, and --ca FILE to trust its certificate"


def _admin_headers() -> dict[str, str]:
    token = os.environ.get(PROOF_VARIABLE, "")
    proof = {"Authorization": f"Bearer {token}"} if token else {}
    return {"Content-Type": "application/json"} | proof


def _refusal(admin: str, status: int, decoded: Any) -> str:
    try:
        code, message = str(decoded["error"]["code"]), str(decoded["error"]["message"])
    except (KeyError, TypeError):
        return f"{admin} answered {status}: is it the admin address of a fastnode?"
    if code == "unauthorized":
        return f"{admin} wants an admin token: set {PROOF_VARIABLE} to one of its --admin-tokens"
    if code == "not_found":
        return (
            f"the node at {admin} knows nothing of this: is its version older than the command's?"
        )
    if code == "unavailable":
        return f"{message}: try again, or ask another member with --admin"
    return message
