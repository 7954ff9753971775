"""Authenticates users by client certificates, and by the headers in which front proxies name users.

The transport takes certificates of both. A proxy's certificate makes nobody a client, nor a client's a proxy.

Source: k8s.io/apiserver/pkg/authentication/request/headerrequest/requestheader.go, 1.36.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from multidict import CIMultiDict

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.http.request import Peer, Request
from kubeskew.apiserver.user import User, authenticated

if TYPE_CHECKING:
    from cryptography import x509

_REMEMBERED = 2_000
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_CERTIFICATES_REMEMBERED = 5_000


class Authority(Enum):
    CLIENTS = "clients"
    FRONT_PROXIES = "front proxies"


_CLIENTS = frozenset({Authority.CLIENTS})


class Authorities:
    """`clients` is the PEM of `--client-ca-file`, `front_proxies` that of `--requestheader-client-ca-file`.

    If both are given, a certificate must be issued directly by one in the files.
    """

    def __init__(self, clients: bytes = b"", front_proxies: bytes = b"") -> None:
        self._bundles = {Authority.CLIENTS: clients, Authority.FRONT_PROXIES: front_proxies}
        self._known: TwoGenerationCache[str, frozenset[Authority]] = TwoGenerationCache(_REMEMBERED)

    def of(self, peer: Peer) -> frozenset[Authority]:
        """Everybody is a client if no front proxies are configured, and so are callers in this process."""
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
    """The issuer in the bundle must have signed directly. Later servers of this process share the answers."""
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


class CertificateAuthenticator:
    """Authenticates by certificates that the transport has verified, while they are valid.

    The transport verifies against the client CA once, when the connection begins; a connection may outlive
    its certificate.
    """

    def __init__(
        self, clock: Clock, authorities: Authorities | None = None, *, adds_credential_id: bool = False
    ) -> None:
        """With `adds_credential_id`, users have the id of their certificate, as from 1.32 on."""
        self._clock = clock
        self._authorities = authorities or Authorities()
        self._adds_id = adds_credential_id
        self._users: TwoGenerationCache[Peer, User] = TwoGenerationCache(_CERTIFICATES_REMEMBERED)

    def authenticate(self, request: Request) -> User | None:
        peer = request.peer
        if (
            peer is None
            or not peer.common_name
            or (peer.until < math.inf and self._clock.now().timestamp() > peer.until)
            or Authority.CLIENTS not in self._authorities.of(peer)
        ):
            return None
        user = self._users.get(peer)
        if user is None:
            extra = {}
            if self._adds_id and peer.fingerprint:
                extra[_CREDENTIAL] = (f"X509SHA256={peer.fingerprint}",)
            user = User(peer.common_name, groups=authenticated(peer.organizations), extra=extra)
            self._users.put(peer, user)
        return user


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """Flags `--requestheader-…` name the headers of users, and the names in certificates of proxies."""

    usernames: tuple[str, ...] = ()
    uids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()
    allowed_names: tuple[str, ...] = ()  # empty: any


class RequestHeaderAuthenticator:
    """Authenticates by headers of requests with a certificate of the front proxies' authority."""

    def __init__(self, headers: RequestHeaders, authorities: Authorities, clock: Clock) -> None:
        self._headers = headers
        self._authorities = authorities
        self._clock = clock
        self._names = frozenset(
            name.lower() for names in (headers.usernames, headers.uids, headers.groups) for name in names
        )
        self._prefixes = tuple(prefix.lower() for prefix in headers.extra_prefixes)

    def authenticate(self, request: Request) -> User | None:
        """None if no proxy names a user; the headers are removed, no matter who sent them."""
        user = self._named(request) if self._is_proxy(request) else None
        self._clear(request)
        return user

    def _is_proxy(self, request: Request) -> bool:
        peer = request.peer
        if peer is None or Authority.FRONT_PROXIES not in self._authorities.of(peer):
            return False
        if peer.until < math.inf and self._clock.now().timestamp() > peer.until:
            return False
        return not self._headers.allowed_names or peer.common_name in self._headers.allowed_names

    def _named(self, request: Request) -> User | None:
        wanted, headers = self._headers, request.headers
        name = _first(headers, wanted.usernames)
        if not name:
            return None
        groups = [value for header in wanted.groups for value in _all(headers, header) if value]
        return User(name, _first(headers, wanted.uids), authenticated(groups), self._extra(headers))

    def _extra(self, headers: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name, value in headers.items():
            for prefix in self._prefixes:
                if name.lower().startswith(prefix):
                    key = unquote(name.lower().removeprefix(prefix))
                    found[key] = (*found.get(key, ()), value)
        return found

    def _clear(self, request: Request) -> None:
        """Backends that receive the request must not take the headers for this server's."""
        headers = request.headers
        if any(name[:1] in "xX" or name.lower() in self._names for name in headers):
            kept = [
                (name, value) for name, value in headers.items() if not self._is_user_header(name.lower())
            ]
            if len(kept) < len(headers):
                request.headers = CIMultiDict(kept)

    def _is_user_header(self, name: str) -> bool:
        return name in self._names or name.startswith(self._prefixes)


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names for value in _all(headers, name) if value), "")


def _all(headers: Mapping[str, str], wanted: str) -> Iterator[str]:
    lowered = wanted.lower()
    return (value for name, value in headers.items() if name.lower() == lowered)
