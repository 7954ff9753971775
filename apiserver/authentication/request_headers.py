"""Authenticates the users whom a front proxy names in headers, as another server's aggregator does.

Source: k8s.io/apiserver/pkg/authentication/request/headerrequest/requestheader.go, 1.36.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from multidict import CIMultiDict

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.authentication.authorities import Authorities, Authority
from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.user import User, authenticated


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The flags `--requestheader-…`: the headers of users, and the names that a proxy's certificate may
    have."""

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
        """Returns the user that a proxy names, None if none does; the headers are gone then, whoever sent
        them.
        """
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
        """Removes the headers, so that no backend that gets the request takes them for this server's."""
        headers = request.headers
        if any(name[:1] in "xX" or name.lower() in self._names for name in headers):
            kept = [(name, value) for name, value in headers.items() if not self._tells(name.lower())]
            if len(kept) < len(headers):
                request.headers = CIMultiDict(kept)

    def _tells(self, name: str) -> bool:
        return name in self._names or name.startswith(self._prefixes)


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names for value in _all(headers, name) if value), "")


def _all(headers: Mapping[str, str], wanted: str) -> Iterator[str]:
    """Yields every value of a header, which may come several times."""
    lowered = wanted.lower()
    return (value for name, value in headers.items() if name.lower() == lowered)
