"""Finds the issuer of a client certificate: the authority of clients, or that of front proxies.

The transport takes certificates of both. A proxy's certificate makes nobody a client, nor a client's a proxy.
"""

from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from kubeskew.apiserver.caching.generations import TwoGenerationCache
from kubeskew.apiserver.http.request import Peer

if TYPE_CHECKING:
    from cryptography import x509

_REMEMBERED = 2_000


class Authority(Enum):
    """Names the purposes of certificates."""

    CLIENTS = "clients"
    FRONT_PROXIES = "front proxies"


_CLIENTS = frozenset({Authority.CLIENTS})


class Authorities:
    """Holds the certificates of `--client-ca-file` and `--requestheader-client-ca-file`, PEM.

    If both are given, a certificate must be issued directly by one in the files.
    """

    def __init__(self, clients: bytes = b"", front_proxies: bytes = b"") -> None:
        self._bundles = {Authority.CLIENTS: clients, Authority.FRONT_PROXIES: front_proxies}
        self._known: TwoGenerationCache[str, frozenset[Authority]] = TwoGenerationCache(_REMEMBERED)

    def of(self, peer: Peer) -> frozenset[Authority]:
        """Returns the authorities that issued the peer's certificate."""
        if not self._bundles[Authority.FRONT_PROXIES] or not peer.certificate:
            return _CLIENTS  # the only authority there is; or a caller in this process
        found = self._known.get(peer.fingerprint)
        if found is None:
            found = self._issuers(peer.certificate)
            self._known.put(peer.fingerprint, found)
        return found

    def _issuers(self, der: bytes) -> frozenset[Authority]:
        return frozenset(
            authority for authority, bundle in self._bundles.items() if bundle and _is_issued(der, bundle)
        )


@lru_cache(maxsize=_REMEMBERED)
def _is_issued(der: bytes, bundle: bytes) -> bool:
    """Returns whether a certificate is issued by one of a bundle. Each start of a server in this process
    asks anew."""
    from cryptography import x509

    certificate = x509.load_der_x509_certificate(der)
    return any(_is_issued_by(certificate, issuer) for issuer in x509.load_pem_x509_certificates(bundle))


def _is_issued_by(certificate: "x509.Certificate", authority: "x509.Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
