"""Defines authenticators, each of which identifies users by one kind of proof."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.user import User


class TokenError(ValueError):
    """A token that was once good, or is good for somebody else; the text says why."""


class Identity(NamedTuple):
    """Whose a token is, and for which of the audiences that were asked for."""

    user: User
    audiences: tuple[str, ...]


class Authenticator(Protocol):
    """Finds the user of a request."""

    def authenticate(self, request: Request) -> User | None:
        """The user; None if the request proves nothing, or proves it wrongly."""
        ...


class TokenSource(Protocol):
    """Knows some bearer tokens."""

    def identify(self, text: str, audiences: Sequence[str]) -> Identity | None:
        """Whose token it is, None if it is none of this source; raises TokenError."""
        ...
