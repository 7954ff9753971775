"""Certificates that a server makes for itself."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from server_in_process import close_server, open_server

from kubeskew.apiserver.http.self_signed import CertificateFilesError, self_signed, serving_pair
from kubeskew.apiserver.options import ServerOptions

NOW = datetime(2026, 11, 23, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("bind", "names", "addresses"),
    [
        ("127.0.0.1", [], ["10.96.0.1", "127.0.0.1"]),
        ("0.0.0.0", ["localhost"], ["10.96.0.1"]),
        ("::", ["localhost"], ["10.96.0.1"]),
    ],
)
def test_names(tmp_path, bind, names, addresses):
    """A new certificate is for the advertised address, the API's service and where the server listens."""
    options = ServerOptions(bind_address=bind, advertise_address="192.0.2.1", cert_dir=str(tmp_path / "a/b"))
    with serving_pair(options, NOW) as paired:
        assert paired.tls_cert_file == str(tmp_path / "a/b/apiserver.crt")
        assert paired.tls_private_key_file == str(tmp_path / "a/b/apiserver.key")
    own, authority = x509.load_pem_x509_certificates((tmp_path / "a/b/apiserver.crt").read_bytes())
    alternatives = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    key = load_pem_private_key((tmp_path / "a/b/apiserver.key").read_bytes(), password=None)

    assert alternatives.get_values_for_type(x509.DNSName) == [
        "kubernetes.default.svc", "kubernetes.default", "kubernetes", *names,
    ]  # fmt: skip
    assert alternatives.get_values_for_type(x509.IPAddress) == [
        ip_address("192.0.2.1"), *map(ip_address, addresses),
    ]  # fmt: skip
    assert own.subject.rfc4514_string() == f"CN=192.0.2.1@{int(NOW.timestamp())}"
    assert authority.subject.rfc4514_string() == f"CN=192.0.2.1-ca@{int(NOW.timestamp())}"
    assert own.not_valid_before_utc == NOW - timedelta(hours=1)
    assert own.not_valid_after_utc == NOW - timedelta(hours=1) + timedelta(days=365)
    assert own.public_key() == key.public_key()
    own.verify_directly_issued_by(authority)
    assert [(tmp_path / "a/b" / f"apiserver.{end}").stat().st_mode & 0o777 for end in ("crt", "key")] == [
        0o644,
        0o600,
    ]


def test_a_name_is_a_host_too():
    """A host that is no address is a name of the certificate."""
    pair = self_signed("example.com", ["other", "::1"], NOW)
    own = x509.load_pem_x509_certificates(pair.certificate)[0]
    alternatives = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert alternatives.get_values_for_type(x509.DNSName) == ["example.com", "other"]
    assert alternatives.get_values_for_type(x509.IPAddress) == [ip_address("::1")]


def test_what_is_there_is_used_again(tmp_path):
    """A pair in the directory is not made again, and half a pair is refused."""
    options = ServerOptions(cert_dir=str(tmp_path))
    with serving_pair(options, NOW):
        before = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    with serving_pair(options, NOW + timedelta(days=1)):
        assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == before
    (tmp_path / "apiserver.key").unlink()

    problem = f"error reading {tmp_path}/apiserver.key, certificate and key must be supplied as a pair"
    with pytest.raises(CertificateFilesError, match=problem), serving_pair(options, NOW):
        pass


@pytest.mark.parametrize("given", ["tls_cert_file", "tls_private_key_file"])
def test_given_files_go_together(tmp_path, given):
    """A certificate without a key, or the reverse, is refused, and nothing is made in their place."""
    options = ServerOptions(cert_dir=str(tmp_path), **{given: "some.pem"})

    with pytest.raises(CertificateFilesError, match="missing filename for serving cert"):
        serving_pair(options, NOW).__enter__()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("directory", ["certificates", ""])
async def test_a_server_is_trusted_by_its_own_certificate(tmp_path, monkeypatch, directory):
    """Clients that are given the file verify the server, also where no file stays."""
    monkeypatch.chdir(tmp_path)
    with serving_pair(ServerOptions(cert_dir=directory), datetime.now(UTC)) as options:
        server = await open_server(
            tls_cert_file=options.tls_cert_file, tls_private_key_file=options.tls_private_key_file
        )
        await server.start()
        context = ssl.create_default_context(cafile=options.tls_cert_file)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert [path.name for path in tmp_path.iterdir()] == ([directory] if directory else [])
    connector = aiohttp.TCPConnector(ssl=context)
    session = aiohttp.ClientSession(f"https://127.0.0.1:{server.port}", connector=connector)
    async with session, session.get("/readyz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok")
    await server.stop()
    await close_server(server)
