"""Authenticates and authorizes requests as any extension server: by front proxies, certificates and reviews.

Source: k8s.io/apiserver, pkg/server/options/{authentication,authorization}.go and
pkg/authentication/request/headerrequest, 1.36.
"""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from kubeskew.apimachinery.client.refs import CONFIG_MAPS
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.client.reviews import (
    ANONYMOUS,
    AUTHENTICATED,
    Lifetimes,
    Requester,
    Reviews,
    bearer_token,
    user_of_certificate,
)
from kubeskew.apimachinery.clock import Clock

_NAMESPACE, _NAME = "kube-system", "extension-apiserver-authentication"
_LIFETIMES = Lifetimes(tokens=10.0, allowed=10.0, denied=10.0)
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/livez"})


@dataclass(frozen=True, slots=True)
class Trust:
    """Trust that the API server publishes: authorities (PEM) of clients and of front proxies, the headers in
    which the latter name the user, and their common names; without names any is trusted."""

    clients: str
    proxies: str
    usernames: tuple[str, ...]
    uids: tuple[str, ...]
    groups: tuple[str, ...]
    extra_prefixes: tuple[str, ...]
    allowed_names: tuple[str, ...]

    @classmethod
    def of(cls, data: Mapping[str, str]) -> "Trust":
        """Reads the ConfigMap's data. Raises ValueError."""
        names = ("username-headers", "uid-headers", "group-headers", "extra-headers-prefix", "allowed-names")
        lists = [tuple(json.loads(data.get(f"requestheader-{name}") or "[]")) for name in names]
        return cls(data.get("client-ca-file", ""), data.get("requestheader-client-ca-file", ""), *lists)


async def read_trust(client: APIClient) -> Trust:
    """Reads the API server's ConfigMap. Raises StatusError, ConnectionError, ValueError."""
    found = await client.get(CONFIG_MAPS, _NAME, _NAMESPACE)
    return Trust.of(found.get("data") or {})


class Access:
    """Authenticates requests and authorizes their users."""

    def __init__(self, trust: Trust, client: APIClient, clock: Clock) -> None:
        self._trust = trust
        self._reviews = Reviews(client, clock, _LIFETIMES)
        self._proxies = _subjects(trust.proxies)

    def context(self, certificate: str, key: str) -> ssl.SSLContext:
        """TLS settings of the server: clients may show a certificate of an authority that is trusted.

        `certificate` and `key` are files.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        for authority in (self._trust.clients, self._trust.proxies):
            if authority:
                context.load_verify_locations(cadata=authority)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context

    async def requester(self, request: web.BaseRequest) -> Requester | None:
        """None if a token that came with the request is nobody's."""
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        if certificate:
            if certificate["issuer"] not in self._proxies:
                return user_of_certificate(certificate)
            named = self._named(certificate, request)
            if named is not None:
                return named
        if token := bearer_token(request.headers.get("Authorization", "")):
            return await self._reviews.user_of(token)
        return ANONYMOUS

    async def allows(self, requester: Requester, verb: str, path: str, resource: Mapping[str, str]) -> bool:
        """An empty `resource` stands for the path itself. Raises one of `reviews.FAILURES`."""
        if not resource and path in OPEN_PATHS:
            return True
        attributes = {"verb": verb, **(resource or {"path": path})}
        return await self._reviews.allows(requester, attributes, of_resource=bool(resource))

    def _named(self, certificate: Any, request: web.BaseRequest) -> Requester | None:
        """The user that a front proxy names; None if it is none that may, or names nobody."""
        trust, headers = self._trust, request.headers
        if trust.allowed_names and user_of_certificate(certificate).name not in trust.allowed_names:
            return None
        name = next((headers[header] for header in trust.usernames if headers.get(header)), "")
        if not name:
            return None
        groups = [value for header in trust.groups for value in headers.getall(header, ())]
        uid = next((headers[header] for header in trust.uids if headers.get(header)), "")
        if AUTHENTICATED not in groups:
            groups.append(AUTHENTICATED)
        return Requester(name, tuple(groups), uid, self._extra(request))

    def _extra(self, request: web.BaseRequest) -> tuple[tuple[str, tuple[str, ...]], ...]:
        found: dict[str, list[str]] = {}
        for header, value in request.headers.items():
            for prefix in self._trust.extra_prefixes:
                if header.lower().startswith(prefix.lower()):
                    found.setdefault(unquote(header.lower()[len(prefix) :]), []).append(value)
        return tuple((key, tuple(values)) for key, values in sorted(found.items()))


def _subjects(authorities: str) -> list[Any]:
    """Subjects of the authorities in a PEM text, in the form of `getpeercert`'s issuers."""
    if not authorities:
        return []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=authorities)
    return [known["subject"] for known in context.get_ca_certs()]
