"""Authenticates requests: the authenticators of a server in upstream's order, and its file of bearer tokens.

The file has lines `token,user,uid,"group1,group2"`.

Source: k8s.io/apiserver/pkg/authentication/token/tokenfile/tokenfile.go, 1.36.
"""

import csv
from collections.abc import Iterable, Sequence

from kubeskew.apimachinery.security import web_tokens
from kubeskew.apiserver.authentication import Authenticator, Identity, TokenError, TokenSource
from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.user import ANONYMOUS, UNAUTHENTICATED_GROUP, User, authenticated

WEBSOCKET_TOKEN = "base64url.bearer.authorization.k8s.io."  # noqa: S105 - what stands before a token
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
    if WEBSOCKET_TOKEN not in offered or "websocket" not in request.headers.get("upgrade", "").lower():
        return ""
    protocols = [protocol.strip() for protocol in offered.split(",")]
    tokens = [
        protocol.removeprefix(WEBSOCKET_TOKEN)
        for protocol in protocols
        if protocol.startswith(WEBSOCKET_TOKEN)
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
WRONG_TOKEN = "invalid bearer token"  # noqa: S105 - a text


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
        raise TokenError(f"[{', '.join([WRONG_TOKEN, *errors])}]" if errors else WRONG_TOKEN)
