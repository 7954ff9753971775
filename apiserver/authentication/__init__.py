"""Who asks: authenticators, each from one kind of proof."""

from typing import Protocol

from apiserver.request import Request
from apiserver.user import User


class Authenticator(Protocol):
    """Finds the user of a request."""

    def authenticate(self, request: Request) -> User | None:
        """The user; None if the request proves nothing, or proves it wrongly."""
        ...
