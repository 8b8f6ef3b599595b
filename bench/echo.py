"""The yardstick of every rate: a bare uvloop + httptools + msgspec server.

It does what any SQS server must do and nothing more: parse the request, keep its headers, decode a
SendMessage, answer a fixed body. No queue, no signature, no disk. A change in this file moves every
published ratio, so it stays as it is.
"""

import asyncio
import sys
from typing import cast

import httptools
import msgspec
import uvloop


class SendMessage(msgspec.Struct, rename="pascal"):
    """The members of the request that every SendMessage has."""

    queue_url: str
    message_body: str


DECODER = msgspec.json.Decoder(SendMessage)
BODY = (
    b'{"MD5OfMessageBody":"5d41402abc4b2a76b9719d911017c592",'
    b'"MessageId":"3f2a9c1e-7b64-4d0c-9a51-2b8e6f0d1c73"}'
)
ANSWER = (
    b"HTTP/1.1 200 OK\r\n"
    b"x-amzn-RequestId: 8d1f4f9e-53a7-5c0b-b1de-10d3a2f6c0aa\r\n"
    b"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    b"Content-Type: application/x-amz-json-1.0\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)


class EchoProtocol(asyncio.Protocol):
    """One connection: callbacks of the parser, an answer for each complete request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio's without being subclasses.
        self.transport = cast(asyncio.Transport, transport)
        self.parser = httptools.HttpRequestParser(self)
        self.on_message_begin()

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, msgspec.DecodeError):
            self.transport.close()

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        DECODER.decode(self.body)
        self.transport.write(ANSWER)


async def serve() -> None:
    """Listens on a free port of the loopback interface, prints the port, serves until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(EchoProtocol, "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
