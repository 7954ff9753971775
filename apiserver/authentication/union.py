"""The authenticators of a server, in upstream's order, and what happens when none knows the user."""

from collections.abc import Sequence

from apiserver.authentication import Authenticator
from apiserver.request import Request
from apiserver.user import ANONYMOUS, UNAUTHENTICATED_GROUP, User

ANONYMOUS_USER = User(ANONYMOUS, groups=(UNAUTHENTICATED_GROUP,))


class UnionAuthenticator:
    """The first that knows the user; without any proof, the anonymous user if that is allowed."""

    def __init__(self, authenticators: Sequence[Authenticator], anonymous: bool = True) -> None:
        self._authenticators = tuple(authenticators)
        self._anonymous = anonymous

    def authenticate(self, request: Request) -> User | None:
        for authenticator in self._authenticators:
            user = authenticator.authenticate(request)
            if user is not None:
                return user
        if "authorization" in request.headers or not self._anonymous:
            return None
        return ANONYMOUS_USER
