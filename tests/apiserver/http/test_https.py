"""The server over real HTTPS: certificates, watches that end with their connection, an orderly stop."""

import asyncio
import io
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from server_in_process import MAPS, Caller, close_server, config_map, open_server
from until import until


class Authority:
    """A CA in a directory, and certificates of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = _subject("ca")
        certificate = self._certificate(self.name, self.key, [x509.BasicConstraints(True, None)])
        self.file = self._write("ca", certificate, self.key)[0]

    def issue(self, name: str, *organizations: str) -> tuple[str, str]:
        """Certificate and key files of a subject."""
        key = ec.generate_private_key(ec.SECP256R1())
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        return self._write(name, self._certificate(_subject(name, *organizations), key, [address]), key)

    def _certificate(self, subject: x509.Name, key: Any, extensions: list[Any]) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(self.name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self.key, hashes.SHA256())

    def _write(self, name: str, certificate: x509.Certificate, key: Any) -> tuple[str, str]:
        paths = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return str(paths[0]), str(paths[1])


def _subject(name: str, *organizations: str) -> x509.Name:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, name)])


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def listening(authority: Authority) -> AsyncIterator[Any]:
    """A server on a free port, with TLS."""
    certificate, key = authority.issue("server")
    server = await open_server(
        tls_cert_file=certificate, tls_private_key_file=key, client_ca_file=authority.file
    )
    await server.start()
    yield server
    await server.stop()
    await close_server(server)


def client(server: Any, authority: Authority, *credentials: str) -> aiohttp.ClientSession:
    """A session with the server, under a client certificate if one is given."""
    context = ssl.create_default_context(cafile=authority.file)
    if credentials:
        context.load_cert_chain(*credentials)
    return aiohttp.ClientSession(
        f"https://127.0.0.1:{server.port}", connector=aiohttp.TCPConnector(ssl=context)
    )


async def test_client_certificates(listening, authority):
    """The common name is the user, the organizations its groups; without one, it is anonymous."""
    alice = client(listening, authority, *authority.issue("alice", "system:masters"))
    async with alice, alice.post(MAPS, json=config_map("a")) as answer:
        assert answer.status == 201
    async with client(listening, authority) as nobody, nobody.get(MAPS) as answer:
        assert answer.status == 403

    events = await listening.services.log.after(0, 10**6)
    assert events[-1].author.user == "alice"


async def test_a_certificate_ends_while_its_connection_goes_on(listening, authority):
    """From then on requests of the connection are nobody's: not even anonymous."""
    async with client(listening, authority, *authority.issue("alice", "system:masters")) as alice:
        async with alice.get(MAPS) as answer:
            assert answer.status == 200
        clock = listening.services.environment.clock
        later = clock.now() + timedelta(hours=2)
        clock.now = lambda: later
        async with alice.get(MAPS) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (401, "Unauthorized")


async def test_credential_id(listening, authority):
    """A user knows the fingerprint of their certificate."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    file, key = authority.issue("alice", "system:masters")
    pem = await asyncio.to_thread(Path(file).read_bytes)
    certificate = x509.load_pem_x509_certificate(pem)
    alice = client(listening, authority, file, key)
    async with alice, alice.post(reviews, json=review) as answer:
        extra = (await answer.json())["status"]["userInfo"]["extra"]

    fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
    assert extra == {"authentication.kubernetes.io/credential-id": [f"X509SHA256={fingerprint}"]}


async def test_watch_over_the_wire(listening, authority):
    """Events stream line by line, and the watch is gone when its client is."""
    alice = client(listening, authority, *authority.issue("alice", "system:masters"))
    async with alice, alice.get(f"{MAPS}?watch=true") as stream:
        async with alice.post(MAPS, json=config_map("a")) as answer:
            assert answer.status == 201
        async for line in stream.content:
            event = json.loads(line)
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
            break
    await until(lambda: not listening.services.lifetime.watches)


async def test_body_too_large_over_the_wire(listening, authority):
    """A body beyond 3 MiB is refused, whether it says its length or not."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b" " * (1 << 20)

    async with client(listening, authority, *authority.issue("alice", "system:masters")) as alice:
        for body in (io.BytesIO(b" " * (4 << 20)), chunks()):
            headers = {"Content-Type": "application/json"}
            async with alice.post(MAPS, data=body, headers=headers) as answer:
                assert answer.status == 413


