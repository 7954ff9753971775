"""Defines authenticators, each of which identifies users by one kind of proof."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.user import User


class TokenError(ValueError):
    """A token that has expired, or is meant for others; the text says why."""


class Identity(NamedTuple):
    """Holds the user of a token, and those of the requested audiences that it is for."""

    user: User
    audiences: tuple[str, ...]


class Authenticator(Protocol):
    """Finds the user of a request."""

    def authenticate(self, request: Request) -> User | None:
        """Returns the user; None if the request proves nothing, or proves it wrongly."""
        ...


class TokenSource(Protocol):
    """Authenticates some bearer tokens."""

    def identify(self, text: str, audiences: Sequence[str]) -> Identity | None:
        """Finds the token's user, None if it is not of this source; raises TokenError."""
        ...
