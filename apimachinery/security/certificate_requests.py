"""PKCS#10 requests as Kubernetes carries them: PEM in base64.

Source: k8s.io/kubernetes/pkg/apis/certificates/helpers.go (ParseCSR), 1.36.
"""

import base64
import binascii
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

from kubeskew.apimachinery.security.tls import blocks

_REQUEST = "CERTIFICATE REQUEST"
_ALTERNATIVES = (x509.DNSName, x509.RFC822Name, x509.IPAddress, x509.UniformResourceIdentifier)


class RequestError(ValueError):
    """The request cannot be read; the text is upstream's where it is known."""


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """The content of a request. `alternatives` are kinds of alternative names: dns, email, ip, uri."""

    common_name: str
    organizations: tuple[str, ...]
    alternatives: frozenset[str]


def parse_request(text: str) -> CertificateRequest:
    """Parses `spec.request`, its signature checked; raises RequestError."""
    request = _load(text)
    names = [
        str(attribute.value) for attribute in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    ]
    groups = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return CertificateRequest(
        names[-1] if names else "",
        tuple(str(attribute.value) for attribute in groups),
        _alternatives(request),
    )


def _load(text: str) -> x509.CertificateSigningRequest:
    try:
        pem = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestError(str(error)) from None
    found = next(blocks(pem.decode(errors="replace")), None)
    if found is None or found.kind != _REQUEST:
        raise RequestError("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_der_x509_csr(found.content)
        if not (request.is_signature_valid or _is_signed_with_sha1(request)):
            raise RequestError("x509: certificate request signature is not valid")
    except (ValueError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise RequestError(str(error)) from None
    return request


def _is_signed_with_sha1(request: x509.CertificateSigningRequest) -> bool:
    """True if the signature is a good one with SHA-1, which Go still takes in requests."""
    algorithm, key = request.signature_hash_algorithm, request.public_key()
    if not isinstance(algorithm, hashes.SHA1):
        return False
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(request.signature, request.tbs_certrequest_bytes, padding.PKCS1v15(), algorithm)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(request.signature, request.tbs_certrequest_bytes, ec.ECDSA(algorithm))
        else:
            return False
    except InvalidSignature:
        return False
    return True


def _alternatives(request: x509.CertificateSigningRequest) -> frozenset[str]:
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    kinds = zip(("dns", "email", "ip", "uri"), _ALTERNATIVES, strict=True)
    return frozenset(name for name, kind in kinds if any(isinstance(name, kind) for name in names))
