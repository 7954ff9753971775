"""The identity with which a request of the program goes on: its client certificate, or its token.

Anybody on the machine can connect to the proxy. Only who has shown the certificate of the component's
kubeconfig, which takes its key, gets requests sent with that certificate.
"""

import ssl
from functools import lru_cache
from typing import Any

from kubeskew.apimachinery.security.pem import certificates
from kubeskew.apimachinery.security.web_tokens import WrongTokenError, read

_BEARER = "bearer "
_KEPT = 256


class CertificateHolder:
    """Knows the subject of one certificate (PEM); without one nobody is its holder."""

    def __init__(self, certificate: bytes) -> None:
        self._certificate = certificate
        self._encoded = certificates(certificate.decode())[0] if certificate else b""

    def is_shown(self, connection: ssl.SSLObject | None) -> bool:
        """True if the peer has shown a certificate of the same subject, which the handshake verified."""
        shown = connection.getpeercert(binary_form=True) if connection is not None else None
        if not shown or not self._encoded:
            return False
        return shown == self._encoded or _same_subject(shown, self._encoded)


def _same_subject(shown: bytes, own: bytes) -> bool:
    from cryptography import x509  # only for a certificate that was renewed

    first, second = map(x509.load_der_x509_certificate, (shown, own))
    return first.subject == second.subject


@lru_cache(maxsize=_KEPT)
def user_of(authorization: str) -> str:
    """The user whom a bearer token names, not checked; empty if it names none."""
    if not authorization.lower().startswith(_BEARER):
        return ""
    try:
        claims: dict[str, Any] = read(authorization[len(_BEARER) :].strip()).claims
    except WrongTokenError:
        return ""
    subject = claims.get("sub")
    return subject if isinstance(subject, str) else ""
