"""Serving certificates that the server makes for itself, and their files.

Source: k8s.io/apiserver/pkg/server/options/serving.go (MaybeDefaultWithSelfSignedCerts), client-go/util/cert
(cert.go, io.go) and client-go/util/keyutil, 1.36. cryptography is imported when a certificate is made: it is
slow to import.
"""

import ipaddress
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kubeskew.apiserver.options import ServerOptions

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder, ExtensionType, KeyUsage, Name

_PAIR = "apiserver"  # the files' name in the directory
_NAMES = ("kubernetes.default.svc", "kubernetes.default", "kubernetes")
_BEFORE = timedelta(hours=1)  # a clock that is a little behind accepts a new certificate
_VALIDITY = timedelta(days=365)
_KEY_BITS = 2048

log = logging.getLogger(__name__)


class CertificateFilesError(Exception):
    """A certificate or its key is not given, not there or not readable."""


class KeyPair(NamedTuple):
    """Both are PEM; the certificate is followed by that of its authority."""

    certificate: bytes
    key: bytes


@contextmanager
def serving_pair(options: ServerOptions, now: datetime) -> Iterator[ServerOptions]:
    """Adds the files of a certificate to the options: those given, those in the directory, or new ones in it.

    If `cert_dir` is empty, the new files last as long as the context; if it is None, there are none. Raises
    CertificateFilesError, OSError.


    """
    if options.tls_cert_file or options.tls_private_key_file:
        if not (options.tls_cert_file and options.tls_private_key_file):
            raise CertificateFilesError("missing filename for serving cert")
        yield options
    elif options.cert_dir is None:
        yield options
    elif options.cert_dir:
        yield _paired(options, Path(options.cert_dir), now)
    else:
        with tempfile.TemporaryDirectory() as directory:
            yield _paired(options, Path(directory), now)


def _paired(options: ServerOptions, directory: Path, now: datetime) -> ServerOptions:
    """Creates the pair and `directory` if they are not there. Raises CertificateFilesError if only one of the
    two can be read.
    """
    certificate, key = directory / f"{_PAIR}.crt", directory / f"{_PAIR}.key"
    readable = [os.access(path, os.R_OK) for path in (certificate, key)]
    if not any(readable):
        alternatives = [str(next(ipaddress.ip_network(options.service_cluster_ip_range).hosts())), *_NAMES]
        alternatives.append(_bound_name(options.bind_address))
        pair = self_signed(options.advertise_address, alternatives, now)
        _write(certificate, pair.certificate, 0o644)
        _write(key, pair.key, 0o600)
        if options.cert_dir:
            log.info("Generated self-signed cert (%s, %s)", certificate, key)
        else:
            log.info("Generated self-signed cert in-memory")
    elif not all(readable):
        path = key if readable[0] else certificate
        raise CertificateFilesError(f"error reading {path}, certificate and key must be supplied as a pair")
    return replace(options, tls_cert_file=str(certificate), tls_private_key_file=str(key))


def _bound_name(address: str) -> str:
    """The name is `localhost` if the server listens on any address."""
    found = _address(address)
    return "localhost" if not address or (found is not None and found.is_unspecified) else address


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)


def self_signed(host: str, alternatives: Sequence[str], now: datetime) -> KeyPair:
    """An authority of its own signs the certificate; `alternatives` are addresses and names."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import ExtendedKeyUsageOID

    seconds = int(now.timestamp())
    authority_key = rsa.generate_private_key(65537, _KEY_BITS)
    authority_name = _name(f"{host}-ca@{seconds}")
    authority = _signed(
        _builder(authority_name, authority_name, authority_key, now),
        authority_key,
        (x509.BasicConstraints(ca=True, path_length=None), True),
        (_usage(signs_certificates=True), True),
        (x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), False),
    )
    key = rsa.generate_private_key(65537, _KEY_BITS)
    names = [name for name in (host, *alternatives) if _address(name) is None]
    addresses = [address for address in map(_address, (host, *alternatives)) if address is not None]
    alternative = x509.SubjectAlternativeName([*map(x509.DNSName, names), *map(x509.IPAddress, addresses)])
    certificate = _signed(
        _builder(_name(f"{host}@{seconds}"), authority_name, key, now),
        authority_key,
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs_certificates=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), False),
        (alternative, False),
    )
    return KeyPair(
        certificate.public_bytes(Encoding.PEM) + authority.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
    )


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _name(common_name: str) -> "Name":
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> "KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(True, False, True, False, False, signs_certificates, False, False, False)


def _builder(subject: "Name", issuer: "Name", key: "RSAPrivateKey", now: datetime) -> "CertificateBuilder":
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now - _BEFORE + _VALIDITY)
    )


def _signed(
    builder: "CertificateBuilder", key: "RSAPrivateKey", *extensions: tuple["ExtensionType", bool]
) -> "Certificate":
    from cryptography.hazmat.primitives import hashes

    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(key, hashes.SHA256())
