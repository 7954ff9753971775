"""Authenticates requests: the authenticators of a server in upstream's order, and each but that of accounts.

- Client certificates, and the headers in which front proxies name users. The transport takes certificates of
  both; a proxy's certificate makes nobody a client, nor a client's a proxy.
- Bearer tokens of a file with lines `token,user,uid,"group1,group2"`.

Sources, all 1.36: k8s.io/apiserver/pkg/authentication (request/headerrequest/requestheader.go,
token/tokenfile/tokenfile.go).
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from multidict import CIMultiDict

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.security import web_tokens
from kubeskew.apiserver.authentication import Authenticator, Identity, TokenError, TokenSource
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.http.request import Peer, Request
from kubeskew.apiserver.user import ANONYMOUS, UNAUTHENTICATED_GROUP, User, authenticated

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


BEARER_PROTOCOL = "base64url.bearer.authorization.k8s.io."  # stands before a token among the protocols
_COLUMNS = 3
_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"


class TokenFileError(ValueError):
    """The token file is not valid."""


class TokenFile:
    """Authenticates the tokens of a file, which are for the server's own `audiences`."""

    def __init__(self, lines: Iterable[str], audiences: Sequence[str]) -> None:
        self._users = dict(_read(lines))
        self._audiences = tuple(audiences)

    def identify(self, text: str, audiences: Sequence[str]) -> Identity | None:
        """None if the token is not in the file, or for none of `audiences`."""
        user = self._users.get(text)
        common = tuple(audience for audience in self._audiences if audience in audiences)
        return Identity(user, common) if user is not None and common else None


def bearer_token(request: Request) -> str:
    """The text is empty if there is no bearer in the Authorization header.

    Source: k8s.io/apiserver/pkg/authentication/request/bearertoken/bearertoken.go, 1.36.
    """
    scheme, *rest = request.headers.get("authorization", "").strip().split(" ", 2)
    if not rest or scheme.lower() != "bearer":
        return ""
    if not rest[0]:
        request.warnings.append(_SPACE)
    return rest[0]


def websocket_token(request: Request) -> str:
    """A browser's WebSocket carries the token among its protocols; the text is empty if there is none.

    Raises TokenError (k8s.io/apiserver/pkg/authentication/request/websocket/protocol.go, 1.36): the token is
    no protocol that could be chosen, so another has to be offered with it.
    """
    offered = request.headers.get("sec-websocket-protocol", "")
    if BEARER_PROTOCOL not in offered or "websocket" not in request.headers.get("upgrade", "").lower():
        return ""
    protocols = [protocol.strip() for protocol in offered.split(",")]
    tokens = [
        protocol.removeprefix(BEARER_PROTOCOL)
        for protocol in protocols
        if protocol.startswith(BEARER_PROTOCOL)
    ]
    if len(tokens) > 1:
        raise TokenError("multiple base64.bearer.authorization tokens specified")
    if tokens and len(protocols) == 1:
        raise TokenError("missing additional subprotocol")
    try:
        return web_tokens.decode(tokens[0]).decode() if tokens else ""
    except UnicodeDecodeError:
        raise TokenError("invalid base64.bearer.authorization token") from None
    except ValueError:
        raise TokenError("invalid base64.bearer.authorization token encoding") from None


def _read(lines: Iterable[str]) -> Iterable[tuple[str, User]]:
    for row in csv.reader(lines):
        if not row:
            continue
        if len(row) < _COLUMNS:
            raise TokenFileError(
                f"token file must have at least 3 columns (token, user name, user uid), found {len(row)}"
            )
        token, name, uid = (column.strip() for column in row[:_COLUMNS])
        if not token:
            raise TokenFileError("empty token has been found in token file")
        groups = tuple(group.strip() for group in row[_COLUMNS].split(",")) if len(row) > _COLUMNS else ()
        yield token, User(name, uid, authenticated([group for group in groups if group]))


ANONYMOUS_USER = User(ANONYMOUS, groups=(UNAUTHENTICATED_GROUP,))
INVALID_BEARER = "invalid bearer token"


class UnionAuthenticator:
    """Authenticates by a front proxy's headers, a certificate, then a bearer token.

    Requests without any proof are the anonymous user's, if that is allowed. `audiences` are the server's own:
    a token must be for one of them.
    """

    def __init__(
        self,
        certificates: Authenticator,
        tokens: Sequence[TokenSource],
        audiences: Sequence[str],
        *,
        anonymous: bool = True,
        request_headers: Authenticator | None = None,
    ) -> None:
        self._certificates = certificates
        self._request_headers = request_headers
        self._tokens = tuple(tokens)
        self._anonymous = anonymous
        self.audiences = tuple(audiences)

    def authenticate(self, request: Request) -> User | None:
        user = self._request_headers.authenticate(request) if self._request_headers is not None else None
        user = user or self._certificates.authenticate(request)
        if user is not None:
            return user
        try:
            token = bearer_token(request) or websocket_token(request)
            if token:
                return self.identify(token, self.audiences).user
        except TokenError:
            return None
        if request.peer is not None and request.peer.common_name:
            # An invalid certificate is a 401, not an anonymous user; one without a name counts as none.
            return None
        return ANONYMOUS_USER if self._anonymous else None

    def identify(self, token: str, audiences: Sequence[str]) -> Identity:
        """Raises TokenError with the errors of all sources."""
        errors = []
        for source in self._tokens:
            try:
                found = source.identify(token, audiences)
            except TokenError as error:
                errors.append(str(error))
            else:
                if found is not None:
                    return found
        raise TokenError(f"[{', '.join([INVALID_BEARER, *errors])}]" if errors else INVALID_BEARER)
