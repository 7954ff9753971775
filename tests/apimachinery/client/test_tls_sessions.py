"""TLS sessions that further connections resume."""

import asyncio
import ssl
from datetime import UTC, datetime

import pytest

from kubeskew.apimachinery.client.kubeconfig import Kubeconfig
from kubeskew.apimachinery.client.transport import HTTPTransport, Request
from kubeskew.apimachinery.security.tls import serving_context
from kubeskew.cluster.pki import Authority

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"


@pytest.fixture(scope="module")
def authority():
    return Authority.create(datetime.now(UTC))


@pytest.fixture
def context(authority, tmp_path):
    """A server's, as the API server has it."""
    pair = authority.serving()
    files = {"crt": pair.certificate, "key": pair.key, "ca": authority.pair.certificate}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    return serving_context(*(str(tmp_path / name) for name in files))


@pytest.fixture
async def server(context):
    """Ends every connection after its answer, and knows how each began: (resumed, as whom)."""
    seen = []

    async def serve(reader, writer):
        tls = writer.get_extra_info("ssl_object")
        seen.append((tls.session_reused, tls.getpeercert()["subject"][-1][0][1]))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"Connection: close\r\n\r\nhi")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as listening:
        yield listening.sockets[0].getsockname()[1], seen


def _tls(authority, user):
    pair = authority.client(user)
    server = "https://127.0.0.1"
    ca = authority.pair.certificate
    return Kubeconfig(server, ca=ca, certificate=pair.certificate, key=pair.key).ssl_context()


async def test_further_connections_resume_the_session(server, authority):
    """The first shakes hands in full; each stays its own client's."""
    port, seen = server
    transports = [
        HTTPTransport(f"https://127.0.0.1:{port}", _tls(authority, user)) for user in ("node-a", "node-b")
    ]
    for _ in range(3):
        for transport in transports:
            response = await transport(Request("GET", "/", timeout=5.0))
            await response.close()
    for transport in transports:
        await transport.close()

    assert seen[:2] == [(False, "node-a"), (False, "node-b")]
    assert seen[2:] == [(True, "node-a"), (True, "node-b")] * 2


async def test_a_resumed_session_is_verified_no_less(server, authority):
    """A server of another authority is refused, regardless of what went before."""
    port, _ = server
    stranger = _tls(Authority.create(datetime.now(UTC)), "node-a")
    transport = HTTPTransport(f"https://127.0.0.1:{port}", stranger)
    for _ in range(2):
        with pytest.raises(ssl.SSLCertVerificationError):
            await transport(Request("GET", "/", timeout=5.0))


def test_servers_with_the_same_files_share_what_is_made_of_them(authority, context, tmp_path):
    """A file that has changed is read again."""
    files = [str(tmp_path / name) for name in ("crt", "key", "ca")]
    assert serving_context(*files) is context
    pair = authority.serving()
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)

    assert serving_context(*files) is not context
