"""The certificate authority's part: checks that a signing request is one of a kubelet, and issues the
certificate for a request.

Sources: k8s.io/kubernetes/pkg/apis/certificates/helpers.go, 1.36;
k8s.io/kubernetes/pkg/controller/certificates/{authority/policies.go,signer/signer.go}, 1.36.
"""

import base64
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from kubeskew.apimachinery.security.certificate_requests import CertificateRequest

_SIGNATURE, _ENCIPHERMENT = "digital signature", "key encipherment"
_BACKDATE = timedelta(minutes=5)
_LEAST = timedelta(minutes=10)
_BITS = (
    "digital signature", "content commitment", "key encipherment", "data encipherment", "key agreement",
    "cert sign", "crl sign", "encipher only", "decipher only",
)  # fmt: skip
_EXTENDED = {
    "any": ObjectIdentifier("2.5.29.37.0"),
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
}


def client_fault(request: CertificateRequest, usages: Sequence[str]) -> str:
    """A request without a fault gives an empty text."""
    return next(_client_faults(request, set(usages)), "")


def _client_faults(request: CertificateRequest, usages: set[str]) -> Iterator[str]:
    yield from _organization(request)
    for kind, shown in (("dns", "DNS"), ("email", "Email"), ("ip", "IP"), ("uri", "URI")):
        if kind in request.alternatives:
            yield f"{shown} subjectAltNames are not allowed"
    yield from _usages(usages, "client auth")
    yield from _common_name(request)


def serving_fault(request: CertificateRequest, usages: Sequence[str]) -> str:
    """A request without a fault gives an empty text."""
    return next(_serving_faults(request, set(usages)), "")


def _serving_faults(request: CertificateRequest, usages: set[str]) -> Iterator[str]:
    yield from _organization(request)
    if not request.alternatives & {"dns", "ip"}:
        yield "DNS or IP subjectAltName is required"
    for kind, shown in (("email", "Email"), ("uri", "URI")):
        if kind in request.alternatives:
            yield f"{shown} subjectAltNames are not allowed"
    yield from _usages(usages, "server auth")
    yield from _common_name(request)


def _organization(request: CertificateRequest) -> Iterator[str]:
    if request.organizations != ("system:nodes",):
        yield "subject organization is not system:nodes"


def _usages(usages: set[str], purpose: str) -> Iterator[str]:
    required = {_SIGNATURE, purpose}
    if usages - {_ENCIPHERMENT} != required:
        wanted = sorted({*required, _ENCIPHERMENT} if purpose == "client auth" else required)
        yield f"usages did not match [{' '.join(wanted)}]"


def _common_name(request: CertificateRequest) -> Iterator[str]:
    if not request.common_name.startswith("system:node:"):
        yield "subject common name does not begin with system:node:"


class Issuer:
    """A certificate authority; certificate and key are PEM."""

    def __init__(self, certificate: bytes, key: bytes, lasting: timedelta) -> None:
        self._certificate = x509.load_pem_x509_certificate(certificate)
        private = load_pem_private_key(key, password=None)
        if not isinstance(private, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
            raise TypeError("the authority's key must be RSA or ECDSA")
        self._key = private
        self._lasting = lasting

    def issue(self, request: str, usages: Sequence[str], seconds: int | None, now: datetime) -> str:
        """The certificate has the form of `status.certificate` (base64 of PEM); `request` is
        `spec.request`.
        """
        asked = x509.load_pem_x509_csr(base64.b64decode(request))
        lasting = self._lasting if seconds is None else max(timedelta(seconds=seconds), _LEAST)
        end = min(now + min(lasting, self._lasting), self._certificate.not_valid_after_utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(asked.subject)
            .issuer_name(self._certificate.subject)
            .public_key(asked.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(max(now - _BACKDATE, self._certificate.not_valid_before_utc))
            .not_valid_after(end)
        )
        for extension, critical in self._extensions(asked, usages):
            builder = builder.add_extension(extension, critical)
        made = builder.sign(self._key, hashes.SHA256())
        return base64.b64encode(made.public_bytes(Encoding.PEM)).decode()

    def _extensions(
        self, asked: x509.CertificateSigningRequest, usages: Sequence[str]
    ) -> list[tuple[x509.ExtensionType, bool]]:
        bits = {"digital signature" if usage == "signing" else usage for usage in usages}
        if "key agreement" not in bits:
            bits -= {"encipher only", "decipher only"}
        found: list[tuple[x509.ExtensionType, bool]] = []
        if bits & set(_BITS):
            found.append((x509.KeyUsage(*(bit in bits for bit in _BITS)), True))
        if purposes := [_EXTENDED[usage] for usage in usages if usage in _EXTENDED]:
            found.append((x509.ExtendedKeyUsage(purposes), False))
        found.append((x509.BasicConstraints(ca=False, path_length=None), True))
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        found.append((identifier, False))
        asked_for = (extension.value for extension in asked.extensions)
        found += [
            (extension, False)
            for extension in asked_for
            if isinstance(extension, x509.SubjectAlternativeName)
        ]
        return found
