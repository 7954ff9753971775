"""A real API server's connections into the network of pods."""

import asyncio

import pytest
from pod_network import pod_network, short_path

from kubeskew.apiserver.webhooks.endpoints import ResolutionError
from kubeskew.shim.egress import Egress

ADDRESS = "10.244.1.2"


async def _find(host, port):
    raise ResolutionError(f"asked for {host}")


async def _connected(path, target):
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    return reader, writer, (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode()


async def _greet(reader, writer):
    writer.write(b"hello " + await reader.readexactly(2))
    writer.close()


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (f"{ADDRESS}:80", "HTTP/1.1 200 Connection established"),
        (f"{ADDRESS}:81", f"HTTP/1.1 502 dial tcp {ADDRESS}:81: connect: connection refused"),
        ("192.0.2.1:80", "HTTP/1.1 502 asked for 192.0.2.1"),
    ],
)
async def test_addresses_of_pods(target, status):
    """Addresses of pods are dialled in their network, others are looked for as without one."""
    with pod_network() as network, short_path() as path:
        network.add_pod("uid", ADDRESS).close()
        egress = await Egress.open(path, _find, network)
        async with await asyncio.start_server(_greet, sock=network.listen("uid", "", 80)):
            reader, writer, found = await _connected(path, target)
            assert found == status
            if " 200 " in found:
                writer.write(b"me")
                assert await reader.read() == b"hello me"
            writer.close()
        await egress.close()
