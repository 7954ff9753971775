"""Says what is wrong with a certificate and its key, in the words of Go's crypto/tls (X509KeyPair)."""

import base64

from kubeskew.apimachinery.security.pem import blocks

_SKIPPED = "in {} input after skipping PEM blocks of the following types: [{}]"


def key_pair_problem(certificate: str, key: str) -> str:
    """Returns the first error of a pair, both base64 of PEM; empty if they fit."""
    found = list(blocks(_text(certificate)))
    certificates = [block for block in found if block.kind == "CERTIFICATE"]
    if not certificates:
        return _no_certificate([block.kind for block in found])
    keys = list(blocks(_text(key)))
    private = next((block for block in keys if block.kind.endswith("PRIVATE KEY")), None)
    if private is None:
        return _no_key([block.kind for block in keys])
    return _mismatch(certificates[0].content, private.content)


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode(errors="replace")


def _no_certificate(kinds: list[str]) -> str:
    if not kinds:
        return "tls: failed to find any PEM data in certificate input"
    if len(kinds) == 1 and kinds[0].endswith("PRIVATE KEY"):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched"
        )
    return f'tls: failed to find "CERTIFICATE" PEM block {_SKIPPED.format("certificate", " ".join(kinds))}'


def _no_key(kinds: list[str]) -> str:
    if not kinds:
        return "tls: failed to find any PEM data in key input"
    if kinds == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    skipped = _SKIPPED.format("key", " ".join(kinds))
    return f'tls: failed to find PEM block with type ending in "PRIVATE KEY" {skipped}'


def _mismatch(certificate: bytes, key: bytes) -> str:
    from cryptography import x509  # slow to import, rarely needed
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return "x509: malformed certificate"
    try:
        own = load_der_private_key(key, None, unsafe_skip_rsa_key_validation=True).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    if type(own) is not type(public):
        return "tls: private key type does not match public key type"
    return "" if own == public else "tls: private key does not match public key"
