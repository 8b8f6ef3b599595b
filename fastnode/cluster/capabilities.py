"""What a member can do that another one may not, and what its answer about it is worth. Pure.

A member advertises its capabilities at `HEALTH_PATH`. `http/health.py` gives the answer and
`poller.py` asks for it; this file is what the two agree on.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from fastnode.config import CAPABILITIES

# Queues of more than one partition: high-throughput FIFO.
HTFIFO: Final = "htfifo"
# Calls under an identity that is the same in every attempt.
DEDUP: Final = "dedup"
assert {HTFIFO, DEDUP} == set(CAPABILITIES)
HEALTH_PATH: Final = "/sqs_health"
# What the other members said when they linked, or None of one that cannot be reached.
Advertised = Mapping[int, tuple[str, ...] | None]


class Health(msgspec.Struct, frozen=True):
    """What a member says about itself, as JSON."""

    status: str = ""
    capabilities: list[str] = []


class Member(msgspec.Struct, frozen=True):
    """What asking one member brought: it has the capability if there was no problem."""

    address: str
    problem: str = ""

    @property
    def is_capable(self) -> bool:
        return not self.problem

    def __str__(self) -> str:
        return f"{self.address or '(no address)'}: {self.problem or 'capable'}"


class Report(msgspec.Struct, frozen=True):
    """All members, in the order in which they were named. Nobody asked is nobody against."""

    members: tuple[Member, ...]

    @property
    def all_capable(self) -> bool:
        return all(member.is_capable for member in self.members)


def advertised(without: str) -> tuple[str, ...]:
    """The capabilities of this build, less the one that its operator has switched off."""
    return tuple(name for name in CAPABILITIES if name != without)


def encode_health(capabilities: tuple[str, ...]) -> bytes:
    return msgspec.json.encode(Health("ok", list(capabilities))) + b"\n"


def health_url(address: str) -> str:
    """Where to ask a member: `host:port`, or a URL with or without the path."""
    if not address:
        raise ValueError("the address is empty")
    base = (address if "://" in address else f"http://{address}").rstrip("/")
    return base if base.endswith(HEALTH_PATH) else base + HEALTH_PATH


def problem_of(status: int, body: bytes, capability: str) -> str:
    """Why the answer does not prove the capability; empty if it does."""
    if status != 200:
        return f"status {status}"
    try:
        health = msgspec.json.decode(body, type=Health)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "the answer is not the JSON of a member"
    return "" if capability in health.capabilities else f"does not advertise {capability}"
