"""The cluster's certificate authority, serving certificates, client credentials and kubeconfigs."""

import base64
import ipaddress
import secrets
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubeskew.apimachinery.client.kubeconfig import SERVERS_EXTENSION

VALIDITY = timedelta(days=3650)
_CLUSTER = """- name: {name}
  cluster:
    server: {url}
    certificate-authority-data: {ca}
"""
_OTHERS = """    extensions:
    - name: {extension}
      extension:
        servers: [{servers}]
"""
_CONTEXT = """- name: {name}
  context:
    cluster: {name}
    user: {user}
"""
SERVICE_ADDRESS = "10.96.0.1"  # of the service `kubernetes`, the first of server_flags.SERVICE_RANGE


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Both are PEM."""

    certificate: bytes
    key: bytes


class Keys(Protocol):
    repeatable: bool  # whether the same source, made again, gives the same certificates

    def key(self) -> ec.EllipticCurvePrivateKey: ...

    def serial(self) -> int: ...

    def token(self) -> str: ...


class RandomKeys:
    """Draws from the operating system."""

    repeatable = False

    def key(self) -> ec.EllipticCurvePrivateKey:
        return ec.generate_private_key(ec.SECP256R1())

    def serial(self) -> int:
        return x509.random_serial_number()

    def token(self) -> str:
        """Tokens have 192 bits of randomness."""
        return secrets.token_urlsafe(24)


class Authority:
    """Signs certificates, which are valid from `now` on."""

    def __init__(self, pair: KeyPair, now: datetime, keys: Keys) -> None:
        self.pair = pair
        self._now = now
        self._keys = keys
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("the authority's key is not an elliptic curve key")
        self._key = key

    @classmethod
    def create(cls, now: datetime, common_name: str = "kubeskew", keys: Keys | None = None) -> "Authority":
        keys = keys if keys is not None else RandomKeys()
        key = keys.key()
        name = _name(common_name)
        usage = x509.KeyUsage(True, False, True, False, False, True, True, False, False)
        certificate = (
            _builder(name, name, key, now, keys.serial())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256(), ecdsa_deterministic=keys.repeatable or None)
        )
        return cls(_pair(certificate, key), now, keys)

    def serving(self) -> KeyPair:
        names = [
            "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ]  # fmt: skip
        addresses = ["127.0.0.1", "::1", SERVICE_ADDRESS]
        alternatives = x509.SubjectAlternativeName(
            [*map(x509.DNSName, names), *(x509.IPAddress(ipaddress.ip_address(ip)) for ip in addresses)]
        )
        return self._issue(_name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def node_serving(self, addresses: Iterable[str]) -> KeyPair:
        """One certificate serves all kubelets, each with an address of its own."""
        alternatives = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        )
        name = _name("system:node", "system:nodes")
        return self._issue(name, ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def loopback_serving(self, name: str) -> KeyPair:
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        alternatives = x509.SubjectAlternativeName(names)
        return self._issue(_name(f"kube-{name}"), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def service_serving(self, name: str, namespace: str) -> KeyPair:
        names = [f"{name}.{namespace}", f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"]
        alternatives = x509.SubjectAlternativeName([x509.DNSName(each) for each in names])
        return self._issue(_name(name), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, *groups: str) -> KeyPair:
        return self._issue(_name(user, *groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, *extensions: x509.ExtensionType
    ) -> KeyPair:
        key = self._keys.key()
        builder = _builder(subject, self._certificate.subject, key, self._now, self._keys.serial())
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        signed = builder.sign(self._key, hashes.SHA256(), ecdsa_deterministic=self._keys.repeatable or None)
        return _pair(signed, key)


def _name(common_name: str, *organisations: str) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organisations]
    with warnings.catch_warnings():  # accounts may have longer names than RFC 5280 allows
        warnings.simplefilter("ignore", UserWarning)
        name = x509.NameAttribute(NameOID.COMMON_NAME, common_name, _validate=False)
    return x509.Name([*groups, name])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, serial: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        # a clock that is a little behind must still accept what was issued just now
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALIDITY)
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        _pem(key),
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def new_key(keys: Keys) -> bytes:
    """PEM, without a certificate."""
    return _pem(keys.key())


def public_key(private: bytes) -> bytes:
    """Both are PEM; the public key is PKIX, as `sa.pub` of kubeadm is."""
    key = serialization.load_pem_private_key(private, password=None)
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def kubeconfig(
    server: str,
    ca: bytes,
    user: str,
    pair: KeyPair,
    *,
    contexts: Mapping[str, str] | None = None,
    others: Sequence[str] = (),
) -> str:
    """The text is block YAML with embedded credentials and a current context.

    `contexts` are servers by name; each is a context of that name. `others` are alternatives to `server`.
    """
    encoded = [base64.b64encode(part).decode() for part in (ca, pair.certificate, pair.key)]
    servers = {"kubeskew": server, **(contexts or {})}
    clusters = [_CLUSTER.format(name=name, url=url, ca=encoded[0]) for name, url in servers.items()]
    if others:
        clusters[0] += _OTHERS.format(extension=SERVERS_EXTENSION, servers=", ".join(others))
    entries = "".join(_CONTEXT.format(name=name, user=user) for name in servers)
    return f"""apiVersion: v1
kind: Config
clusters:
{"".join(clusters)}users:
- name: {user}
  user:
    client-certificate-data: {encoded[1]}
    client-key-data: {encoded[2]}
contexts:
{entries}current-context: kubeskew
preferences: {{}}
"""
