"""What may happen to the traffic from one node to another, and how a test tells it to the program
that carries that traffic (`proxy.py`, `switch.py`): one line of JSON replaces all rules.
"""

import asyncio
import json
import os
import sys
from typing import NamedTuple

Pair = tuple[int, int]

READY = "ready\n"
DONE = "done\n"


class Rule(NamedTuple):
    """For one direction. `loss` is a share: of packets in the switch, of chunks in the proxy."""

    is_cut: bool = False
    delay_seconds: float = 0.0
    loss: float = 0.0


FREE = Rule()


class Rules:
    """Rules of ordered pairs of node numbers; a pair that is not named is free of faults."""

    def __init__(self) -> None:
        self._rules: dict[Pair, Rule] = {}
        self._changed = asyncio.Event()

    def of(self, source: int, target: int) -> Rule:
        return self._rules.get((source, target), FREE)

    def replace(self, rules: dict[Pair, Rule]) -> None:
        self._rules = rules
        self._changed.set()
        self._changed = asyncio.Event()

    async def until_open(self, source: int, target: int) -> None:
        while self.of(source, target).is_cut:
            await self._changed.wait()


def encode(rules: dict[Pair, Rule]) -> bytes:
    return json.dumps([[*pair, *rule] for pair, rule in rules.items()]).encode() + b"\n"


def decode(line: bytes) -> dict[Pair, Rule]:
    return {(row[0], row[1]): Rule(*row[2:]) for row in json.loads(line)}


def say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


async def obey(rules: Rules) -> None:
    """Take rules from stdin until it ends, which it also does when the test's process dies."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    with os.fdopen(os.dup(sys.stdin.fileno()), "rb") as pipe:
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        say(READY)
        while line := await reader.readline():
            rules.replace(decode(line))
            say(DONE)
        transport.close()
