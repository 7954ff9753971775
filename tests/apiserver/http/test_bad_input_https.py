"""Clients that misbehave on the wire: silent, slow, gone, or sending what is no HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from server_in_process import ADMIN, MAPS, Caller, close_server, config_map, open_server
from until import until

TOKEN = "secret"
HEAD = f"Host: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"


@pytest.fixture
async def listening(tmp_path) -> AsyncIterator[Any]:
    """A server on a free port, without TLS; the token is a master's."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(f'{TOKEN},admin,1,"{ADMIN.organizations[0]}"\n')
    server = await open_server(token_auth_file=str(tokens))
    server.listener.sweep_seconds = 0.05
    await server.start()
    yield server
    await server.stop()
    await close_server(server)


async def connect(server: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.port)


async def ask(server: Any, text: str | bytes) -> tuple[int, bytes]:
    """The status and body of the answer to raw bytes."""
    reader, writer = await connect(server)
    writer.write(text if isinstance(text, bytes) else text.encode())
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    body = await (reader.readexactly(int(lengths[0].partition(b":")[2])) if lengths else reader.read())
    writer.close()
    return int(head.split()[1]), body


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Reads until the connection ends."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_silent_client(listening):
    """A connection on which no request comes is closed; one that spoke stays."""
    listening.listener.limits.head_seconds = 0.3
    reader, writer = await connect(listening)
    spoken, speaking = await connect(listening)
    speaking.write(f"GET /readyz HTTP/1.1\r\n{HEAD}\r\n".encode())
    await spoken.readuntil(b"\r\n\r\n")
    half, halving = await connect(listening)
    halving.write(b"GET /readyz HTTP/1.1\r\nHos")

    assert await rest_of(reader) == b""
    assert await rest_of(half) == b""
    assert not spoken.at_eof()
    for one in (writer, speaking, halving):
        one.close()


@pytest.mark.parametrize(
    "framing",
    [
        'Content-Length: 1000\r\n\r\n{"meta',
        'Transfer-Encoding: chunked\r\n\r\n5\r\n{"met\r\n',
        "Content-Length: 9000000\r\n\r\n{",
    ],
)
async def test_client_that_goes(listening, framing, caplog):
    """A client that goes in the middle of its body leaves nothing behind, no trace in the log either."""
    _, writer = await connect(listening)
    writer.write(f"POST {MAPS} HTTP/1.1\r\n{HEAD}{framing}".encode())
    await writer.drain()
    assert (await ask(listening, f"GET {MAPS} HTTP/1.1\r\n{HEAD}\r\n"))[0] == 200
    writer.transport.abort()
    assert (await ask(listening, f"GET {MAPS} HTTP/1.1\r\n{HEAD}\r\n"))[0] == 200

    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (f"POST {MAPS} HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (f"POST {MAPS} HTTP/1.1\r\n{HEAD}Content-Length: x\r\n\r\n", 400),
        (f"POST {MAPS} HTTP/1.1\r\n{HEAD}Content-Length: 3145729\r\n\r\n", 413),
        (
            f"POST {MAPS} HTTP/1.1\r\n{HEAD}Content-Encoding: gzip\r\nContent-Length: 10\r\n\r\n0123456789",
            400,
        ),
        (f"GET {MAPS} HTTP/1.1\r\n{HEAD}No colon\r\n\r\n", 400),
        (f"GET /{'a' * 9000} HTTP/1.1\r\n{HEAD}\r\n", 404),
        (f"GET {MAPS} HTTP/1.1\r\n{HEAD}X: {'a' * 100_000}\r\n\r\n", 200),
        (f"GET {MAPS} HTTP/1.1\r\n{HEAD}X: {'a' * 2_000_000}\r\n\r\n", 431),
        (f"GET {MAPS} HTTP/1.1\r\n\r\n", 400),
        (f"GET {MAPS} HTTP/1.1\r\n{HEAD}{HEAD}\r\n", 400),
        (b"\xff" * 100 + b"\r\n\r\n", 400),
        (f"BREW {MAPS} HTTP/1.1\r\n{HEAD}\r\n", 400),
        (f"OPTIONS {MAPS} HTTP/1.1\r\n{HEAD}\r\n", 405),
        (f"GET {MAPS}/%ff%00%2F.. HTTP/1.1\r\n{HEAD}\r\n", 404),
    ],
)
async def test_no_http(listening, request_, status, caplog):
    """A request that is not HTTP, or not one that is supported, is refused without a traceback in the log."""
    assert (await ask(listening, request_))[0] == status
    assert not [record for record in caplog.records if record.exc_info]


async def test_chunked_oversize(listening):
    """A body without a length is 413 as soon as it is too large."""
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    head = f"POST {MAPS} HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\n"

    status, body = await ask(listening, head.encode() + chunk * 49)

    assert status == 413
    assert json.loads(body)["message"] == "Request entity too large: limit is 3145728"


async def test_watcher_that_reads_nothing(listening):
    """A watcher is let go when it has taken nothing for a while; other watchers see everything."""
    listening.listener.limits.stall_seconds = 0.3
    api = Caller(listening)
    await api.post(MAPS, config_map("a"))
    watches = listening.services.lifetime.watches
    _, writer = await connect(listening)
    writer.write(f"GET {MAPS}?watch=1 HTTP/1.1\r\n{HEAD}\r\n".encode())
    await until(lambda: bool(watches))
    (stalled,) = watches
    seen = api.watch(f"{MAPS}?watch=1&fieldSelector=metadata.name=a")
    assert (await anext(seen))[0] == "ADDED"

    for i in range(40):
        await api.put(f"{MAPS}/a", config_map("a", data={"i": f"{i}", "k": "x" * 500_000}))
        assert (await anext(seen))[1]["data"]["i"] == f"{i}"
    await until(lambda: stalled not in watches)

    assert len(watches) == 1
    await seen.aclose()
    writer.close()
