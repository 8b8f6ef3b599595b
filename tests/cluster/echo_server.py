"""A TCP echo server in a process of its own: what stands for a node in tests of the network.

    python -m tests.cluster.echo_server HOST PORT [PEER_HOST PEER_PORT]

Prints `ready` when it listens. With a peer it dials that and prints, for every line of stdin that
it sent there, `back` when the same line came back.
"""

import asyncio
import sys
from collections.abc import Sequence

from tests.cluster.link_rules import READY, say


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
    writer.close()


async def ask(host: str, port: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
        writer.write(line)
        if await reader.readexactly(len(line)) == line:
            say("back\n")
    writer.close()


async def serve(arguments: Sequence[str]) -> None:
    host, port, *peer = arguments
    await asyncio.start_server(echo, host, int(port))
    say(READY)
    if peer:
        await ask(peer[0], int(peer[1]))
    else:
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1:]))
