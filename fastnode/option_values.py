"""Texts of options ↔ values: addresses, lists of members, switches, numbers. A leaf; pure.

A parser raises `ValueError("must be …")`; where the text came from, `settings.py` adds.
"""

import ipaddress
import re
from collections.abc import Callable
from typing import Final

import msgspec

from fastnode.config import CAPABILITIES, GROUPS_MAX

NODE_ID_MAX: Final = 65_535
REGION_CHARACTERS_MAX: Final = 32
# All addresses of a machine: where to bind, and where nobody else finds it; the one for itself.
WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (told apart, not bound)
_WORDS_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_WORDS_FALSE: Final = frozenset({"false", "0", "no", "off"})
_REGION_PATTERN: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Address(msgspec.Struct, frozen=True):
    """Where a listener binds. Port 0 asks the system for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """A name other than localhost counts as public: what it resolves to can change under us."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: str) -> Address:
    """HOST:PORT or [IPV6]:PORT."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise ValueError("must be HOST:PORT with a port from 0 to 65535")
    if bracketed != (":" in host):
        raise ValueError("must be HOST:PORT, an IPv6 address in brackets as in [::1]:9324")
    if any(character.isspace() or character in "[]/@" for character in host):
        raise ValueError("must be HOST:PORT without a scheme or a path")
    return Address(host, int(port))


def parse_host(text: str) -> str:
    if not text:
        return ""
    try:
        return parse_address(f"{text}:0").host
    except ValueError:
        wanted = "a host name or an address, IPv6 in brackets as in [::1]"
        raise ValueError(f"must be {wanted}, without a port") from None


def parse_join(text: str) -> str:
    if not text:
        return ""
    address = parse_address(text)
    if address.port == 0:
        raise ValueError("must name the port at which the member is reached")
    return str(address)


def parse_peers(text: str) -> str:
    """`1=HOST:PORT,2=HOST:PORT,3=HOST:PORT`; returned in the order of the numbers."""
    addresses: dict[int, Address] = {}
    for entry in text.split(",") if text else ():
        number, equals, address = entry.strip().partition("=")
        if not equals or not number.isascii() or not number.isdigit() or len(number) > 5:
            raise ValueError("must be NODE=HOST:PORT for every member, with commas between them")
        node = int(number)
        if not 1 <= node <= NODE_ID_MAX or node in addresses:
            raise ValueError(f"must name each node once, by a number from 1 to {NODE_ID_MAX}")
        addresses[node] = parse_address(address)
        if addresses[node].port == 0:
            raise ValueError("must name the ports at which members reach each other")
    if len(set(addresses.values())) != len(addresses):
        raise ValueError("must name another address for each node")
    return ",".join(f"{node}={addresses[node]}" for node in sorted(addresses))


def parse_switch(text: str) -> bool:
    word = text.lower()
    if word not in _WORDS_TRUE | _WORDS_FALSE:
        raise ValueError("must be true or false")
    return word in _WORDS_TRUE


def parse_workers(text: str) -> int:
    """0 stands for `auto`: as many as this process may use cores."""
    try:
        return 0 if text == "auto" else integer(1, GROUPS_MAX)(text)
    except ValueError:
        raise ValueError(f"must be auto or a whole number from 1 to {GROUPS_MAX}") from None


def parse_region(text: str) -> str:
    if len(text) > REGION_CHARACTERS_MAX or not _REGION_PATTERN.fullmatch(text):
        raise ValueError("must be lower-case letters, digits and single hyphens, such as us-east-1")
    return text


def parse_path(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("must be the path of a directory")
    return text


def parse_optional_path(text: str) -> str:
    if "\0" in text:
        raise ValueError("must be the path of a file")
    return text


def parse_capability(text: str) -> str:
    if text not in ("", *CAPABILITIES):
        raise ValueError(f"must be empty or one of {', '.join(CAPABILITIES)}")
    return text


def integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # isdigit() first: int() would also take "1_0", " 8 " and digits of other scripts.
        if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(text)

    return parse


def choice(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"must be {', '.join(words[:-1])} or {words[-1]}")
        return text

    return parse
