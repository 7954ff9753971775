"""Defines authenticators, each of which identifies users by one kind of proof."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.user import User


class TokenError(ValueError):
    """The token has expired, or is meant for others; the text says why."""


class Identity(NamedTuple):
    """`audiences` are those of the requested ones that the token is for."""

    user: User
    audiences: tuple[str, ...]


class Authenticator(Protocol):
    def authenticate(self, request: Request) -> User | None:
        """None if the request proves nothing, or proves it wrongly."""
        ...


class TokenSource(Protocol):
    def identify(self, text: str, audiences: Sequence[str]) -> Identity | None:
        """None if the token is not of this source; raises TokenError."""
        ...