async def test_large_lists_are_compressed(listening, authority):
    """A large answer is compressed for those who take it."""
    async with client(listening, authority, *authority.issue("alice", "system:masters")) as alice:
        async with alice.post(MAPS, json=config_map("a", data={"k": "v" * 200_000})) as answer:
            assert answer.status == 201
        async with alice.get(MAPS) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            assert len((await answer.json())["items"]) == 2 - 1
        async with alice.get(MAPS, headers={"Accept-Encoding": "identity"}) as answer:
            assert "Content-Encoding" not in answer.headers


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_long_lists_come_in_pieces(listening, authority, encoding):
    """A list of many objects is sent while it is written, and is the same list, compressed or not."""
    api = Caller(listening)
    data = {"k": "x" * 1000}
    await asyncio.gather(*(api.post(MAPS, config_map(f"m-{n:03}", data=data)) for n in range(600)))
    alice = client(listening, authority, *authority.issue("alice", "system:masters"))
    async with alice, alice.get(MAPS, headers={"Accept-Encoding": encoding}) as answer:
        assert answer.headers["Transfer-Encoding"] == "chunked"
        assert answer.headers.get("Content-Encoding", "identity") == encoding
        found = await answer.json()

    assert [obj["metadata"]["name"] for obj in found["items"]] == [f"m-{n:03}" for n in range(600)]
    assert set(found["items"][599]) == {"metadata", "data"}
    assert found["items"][599]["metadata"]["resourceVersion"]


async def test_orderly_stop(authority):
    """A stop ends watches, answers what is under way, and stands on the time line."""
    certificate, key = authority.issue("server")
    server = await open_server(
        tls_cert_file=certificate, tls_private_key_file=key, client_ca_file=authority.file
    )
    await server.start()
    async with client(server, authority, *authority.issue("alice", "system:masters")) as alice:
        async with alice.get(f"{MAPS}?watch=true") as stream:
            await server.stop()
            assert [line async for line in stream.content][1:] == []
        with pytest.raises(aiohttp.ClientError):
            await alice.get("/readyz")

    timeline = await server.services.log.timeline()
    assert [(event.component, event.what) for event in timeline] == [
        ("apiserver", "started"),
        ("apiserver", "stopped"),
    ]
    await close_server(server)


async def test_watching_again_does_not_hold_up_a_stop(authority):
    """A client that begins a watch again as soon as one ends does not keep the server for its grace time."""
    certificate, key = authority.issue("server")
    server = await open_server(
        tls_cert_file=certificate, tls_private_key_file=key, client_ca_file=authority.file
    )

    async def duty() -> None:
        try:
            await asyncio.Event().wait()
        finally:  # time in which watches could begin
            await asyncio.sleep(0.1)

    async def watch() -> None:
        while True:
            async with alice.get(f"{MAPS}?watch=true") as stream:
                await stream.read()

    server.services.background.add("a duty that takes a while to end", duty)
    await server.start()
    async with client(server, authority, *authority.issue("alice", "system:masters")) as alice:
        watching = [asyncio.create_task(watch()) for _ in range(5)]
        await until(lambda: len(server.services.lifetime.watches) == 5)
        async with asyncio.timeout(server.options.shutdown_grace_seconds / 2):
            await server.stop()
        for ended in await asyncio.gather(*watching, return_exceptions=True):
            assert isinstance(ended, aiohttp.ClientError)
    await close_server(server)


async def test_readiness(listening, authority):
    """/readyz says ok, shows its checks, and fails once the server is stopping."""
    async with client(listening, authority) as nobody:
        async with nobody.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
        async with nobody.get("/readyz?verbose") as answer:
            assert "[+]ping ok\n" in await answer.text()
        listening.services.lifetime.stopping.set()
        async with nobody.get("/readyz") as answer:
            assert answer.status == 500
            assert "[-]shutdown failed: reason withheld\n" in await answer.text()
        async with nobody.get("/livez") as answer:
            assert answer.status == 200
