"""Which node a command talks to, and as whom: flag, then environment, then configuration file.

A secret is never a flag: everybody on the machine can read the arguments of a process.
"""

import argparse
import os
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from fastnode.cli.actions import Parser
from fastnode.errors import UsageError
from fastnode.option_values import WILDCARDS, Address, parse_region
from fastnode.settings import Settings, load_settings

# What an open node makes of any key; the signature is looked at by nobody.
_NOBODY: Final = ("fastnode", "fastnode")
_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL")
_CA_VARIABLE: Final = "AWS_CA_BUNDLE"
_REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


class Keys(NamedTuple):
    access: str
    secret: str
    token: str = ""


class Target(NamedTuple):
    """`endpoint` and `admin` are URLs without a path. `ca` is a file of certificates to trust;
    if it is empty, those of the system.
    """

    endpoint: str
    admin: str
    region: str
    keys: Keys
    ca: str = ""


def with_target(parser: Parser) -> None:
    parser.add_argument("--endpoint", metavar="URL", help="SQS address of the node")
    with_admin(parser)
    parser.add_argument("--region", metavar="R", help="region of the queue")
    parser.add_argument("--credentials", metavar="FILE", help="JSON file with the key to sign with")
    with_json(parser)


def with_admin(parser: Parser) -> None:
    parser.add_argument(
        "--admin", metavar="HOST:PORT", help="admin address of the node, or its URL"
    )
    parser.add_argument("--ca", metavar="FILE", help="PEM certificate to trust, of https addresses")
    parser.add_argument("--config", metavar="FILE", help="the node's TOML file")


def with_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON, for scripts")


def target_of(given: argparse.Namespace) -> Target:
    settings = load_settings({}, os.environ, config=given.config)
    return Target(
        _endpoint(given, settings),
        _admin(given, settings),
        _region(given, settings),
        _keys(given, settings),
        _ca(given, settings),
    )


def admin_of(given: argparse.Namespace) -> tuple[str, str]:
    """The URL, and what to trust."""
    settings = load_settings({}, os.environ, config=given.config)
    return _admin(given, settings), _ca(given, settings)


def _admin(given: argparse.Namespace, settings: Settings) -> str:
    if given.admin is not None:
        return url_of(given.admin, "--admin", settings.scheme)
    return _url_of_listener(settings.admin, "admin", settings.scheme)


def _ca(given: argparse.Namespace, settings: Settings) -> str:
    """Who has the node's configuration at hand trusts its certificate, whoever has signed it; the
    variable may be there for the sake of AWS.
    """
    return str(given.ca or settings.tls_cert or os.environ.get(_CA_VARIABLE, ""))


def url_of(text: str, flag: str, scheme: str = "http") -> str:
    """HOST:PORT, or the URL that the ready line shows."""
    try:
        parts = urlsplit(text if "://" in text else f"{scheme}://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.path not in ("", "/"):
        raise UsageError(f"{flag} must be HOST:PORT or http://HOST:PORT, not {text!r}")
    default = 443 if parts.scheme == "https" else 80
    if port is None and "://" not in text:
        raise UsageError(f"{flag} must be HOST:PORT, not {text!r}")
    return f"{parts.scheme}://{Address(host, port or default)}"


def _endpoint(given: argparse.Namespace, settings: Settings) -> str:
    if given.endpoint is not None:
        return url_of(given.endpoint, "--endpoint", settings.scheme)
    for name in _ENDPOINT_VARIABLES:
        if text := os.environ.get(name):
            return url_of(text, name, settings.scheme)
    return _url_of_listener(settings.listen, "endpoint", settings.scheme)


def _url_of_listener(address: Address, flag: str, scheme: str) -> str:
    if address.port == 0:
        raise UsageError(f"the node takes any port: name the one of its ready line with --{flag}")
    return f"{scheme}://{Address(WILDCARDS.get(address.host, address.host), address.port)}"


def _region(given: argparse.Namespace, settings: Settings) -> str:
    if given.region is None and "region" in settings.explicit:
        return settings.region
    named = [os.environ[name] for name in _REGION_VARIABLES if os.environ.get(name)]
    text = given.region or (named[0] if named else settings.region)
    try:
        return parse_region(text)
    except ValueError as error:
        raise UsageError(f"--region {error}, not {text!r}") from None


def _keys(given: argparse.Namespace, settings: Settings) -> Keys:
    environ = os.environ
    if given.credentials is None and environ.get("AWS_ACCESS_KEY_ID"):
        token = environ.get("AWS_SESSION_TOKEN", "")
        return Keys(environ["AWS_ACCESS_KEY_ID"], environ.get("AWS_SECRET_ACCESS_KEY", ""), token)
    path = given.credentials or settings.credentials
    return _first_key(path) if path else Keys(*_NOBODY)


def _first_key(path: str) -> Keys:
    # Here and not on top: most nodes of developers are open, and this loads half of the server.
    from fastnode.http.credentials import read_credentials

    for access, key in read_credentials(path).items():
        return Keys(access, key.secret)
    raise UsageError(f"the credentials file {path} has no key")
