"""Tries the authenticators of a server, in upstream's order; decides about requests unknown to all."""

from collections.abc import Sequence

from kubeskew.apiserver.authentication import Authenticator, Identity, TokenError, TokenSource
from kubeskew.apiserver.authentication.tokens import bearer_token, websocket_token
from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.user import ANONYMOUS, UNAUTHENTICATED_GROUP, User

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
