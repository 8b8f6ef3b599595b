"""TCP proxies between nodes: every node is reached by the others through a port of this process.

    python -m tests.cluster.proxy SEED MARK 1=LISTEN:TARGET 2=LISTEN:TARGET ...

All nodes are given the same addresses, so who dials is found out by the owner of the dialling
socket: a node's environment has `MARK` (NAME=VALUE) followed by its number.

Faults are those of a network under TCP, as its users see them. A cut holds bytes, ends and new
connections back until it is healed, as retransmission does; nobody is told. Delay moves everything
later, in order. Loss of a share p: with chance p a chunk of what was read, and all that follows it,
comes a retransmission timeout (200 ms) later. Whole packets are lost only in `switch.py`.
"""

import asyncio
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.cluster.link_rules import Rules, obey

HOST = "127.0.0.1"
CHUNK_BYTES = 65_536
# Chunks on their way in one direction; beyond them the sender has to wait.
CHUNKS_MAX = 64
STALL_SECONDS = 0.2
_INODE_COLUMN = 9


class Way(NamedTuple):
    """One direction of one connection."""

    rules: Rules
    chance: random.Random
    source: int
    target: int

    def lateness(self) -> float:
        rule = self.rules.of(self.source, self.target)
        is_lost = rule.loss > 0 and self.chance.random() < rule.loss
        return rule.delay_seconds + (STALL_SECONDS if is_lost else 0.0)

    async def open(self) -> None:
        await self.rules.until_open(self.source, self.target)


class Proxy:
    """The door of one node."""

    def __init__(self, rules: Rules, mark: str, node: int, target_port: int, seed: int) -> None:
        self._rules = rules
        self._mark = mark
        self._node = node
        self._target_port = target_port
        self._chance = random.Random(f"{seed} {node}")

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A dial needs both directions: its packet and the answer to it."""
        ports = (writer.get_extra_info(name)[1] for name in ("peername", "sockname"))
        source = owner_of(socket_inode(*ports), self._mark)
        to_node = Way(self._rules, self._chance, source, self._node)
        back = Way(self._rules, self._chance, self._node, source)
        await to_node.open()
        await back.open()
        try:
            onward = await asyncio.open_connection(HOST, self._target_port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(carry(reader, onward[1], to_node), carry(onward[0], writer, back))
        writer.transport.abort()
        onward[1].transport.abort()


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
    """Until one side ends, and its end has arrived."""
    line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_MAX)
    await asyncio.gather(read_into(line, reader, way), write_from(line, writer, way))


async def read_into(
    line: asyncio.Queue[tuple[float, bytes]], reader: asyncio.StreamReader, way: Way
) -> None:
    due, chunk = 0.0, b"."
    while chunk:
        try:
            chunk = await reader.read(CHUNK_BYTES)
        except OSError:
            chunk = b""
        # Never before what was read earlier.
        due = max(due, asyncio.get_running_loop().time() + way.lateness())
        await line.put((due, chunk))


async def write_from(
    line: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, way: Way
) -> None:
    """A writer that is gone is fed on, into nothing: its own end travels the other way."""
    while True:
        due, chunk = await line.get()
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
        await way.open()
        if not chunk:
            # A connection between nodes ends as a whole.
            writer.close()
            return
        writer.write(chunk)
        try:
            await writer.drain()
        except OSError:
            continue


def owner_of(inode: str, mark: str) -> int:
    """The number of the node that has the socket; 0 for a stranger, whom no rule names."""
    link = f"socket:[{inode}]"
    for process in Path("/proc").glob("[0-9]*"):
        try:
            number = number_in((process / "environ").read_bytes(), mark)
            if number and any(str(path.readlink()) == link for path in (process / "fd").iterdir()):
                return number
        except OSError:
            # It ended while we looked, or is not ours to look at.
            continue
    return 0


def number_in(environ: bytes, mark: str) -> int:
    for variable in environ.decode(errors="replace").split("\0"):
        if variable.startswith(mark):
            return int(variable.removeprefix(mark))
    return 0


def socket_inode(local: int, remote: int) -> str:
    """By both ports: the kernel gives one to several connections that lead to different places."""
    ends = [f"0100007F:{port:04X}" for port in (local, remote)]
    for row in Path("/proc/net/tcp").read_text().splitlines():
        columns = row.split()
        if columns[1:3] == ends:
            return columns[_INODE_COLUMN]
    return "none"


async def serve(arguments: Sequence[str]) -> None:
    seed, mark, *doors = arguments
    rules = Rules()
    for door in doors:
        node, _, ports = door.partition("=")
        listen, _, target = ports.partition(":")
        proxy = Proxy(rules, mark, int(node), int(target), int(seed))
        await asyncio.start_server(proxy.accept, HOST, int(listen))
    await obey(rules)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1:]))
