"""Webhooks that hang, babble, break off or never end, under many requests at once."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import pytest
from server_in_process import MAPS, config_map
from until import until
from webhook_server import BUNDLE, CERTIFICATE, KEY

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SECRETS = "/api/v1/namespaces/default/secrets"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CALLS = 8
POST = 'Post "https://127.0.0.1:{port}/x?timeout=1s": '
BROKEN = "net/http: HTTP/1.x transport connection broken: "
READING = "unexpected error when reading response body. Please retry. Original error: "


async def hang_up(writer):
    """Close without a word."""


async def babble(writer):
    """Say what is no HTTP."""
    writer.write(b"\x00\xffwhat?\r\n\r\n")


async def break_off(writer):
    """Promise more than comes."""
    writer.write(HEAD + b'Content-Length: 1000\r\n\r\n{"kind":')


async def never_end(writer):
    """Send an answer without an end."""
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0)  # drain of a TLS stream neither waits nor raises once the client has gone


async def trickle(writer):
    """Send a byte of the answer now and then."""
    writer.write(HEAD + b"Content-Length: 1000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def say_nothing(writer):
    """Take the request, and no more."""
    await writer.wait_closed()


@asynccontextmanager
async def backend(tmp_path, behaviour):
    """A TLS server that reads a request and then does as asked; its port, and how many are connected."""
    (tmp_path / "hook.crt").write_bytes(CERTIFICATE)
    (tmp_path / "hook.key").write_bytes(KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "hook.crt", tmp_path / "hook.key")
    connected = set()

    async def serve(reader, writer):
        connected.add(asyncio.current_task())
        try:
            await reader.readuntil(b"\r\n\r\n")
            await behaviour(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            connected.discard(asyncio.current_task())
            writer.transport.abort() if behaviour is never_end else writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1], connected
    finally:
        server.close()
        for task in list(connected):
            task.cancel()
        await asyncio.gather(*connected, return_exceptions=True)


def configuration(port, policy):
    return {
        "metadata": {"name": policy.lower()},
        "webhooks": [
            {
                "name": "a.example.com",
                "clientConfig": {"url": f"https://127.0.0.1:{port}/x", "caBundle": BUNDLE},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["*"],
                        "resources": ["configmaps"],
                    }
                ],
                "failurePolicy": policy,
                "timeoutSeconds": 1,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (hang_up, f"{POST}EOF"),
        (babble, rf'{POST}{BROKEN}malformed HTTP response "\x00\xffwhat?"'),
        (break_off, f"{READING}unexpected EOF"),
        (never_end, "http: request body too large"),
        (trickle, f"{READING}context deadline exceeded"),
        (say_nothing, f"{POST}context deadline exceeded"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_many_requests(api, tmp_path, behaviour, why):
    """Each fails in upstream's words, or is overlooked; others are answered meanwhile, and nothing stays."""
    async with backend(tmp_path, behaviour) as (port, connected):
        answer = await api.post(HOOKS, configuration(port, "Fail"))
        assert answer.status == 201, answer.raw
        calls = [asyncio.create_task(api.post(MAPS, config_map(f"a-{n}"))) for n in range(CALLS)]
        secret = {"metadata": {"name": "meanwhile"}}
        async with asyncio.timeout(10):
            assert (await api.post(SECRETS, secret)).status == 201
        async with asyncio.timeout(30):
            refused = await asyncio.gather(*calls)
        await api.delete(f"{HOOKS}/fail")
        await api.post(HOOKS, configuration(port, "Ignore"))
        async with asyncio.timeout(30):
            overlooked = await api.post(MAPS, config_map("b"))

        assert {one.status for one in refused} == {500}
        [message] = {one.body["message"] for one in refused}
        called = 'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: '
        assert message == called + why.format(port=port)
        assert overlooked.status == 201
        await until(lambda: not connected)
