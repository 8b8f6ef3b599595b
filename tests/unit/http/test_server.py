"""The server without sockets: the connection limit, the sweep and drain."""

import asyncio

import pytest

from fastnode.http import server as server_module
from tests.unit.http.http_fakes import Node, get


def test_one_connection_too_many_is_told_so() -> None:
    node = Node()
    node.server.connections_max = 2
    kept = [node.connect() for _ in range(2)]
    connection, transport = node.connect()
    assert transport.written.startswith(b"HTTP/1.1 503 ")
    assert transport.is_closed
    connection.data_received(get())
    assert node.open == []
    connection.connection_lost(None)
    kept[0][0].connection_lost(None)
    assert node.connect()[1].written == b""


def test_the_sweep_ends_only_what_is_due() -> None:
    node = Node()
    _, early = node.connect()
    node.pass_seconds(60)
    _, late = node.connect()
    node.pass_seconds(30)
    assert early.is_closed
    assert not late.is_closed


def test_drain_closes_idle_connections_and_answers_what_is_owed() -> None:
    node = Node()
    idle, idle_transport = node.connect()
    busy, busy_transport = node.connect()
    busy.data_received(get() * 2)

    async def scenario() -> None:
        draining = asyncio.ensure_future(node.server.drain())
        await asyncio.sleep(0)
        assert idle_transport.is_closed
        idle.connection_lost(None)
        node.answer(0)
        assert not busy_transport.has_eof
        node.answer(1)
        assert busy_transport.has_eof
        assert not draining.done()
        busy.connection_lost(None)
        await draining

    asyncio.run(scenario())
    assert busy_transport.written.count(b"Connection: close\r\n") == 1
    assert busy_transport.written.index(b"Connection: close") > len(busy_transport.written) // 2


def test_drain_lets_a_half_sent_request_finish() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get()[:5])

    async def scenario() -> None:
        draining = asyncio.ensure_future(node.server.drain())
        await asyncio.sleep(0)
        assert not transport.is_closing()
        connection.data_received(get()[5:])
        node.answer(0)
        assert b"Connection: close\r\n" in transport.written
        connection.connection_lost(None)
        await draining

    asyncio.run(scenario())


def test_drain_answers_a_request_that_is_half_sent_behind_another() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get() + get()[:5])

    async def scenario() -> None:
        draining = asyncio.ensure_future(node.server.drain())
        await asyncio.sleep(0)
        node.answer(0)
        assert not transport.has_eof
        connection.data_received(get()[5:])
        node.answer(1)
        assert transport.has_eof
        connection.connection_lost(None)
        await draining

    asyncio.run(scenario())


def test_drain_cuts_off_what_does_not_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "DRAIN_SECONDS", 0.0)
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get())
    asyncio.run(node.server.drain())
    assert transport.is_aborted
