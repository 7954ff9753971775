"""Authenticates and authorizes requests to a node's server: client certificates, then reviews by the API
server.

Source: k8s.io/kubernetes/pkg/kubelet/server/{auth.go,server.go} (InstallAuthFilter, GetRequestAttributes),
1.26 to 1.36 (up to 1.31 a request has one subresource), and k8s.io/apiserver's delegating authenticator and
authorizer, 1.36.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.client.reviews import (
    ANONYMOUS,
    FAILURES,
    Lifetimes,
    Requester,
    Reviews,
    bearer_token,
    user_of_certificate,
)
from kubeskew.apimachinery.clock import Clock

log = logging.getLogger(__name__)

_VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SUBRESOURCES = {"/stats": "stats", "/metrics": "metrics", "/logs": "log", "/checkpoint": "checkpoint"}
_FINE = {"/healthz": "healthz", "/pods": "pods", "/runningpods": "pods", "/configz": "configz"}


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """The kubelet's flags; the defaults are those of a KubeletConfiguration. Times are seconds."""

    anonymous: bool = False
    token_webhook: bool = True
    token_ttl: float = 120.0
    authorization_webhook: bool = True  # else every authenticated user may do everything
    authorized_ttl: float = 300.0
    unauthorized_ttl: float = 30.0


class Access:
    """Decides about requests to one node's server, by reviews with the node's own client."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        node: str,
        options: AccessOptions,
        *,
        fine_grained: bool,
        plural: bool,
    ) -> None:
        """`fine_grained`: some paths have separate subresources; `plural`: refusals name all of them."""
        lifetimes = Lifetimes(options.token_ttl, options.authorized_ttl, options.unauthorized_ttl)
        self._reviews = Reviews(client, clock, lifetimes)
        self._node = node
        self._options = options
        self._fine_grained = fine_grained
        self._plural = plural

    async def refusal(self, request: web.BaseRequest, path: str) -> web.Response | None:
        """None means that the request is allowed; else the answer refuses it. `path` is decoded."""
        requester = await self._authenticate(request)
        if requester is None:
            return web.Response(status=401, text="Unauthorized")
        verb, subresources = _VERBS.get(request.method, ""), self._subresources(path)
        about = f"(user={requester.name}, verb={verb}, resource=nodes, {self._shown(subresources)})"
        if not self._options.authorization_webhook:
            return None
        try:
            for subresource in subresources:
                if await self._allowed(requester, verb, subresource):
                    return None
        except FAILURES as error:
            log.error("Authorization error %s: %s", about, error)
            return web.Response(status=500, text=f"Authorization error {about}")
        return web.Response(status=403, text=f"Forbidden {about}")

    def _subresources(self, path: str) -> list[str]:
        for root, name in _SUBRESOURCES.items():
            if _is_below(path, root):
                return [name]
        fine = next((name for root, name in _FINE.items() if _is_below(path, root)), "")
        return [fine, "proxy"] if fine and self._fine_grained else ["proxy"]

    def _shown(self, subresources: Sequence[str]) -> str:
        return (
            f"subresource(s)=[{' '.join(subresources)}]" if self._plural else f"subresource={subresources[0]}"
        )

    async def _authenticate(self, request: web.BaseRequest) -> Requester | None:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        if certificate:
            return user_of_certificate(certificate)
        token = bearer_token(request.headers.get("Authorization", ""))
        if token and self._options.token_webhook:
            return await self._reviews.user_of(token)
        return ANONYMOUS if self._options.anonymous else None

    async def _allowed(self, requester: Requester, verb: str, subresource: str) -> bool:
        attributes = {
            "verb": verb,
            "version": "v1",
            "resource": "nodes",
            "subresource": subresource,
            "name": self._node,
        }
        return await self._reviews.allows(requester, attributes)


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")
