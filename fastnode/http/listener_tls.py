"""The certificate that clients of the SQS API and the admin listener see. Read at start, and again
when its files change. A shell.

New files are used as a whole or not at all: a pair that cannot be used leaves the old one in force
and says so in the log. A connection keeps what it began with.
"""

import logging
import ssl
from collections.abc import Callable
from typing import Any, Final

from fastnode.config import CERTIFICATE_WARN_PERIOD_SECONDS, CERTIFICATE_WARN_SECONDS
from fastnode.errors import StartError, UsageError
from fastnode.http.credentials import WATCH_SECONDS
from fastnode.http.private_file import fingerprint
from fastnode.tls import (
    CERTIFICATE,
    KEY,
    Pem,
    check_named,
    expiry_of,
    load_pair,
    read_pem,
    reason_of,
    shake_hands,
)

_CERT_FLAG: Final = "--tls-cert"
_KEY_FLAG: Final = "--tls-key"
_DAY_SECONDS: Final = 86_400
log: Final = logging.getLogger("fastnode.tls")


class ListenerTls:
    """`context` is for connections that begin now, and its certificate ends at `expires_at`, in
    seconds since 1970, as `now` tells them.
    """

    def __init__(self, certificate: str, key: str, now: Callable[[], float]) -> None:
        """Raises `UsageError`."""
        self._certificate = Pem(_CERT_FLAG, certificate)
        self._key = Pem(_KEY_FLAG, key)
        self._now = now
        self._used = self._seen = self._look()
        self._next_warning = 0.0
        try:
            self.context, self.expires_at = load_listener(self._certificate, self._key)
        except StartError as error:
            raise UsageError(str(error)) from error

    def reload(self) -> None:
        self._used = self._seen = self._look()
        try:
            self.context, self.expires_at = load_listener(self._certificate, self._key)
        except StartError as error:
            log.error("the old certificate stays in force: %s", error)
            return
        self._next_warning = 0.0
        log.info("certificate read", extra={"days_left": self._days_left})

    def watch(self, call_later: Callable[..., object]) -> None:
        """Look at the files now and every few seconds, by the event loop's `call_later`."""
        self.look_again()
        self.warn_in_time()
        call_later(WATCH_SECONDS, self.watch, call_later)

    def look_again(self) -> None:
        """Two files are not replaced at once: what was just changed has another look to settle."""
        before, self._seen = self._seen, self._look()
        if self._seen != self._used and self._seen == before:
            self.reload()

    def warn_in_time(self) -> None:
        now = self._now()
        if now < self._next_warning or self.expires_at - now > CERTIFICATE_WARN_SECONDS:
            return
        self._next_warning = now + CERTIFICATE_WARN_PERIOD_SECONDS
        fields = {"file": self._certificate.path, "days_left": self._days_left}
        log.warning("the certificate expires: replace its files", extra=fields)

    @property
    def _days_left(self) -> int:
        return int((self.expires_at - self._now()) // _DAY_SECONDS)

    def _look(self) -> object:
        return fingerprint(self._certificate.path), fingerprint(self._key.path)


def load_listener(certificate: Pem, key: Pem) -> tuple[ssl.SSLContext, int]:
    """A context, and when its certificate ends. `StartError` for what no client would accept."""
    read_pem(certificate, CERTIFICATE)
    read_pem(key, KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client that asks for keys again and again would cost more than it pays.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    load_pair(context, certificate, key)
    shown = _shown(context, certificate)
    check_named(certificate, shown)
    return context, expiry_of(shown)


def _shown(server: ssl.SSLContext, certificate: Pem) -> dict[str, Any]:
    """By a client that trusts the certificate itself, whoever has signed it."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        client.load_verify_locations(certificate.path)
        return shake_hands(server, client)
    except ssl.SSLError as error:
        advice = "give one that is valid now, and for servers"
        raise StartError(f"{certificate} is not good: {reason_of(error)}: {advice}") from error
